"""Small networks, each with one planted fault, and pictures. What a converter makes of them lies in ``tests/data/faults.tar.xz``.

Needs numpy, onnx and onnxruntime only: the converter's environment imports it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FAULTS", "SIDE", "Fault", "pictures", "real"]

Array = NDArray[Any]
SIDE = 16
HALF = ((127.5,) * 3, (127.5,) * 3)
IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
PLAIN = ((0.0,) * 3, (1.0,) * 3)
UNIT = ((0.0,) * 3, (255.0,) * 3)


@dataclass(frozen=True)
class Fault:
    """A network and what is wrong with its file.

    ``cause`` is the name of a ``Cause`` and ``where`` the tensors that may be named with it (none: any). ``told`` are the mean and
    deviation that the converter is told, ``trained`` those of the training, ``bgr`` that it was trained on the other order of
    channels; ``shown``: what the network got in training is at hand for each picture. ``calibration`` makes the arrays (NCHW) that
    the converter sees of the pictures. ``other`` builds the network that the file is compared with, where it is another one.
    """

    name: str
    cause: str
    build: Callable[[Fault], Any]
    where: tuple[str, ...] = ()
    told: tuple[tuple[float, ...], tuple[float, ...]] = HALF
    trained: tuple[tuple[float, ...], tuple[float, ...]] = HALF
    bgr: bool = False
    shown: bool = False
    calibration: Callable[[list[Array]], list[Array]] = lambda given: given
    vivid: bool = False
    platform: str = "rv1106b"
    quantised: bool = True
    other: Callable[[Fault], Any] | None = None
    config: dict[str, Any] = field(default_factory=dict)

    def calibrated_with(self) -> list[Array]:
        """What the converter is calibrated with: float32, NCHW, before mean and deviation."""
        return self.calibration([nchw(picture) for picture in pictures(range(6), vivid=False)])

    def samples(self) -> list[Array]:
        """uint8 NHWC."""
        return pictures(range(10, 14), self.vivid)

    def network_inputs(self, picture: Array) -> Array:
        """What the network got for a picture in training."""
        return real(nchw(picture), self.trained, self.bgr)


def nchw(picture: Array) -> Array:
    return np.ascontiguousarray(picture.transpose(0, 3, 1, 2).astype(np.float32))


def real(pixels: Array, numbers: tuple[Sequence[float], Sequence[float]], bgr: bool = False) -> Array:
    """Pixels (NCHW, RGB) less the mean, by the deviation."""
    mean, std = (np.array(each, np.float32).reshape(1, 3, 1, 1) for each in numbers)
    found: Array = ((pixels[:, ::-1] if bgr else pixels) - mean) / std
    return np.ascontiguousarray(found, np.float32)


def pictures(seeds: Sequence[int] | range, vivid: bool = False) -> list[Array]:
    """Patches of one colour each, reddish as photographs are, all levels from 0 to 255; not ``vivid``: near to grey."""
    found = []
    for seed in seeds:
        random = np.random.default_rng(100 + seed)
        picture = np.zeros((1, SIDE, SIDE, 3))
        for _ in range(24):
            rows, columns = (np.sort(random.integers(0, SIDE + 1, 2)) for _ in range(2))
            grey = random.uniform(0, 255)
            colour = random.uniform(0, 255, 3) if vivid else grey + random.uniform(-30, 30, 3)
            picture[:, slice(*rows), slice(*columns)] = colour * [1.0, 0.75, 0.5]
        picture += random.normal(0, 6, picture.shape)
        picture[:, 0, :2], picture[:, 1, :2] = 0, 255
        found.append(picture.clip(0, 255).round().astype(np.uint8))
    return found


# -- networks ------------------------------------------------------------------------------------------------


class _Writer:
    """Writes nodes one behind the other; random weights that keep the size of values."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, op: str, inputs: Sequence[str], output: str, **attrs: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(op, list(inputs), [output], f"{op}_{output}", **attrs))
        return output

    def constant(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def weights(self, out: int, into: int, size: int = 3) -> Array:
        return self.random.normal(0, (2 / (into * size * size)) ** 0.5, (out, into, size, size))

    def conv(self, source: str, number: int, weights: Array, bias: Any = None, relu: bool = True) -> str:
        """``c<number>``, and behind it ``r<number>``."""
        names = [source, self.constant(f"w{number}", weights)]
        names += [] if bias is None else [self.constant(f"b{number}", bias)]
        made = self.add("Conv", names, f"c{number}", pads=[weights.shape[2] // 2] * 4)
        return self.add("Relu", [made], f"r{number}") if relu else made

    def norm(self, source: str, number: int, inputs: Sequence[Array]) -> str:
        """Batch normalisation that has seen ``inputs``, and a Relu."""
        import onnxruntime

        session = onnxruntime.InferenceSession(self.model(source).SerializeToString())
        seen = np.concatenate([session.run([source], {"x": each})[0] for each in inputs])
        count = seen.shape[1]
        names = [source]
        for name, value in (
            ("gamma", self.random.uniform(0.7, 1.3, count)),
            ("beta", self.random.normal(0, 0.3, count)),
            ("mean", seen.mean((0, 2, 3))),
            ("variance", seen.var((0, 2, 3))),
        ):
            names.append(self.constant(f"{name}{number}", value))
        self.add("BatchNormalization", names, f"n{number}")
        return self.add("Relu", [f"n{number}"], f"r{number}")

    def model(self, output: str) -> Any:
        from onnx import TensorProto, checker, helper, shape_inference

        ends = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
        start = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])]
        graph = helper.make_graph(self.nodes, "network", start, ends, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        found = shape_inference.infer_shapes(model)
        checker.check_model(found)
        return found


def _plain(fault: Fault, change: Callable[[int, Array], Array] = lambda number, weights: weights) -> Any:
    """Three convolutions; ``change`` may touch the weights of each."""
    writer = _Writer(1)
    made = writer.conv("x", 1, change(1, writer.weights(8, 3)))
    made = writer.conv(made, 2, change(2, writer.weights(8, 8)))
    writer.conv(made, 3, change(3, writer.weights(6, 8, 1)), relu=False)
    return writer.model("c3")


def _large_channel(fault: Fault) -> Any:
    def change(number: int, weights: Array) -> Array:
        if number == 1:
            weights[3] *= 150
        elif number == 2:
            weights[:, 3] /= 150
        return weights

    return _plain(fault, change)


def _large_branch(fault: Fault) -> Any:
    """Two branches of different size behind each other in one tensor."""
    writer = _Writer(2)
    small = writer.conv("x", 1, writer.weights(6, 3))
    large = writer.conv("x", 2, writer.weights(2, 3) * 120)
    writer.add("Concat", [small, large], "joined", axis=1)
    pooled = writer.add("MaxPool", ["joined"], "pooled", kernel_shape=[2, 2], strides=[2, 2])
    weights = writer.weights(8, 8)
    weights[:, 6:] /= 120
    made = writer.conv(pooled, 3, weights)
    writer.conv(made, 4, writer.weights(6, 8, 1), relu=False)
    return writer.model("c4")


def _saturating(fault: Fault) -> Any:
    """One that looks for colours, which a calibration on grey pictures never sees."""
    writer = _Writer(3)
    weights = writer.weights(8, 3, 1)
    weights -= weights.mean(axis=1, keepdims=True)  # nothing for grey
    made = writer.conv("x", 1, weights * 3)
    made = writer.conv(made, 2, writer.weights(8, 8))
    writer.conv(made, 3, writer.weights(6, 8, 1), relu=False)
    return writer.model("c3")


def _normalised(fault: Fault) -> Any:
    """With batch normalisation that has seen what the network was trained on."""
    writer = _Writer(4)
    seen = [fault.network_inputs(picture) for picture in pictures(range(20, 32))]
    made = writer.norm(writer.conv("x", 1, writer.weights(8, 3), relu=False), 1, seen)
    made = writer.norm(writer.conv(made, 2, writer.weights(8, 8), relu=False), 2, seen)
    writer.conv(made, 3, writer.weights(6, 8, 1), relu=False)
    return writer.model("c3")


def _overflow(fault: Fault) -> Any:
    def change(number: int, weights: Array) -> Array:
        return weights * {1: 2e5, 2: 1 / 2e5}.get(number, 1.0)

    return _plain(fault, change)


def _squares(fault: Fault) -> Any:
    """Squares of some hundreds are too large for float16, nothing else is."""
    writer = _Writer(5)
    made = writer.conv("x", 1, writer.weights(8, 3) * 400)
    pooled = writer.add("MaxPool", [made], "pooled", kernel_shape=[2, 2], strides=[2, 2])
    squares = writer.add("Mul", [pooled, pooled], "squares")
    made = writer.conv(squares, 2, writer.weights(8, 8) / 160000)
    writer.conv(made, 3, writer.weights(6, 8, 1), relu=False)
    return writer.model("c3")


def _spread_weights(fault: Fault) -> Any:
    """Large weights on two channels that are the same, so that they cancel: they take the range of the others."""
    writer = _Writer(6)
    first, second = writer.weights(8, 3), writer.weights(8, 8)
    first[5] = first[4]
    second[:, 4] += 40
    second[:, 5] -= 40
    made = writer.conv("x", 1, first)
    made = writer.conv(made, 2, second)
    writer.conv(made, 3, writer.weights(6, 8, 1), relu=False)
    return writer.model("c3")


def _trained_on(fault: Fault) -> Any:
    """The same network some epochs later: one layer has other weights."""
    other = np.random.default_rng(7)
    return _plain(fault, lambda number, weights: weights[other.permutation(8)] if number == 2 else weights)


FAULTS = (
    Fault("large_channel", "LARGE_CHANNELS", _large_channel, ("r1",)),
    Fault("large_branch", "LARGE_CHANNELS", _large_branch, ("joined", "pooled", "r1", "r2")),
    Fault("saturation", "SATURATION", _saturating, ("r1",), vivid=True),
    Fault("mean_shown", "MEAN", _plain, told=UNIT, trained=IMAGENET, shown=True),
    Fault("mean", "MEAN", _normalised, told=UNIT, trained=IMAGENET),
    Fault("colours_shown", "COLOUR_ORDER", _plain, told=HALF, trained=HALF, bgr=True, shown=True),
    Fault("colours", "COLOUR_ORDER", _normalised, told=IMAGENET, trained=IMAGENET, bgr=True),
    Fault("dark", "CALIBRATION", _plain, calibration=lambda given: [each / 6 for each in given]),
    Fault("normalised_twice", "CALIBRATION", _plain, calibration=lambda given: [real(each, HALF) for each in given]),
    Fault("odd_picture", "CALIBRATION", _plain, calibration=lambda given: [*given[:-1], given[-1] * 30]),
    Fault("overflow", "OVERFLOW", _overflow, ("c1", "r1"), platform="rk3562", quantised=False),
    Fault("squares", "OVERFLOW", _squares, ("squares",), platform="rk3562", quantised=False),
    Fault("spread_weights", "WEIGHTS", _spread_weights, ("r2", "c2")),
    Fault("other_network", "OTHER_NETWORK", _plain, ("r2",), other=_trained_on),
    Fault("sound", "NONE", _plain),
    Fault("sound_normalised", "NONE", _normalised, told=IMAGENET, trained=IMAGENET),
    Fault("sound_fp16", "NONE", _plain, platform="rk3562", quantised=False),
)  # fmt: skip
"""Fourteen with a fault, and three that are sound."""
