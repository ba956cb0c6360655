"""What a network wants of its pictures: mean, deviation and the order of channels, and whether the file has the same.

Told by what the network got in training for the same pictures; or, without that, by the batch normalisations of the ONNX file: they
keep the mean and the variance that their inputs had in training, and another preprocessing gives others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.formats import IoTensor

from ..dumps import Dump

__all__ = ["Preprocessing", "Wanted", "fitted", "from_norms", "norms_of", "told_by"]

Array = NDArray[Any]
_FITS = 0.05  # relative error of a fit that is none by chance
_PIXELS = 2.0  # of a mean
_SHARE = 0.03  # of a deviation
_FAR, _NEARER = (
    0.3,
    0.34,
)  # of what normalisations are off before anything is suspected; of it, what must be left
_VALUES = 64  # per channel, for a mean to say something
_NAMED_ORDERS: dict[tuple[int, ...], str] = {(0, 1, 2): ", RGB", (2, 1, 0): ", BGR"}
_USUAL = (
    ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    ((0.0, 0.0, 0.0), (255.0, 255.0, 255.0)),
    ((127.5, 127.5, 127.5), (127.5, 127.5, 127.5)),
    ((127.5, 127.5, 127.5), (128.0, 128.0, 128.0)),
    ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
    ((123.68, 116.779, 103.939), (1.0, 1.0, 1.0)),
)
"""Mean and deviation of red, green and blue."""


@dataclass(frozen=True)
class Preprocessing:
    """``mean`` and ``std`` in the order of the network's channels; ``order``: which channel of the picture each of them is."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    order: tuple[int, ...]

    def __call__(self, pixels: Array) -> Array:
        """Pixels, NCHW, as the network gets them."""
        shape = (1, -1, 1, 1)
        mean, std = (np.array(each, np.float32).reshape(shape) for each in (self.mean, self.std))
        return np.ascontiguousarray((pixels[:, list(self.order)].astype(np.float32) - mean) / std, np.float32)

    def as_mean(self, other: Preprocessing) -> bool:
        """Whether mean and deviation are another's."""
        means = np.abs(np.subtract(self.mean, other.mean)) <= _PIXELS
        stds = np.abs(np.divide(self.std, other.std) - 1) <= _SHARE
        return bool(means.all() and stds.all())

    def __str__(self) -> str:
        def told(numbers: Sequence[float]) -> str:
            texts = [f"{number:.4g}" for number in numbers]
            return texts[0] if len(set(texts)) == 1 else ", ".join(texts)

        order = _NAMED_ORDERS.get(tuple(self.order), "")
        return f"mean {told(self.mean)}, deviation {told(self.std)}{order}"


@dataclass(frozen=True)
class Wanted:
    """What the network wants, what the file has, and how that is known; ``exact``: the network got other values in this comparison
    than the file makes of the same pictures."""

    network: Preprocessing
    file: Preprocessing
    why: str
    exact: bool = False

    @property
    def mean(self) -> bool:
        """Whether mean and deviation differ."""
        return not self.network.as_mean(self.file)

    @property
    def order(self) -> bool:
        """Whether the order of channels does."""
        return self.network.order != self.file.order


def told_by(io: IoTensor) -> Optional[Preprocessing]:
    """That of the file; None for inputs that are no pictures."""
    if len(io.shape) != 4 or io.shape[1] not in (1, 3) or not (io.quant is not None or io.dtype.is_float):
        return None
    channels = io.shape[1]

    def numbers(given: Sequence[float], default: float) -> tuple[float, ...]:
        return tuple(given) if len(given) == channels else tuple(given or (default,))[:1] * channels

    return Preprocessing(
        numbers(io.mean, 0.0), numbers(io.std, 1.0), tuple(io.reorder) or tuple(range(channels))
    )


def fitted(file: Preprocessing, pixels: Sequence[Array], given: Sequence[Array]) -> Optional[Wanted]:
    """From pixels and what the network got for them, both NCHW; None where no preprocessing makes one of the other."""
    if any(a.shape != b.shape for a, b in zip(pixels, given)):
        return None
    x, y = (
        np.concatenate([np.moveaxis(each, 1, 0).reshape(each.shape[1], -1) for each in side], axis=1)
        for side in (pixels, given)
    )
    found = []
    for order in _orders(len(x)):
        lines = [_line(x[source], target) for source, target in zip(order, y)]
        error = max(line[2] for line in lines)
        # pixel = mean + deviation * value
        means, stds = tuple(line[0] for line in lines), tuple(line[1] for line in lines)
        found.append((error, Preprocessing(means, stds, order)))
    error, best = min(found, key=lambda pair: pair[0])
    if error > _FITS or min(best.std) <= 0:
        return None
    wanted = Wanted(
        best, file, "what the network got for these pictures follows from their pixels that way", True
    )
    return wanted if wanted.mean or wanted.order else None


def _line(pixels: Array, values: Array) -> tuple[float, float, float]:
    """Mean, deviation and the relative error of ``values = (pixels - mean) / deviation``."""
    x, y = pixels.astype(np.float64), values.astype(np.float64)
    variance = float(x.var())
    slope = float(((x - x.mean()) * (y - y.mean())).mean()) / variance if variance else 0.0
    if not slope:
        return 0.0, 0.0, np.inf
    start = float(y.mean()) - slope * float(x.mean())
    spread = float(y.std()) or 1.0
    return -start / slope, 1 / slope, float(np.sqrt(np.mean((slope * x + start - y) ** 2))) / spread


def _orders(channels: int) -> list[tuple[int, ...]]:
    return [(0, 1, 2), (2, 1, 0)] if channels == 3 else [tuple(range(channels))]


@dataclass(frozen=True)
class _Norm:
    """The input of a batch normalisation, and its mean and variance in training."""

    source: str
    mean: Array
    variance: Array


def norms_of(path: Path) -> list[_Norm]:
    """The batch normalisations of an ONNX file that say something; raises ModelInvalid."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    found = []
    for node in graph.node:
        if node.op_type == "BatchNormalization" and all(name in stored for name in node.input[3:5]):
            mean, variance = (
                numpy_helper.to_array(stored[name]).astype(np.float64) for name in node.input[3:5]
            )
            if np.any(mean) or np.any(variance != 1):
                found.append(_Norm(node.input[0], mean, variance))
    return found


def from_norms(
    file: Preprocessing,
    norms: Sequence[_Norm],
    pixels: Sequence[Array],
    run: Callable[[Array], Dump],
    drop: Callable[[Dump], None],
) -> Optional[Wanted]:
    """The usual preprocessing under which the normalisations see what they saw in training, where that of the file is none.

    Args:
        pixels: NCHW.
        run: the network in ONNX on what its input gets; drop: deletes a run.
    """

    def off(how: Preprocessing) -> float:
        seen: dict[str, list[Array]] = {}
        for picture in pixels:
            dump = run(how(picture))
            for norm in norms:
                if norm.source in dump.names:
                    value = dump.value(norm.source)
                    seen.setdefault(norm.source, []).append(
                        np.moveaxis(value, 1, 0).reshape(value.shape[1], -1)
                    )
            drop(dump)
        return _apart(norms, {name: np.concatenate(parts, axis=1) for name, parts in seen.items()})

    own = off(file)
    if not norms or own < _FAR:
        return None
    best, least = file, own
    for order in _orders(len(file.order)):
        for mean, std in [(file.mean, file.std), *_USUAL]:
            if len(order) != len(mean):
                continue
            if mean is not file.mean:
                mean, std = (tuple(each[i] for i in order) for each in (mean, std))
            how = Preprocessing(mean, std, order)
            apart = off(how)
            if apart < least:
                best, least = how, apart
    if least > _NEARER * own:
        return None
    why = f"the network's batch normalisations then see what they saw in training, {least:.2g} off instead of {own:.2g}"
    wanted = Wanted(best, file, why)
    return wanted if wanted.mean or wanted.order else None


def _apart(norms: Sequence[_Norm], seen: Mapping[str, Array]) -> float:
    """How far what normalisations see is from what they saw: the divergence of two bell curves, the middle of all channels; the
    mean of all normalisations."""
    found = []
    for norm in norms:
        values = seen.get(norm.source)
        if values is None or values.shape[1] < _VALUES or len(values) != len(norm.mean):
            continue
        there = norm.variance > 1e-12
        variance = np.maximum(values.var(axis=1)[there], 1e-12)
        ratio = variance / norm.variance[there]
        shift = (values.mean(axis=1)[there] - norm.mean[there]) ** 2 / norm.variance[there]
        each = 0.5 * (ratio + shift - 1 - np.log(ratio))
        found.append(float(each.mean()) if each.size else 0.0)
    return float(np.mean(found)) if found else 0.0
