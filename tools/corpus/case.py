"""What a corpus case is, and how its torch module becomes an ONNX file.

A case is a small network, the inputs it takes and the list of targets (SoC and data type) it is converted
for. Weights are random but reproducible: the seed is derived from the case's name. Batch normalisation is
calibrated by running the network in training mode on the same kind of data that is later used for
quantisation, so that activations are well ranged and int8 outputs use their whole range.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

FAMILIES = ("rk3588", "rk3568", "rk3562", "rk3576", "rv1126b")
SOCS = ("rk3588", "rk3566", "rk3568", "rk3562", "rk3576", "rv1126b", "rv1103", "rv1106", "rv1103b", "rv1106b")
DTYPES = ("i8", "fp16", "i16", "bf16", "w4a16", "w8a16")

IMAGE_MEAN = (123.675, 116.28, 103.53)
IMAGE_STD = (58.395, 57.12, 57.375)

Array = NDArray[np.generic]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Input:
    """One graph input: logical shape (rank 4 means NCHW) and what kind of values it takes.

    ``kind`` is ``image`` (uint8 pixels, smooth), ``noise`` (uint8, every value independent), ``normal``
    (float32, standard normal) or ``ids`` (int64 in ``[0, high)``).
    """

    shape: Shape
    kind: str = "image"
    high: int = 8

    @property
    def is_pixels(self) -> bool:
        """Whether the input carries uint8 pixels (fed as NHWC, with mean and std)."""
        return self.kind in ("image", "noise")

    def sample(self, rng: np.random.Generator, shape: Shape | None = None) -> Array:
        """Draw one array of the logical shape (or of ``shape``), before mean and std."""
        shape = shape or self.shape
        if self.kind == "ids":
            return rng.integers(0, self.high, shape)
        if self.kind == "normal":
            return rng.standard_normal(shape).astype(np.float32)
        if self.kind == "noise":
            return rng.integers(0, 256, shape).astype(np.float32)
        return smooth_image(rng, shape)


@dataclass(frozen=True)
class Case:
    """One network of the corpus and the targets it is converted for.

    Commands are made for one core only, which makes rk3588 and rk3576 files much smaller, unless
    ``multicore`` is set. ``config`` holds further options of the toolkit's ``config`` call; ``hybrid`` makes
    layers of an int8 model compute in another type: pairs of an ONNX tensor name and that type. ``like`` names
    the case whose weights and inputs are used, so that two forms of one network can be compared. Of an
    ``unusable`` file, one that lacks what is needed to run it, no answers are stored.
    ``seed`` draws other weights: a network of random weights may be so badly conditioned that one step of
    difference in its first layer grows to many; such a network tests nothing.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: tuple[Input, ...]
    targets: tuple[str, ...]
    mean: tuple[tuple[float, ...], ...] | None = None
    std: tuple[tuple[float, ...], ...] | None = None
    dynamic: tuple[tuple[Shape, ...], ...] = ()
    batch: int = 1
    opset: int = 17
    samples: int = 8
    calibration_steps: int = 6
    multicore: bool = False
    config: tuple[tuple[str, object], ...] = ()
    hybrid: tuple[tuple[str, str], ...] = ()
    like: str = ""
    seed: int = 0
    unusable: bool = False

    @property
    def identity(self) -> str:
        """What weights and inputs are drawn from."""
        return f"{self.like or self.name}{f'#{self.seed}' if self.seed else ''}"

    def normalisation(self) -> tuple[list[list[float]], list[list[float]]] | None:
        """Mean and std per input and channel, or None if the inputs are not all images."""
        if not all(spec.is_pixels for spec in self.inputs):
            return None
        means = self.mean or tuple(_default(spec.shape[1], IMAGE_MEAN, 127.5) for spec in self.inputs)
        stds = self.std or tuple(_default(spec.shape[1], IMAGE_STD, 64.0) for spec in self.inputs)
        return [list(m) for m in means], [list(s) for s in stds]

    def normalise(self, arrays: Sequence[Array]) -> list[Tensor]:
        """Turn raw samples into what the torch module expects."""
        norm, tensors = self.normalisation(), []
        for i, array in enumerate(arrays):
            x = torch.from_numpy(np.ascontiguousarray(array))
            if norm:
                mean, std = (torch.tensor(v[i]).view(1, -1, 1, 1) for v in norm)
                x = (x - mean) / std
            tensors.append(x)
        return tensors

    def rng(self, purpose: str) -> np.random.Generator:
        """A generator that depends on the case and the purpose only."""
        return np.random.default_rng(zlib.crc32(f"{self.identity}/{purpose}".encode()))

    def samples_of(self, purpose: str, repeat: int = 1) -> list[Array]:
        """One raw sample per input, at the declared shapes with the first dimension repeated."""
        rng = self.rng(purpose)
        return [spec.sample(rng, (spec.shape[0] * repeat, *spec.shape[1:])) for spec in self.inputs]


def load_registry(path: Path) -> dict[str, Case]:
    """The cases of a registry module: a Python file that defines ``CASES``."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    found: dict[str, Case] = module.CASES
    return found


def _default(channels: int, for_rgb: tuple[float, ...], otherwise: float) -> tuple[float, ...]:
    return for_rgb if channels == 3 else (otherwise,) * channels


def smooth_image(rng: np.random.Generator, shape: Shape) -> NDArray[np.float32]:
    """Low-frequency noise with a little grain: images as far as a random network can tell."""
    n, c, h, w = shape
    x = torch.zeros(1)
    for cells, weight in ((3, 1.0), (7, 0.5), (15, 0.25)):
        coarse = torch.from_numpy(rng.standard_normal((n, c, cells, cells)).astype(np.float32))
        x = x + weight * nn.functional.interpolate(coarse, size=(h, w), mode="bicubic", align_corners=True)
    x = x + torch.from_numpy(rng.standard_normal(shape).astype(np.float32)) * 0.05
    x = x / x.std() * 58.0 + 125.0 + float(rng.uniform(-20, 20))
    return np.clip(np.rint(x.numpy()), 0, 255).astype(np.float32)


def build_module(case: Case) -> nn.Module:
    """Build the torch module with reproducible weights and calibrated batch norm, in eval mode."""
    torch.manual_seed(zlib.crc32(case.identity.encode()))
    module = case.build()
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if norms:
        for norm in norms:
            norm.momentum = None  # cumulative average over the calibration steps
            nn.init.uniform_(norm.weight, 0.6, 1.4)
            nn.init.normal_(norm.bias, 0.0, 0.3)
        module.train()
        with torch.no_grad():
            for step in range(case.calibration_steps):
                module(*case.normalise(case.samples_of(f"bn{step}", repeat=4)))
    return module.eval()


def export(case: Case, path: Path) -> None:
    """Write the case's network to an ONNX file with plain input and output names."""
    module = build_module(case)
    example = tuple(case.normalise(case.samples_of("export")))
    with torch.no_grad():
        result = module(*example)
    count = 1 if isinstance(result, Tensor) else len(result)
    inputs = [f"in{i}" for i in range(len(example))]
    outputs = [f"out{i}" for i in range(count)]
    axes: dict[str, dict[int, str]] = {}
    if case.dynamic:
        axes = {name: {2: f"{name}_h", 3: f"{name}_w"} for name in inputs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            example,
            str(path),
            input_names=inputs,
            output_names=outputs,
            opset_version=case.opset,
            dynamic_axes=axes,
            dynamo=False,
        )
