"""Networks of many nodes, where what one operator gets wrong grows in the next: those of the sweep, and drawn ones.

All tensors between the nodes are virtual, as in files of the toolkit: so the simulator joins nodes as the NPU does.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.rknn1_files import F16, F32, File, Ref, dfp, i32, u8

from .cases import NEAREST, VX, kernel, pool

__all__ = ["NETWORKS", "Net", "Shape", "Value", "drawn_network", "network"]

Shape = tuple[int, ...]
_FLOOR = {"down_scale_size_rounding": "VX_CONVOLUTIONAL_NETWORK_DS_SIZE_ROUNDING_FLOOR"}
_SWISH = {"swish": {"type": "VSI_NN_SWISH"}}
_HSWISH = {"swish": {"type": "VSI_NN_HSWISH"}}
_HARD = {"hard_sigmoid": {"alpha": 0.16667, "beta": 0.5}}


class Value:
    """What a node writes: its reference, its type and its shape."""

    def __init__(self, ref: Ref, dtype: Any, shape: Shape) -> None:
        self.ref, self.dtype, self.shape = ref, dtype, shape


class Enough(Exception):
    """A network has as many nodes as wanted."""


class Net:
    """A file that grows by layers whose scales are drawn near what their values need; ``kind``: u8, i8, i16 or f16."""

    def __init__(
        self, name: str, seed: int, shape: Shape = (1, 3, 16, 16), kind: str = "u8", gain: float = 3.0
    ) -> None:
        self.nodes, self.most = 0, -1
        self.file, self.kind, self.gain = File(name, seed=seed), kind, gain
        self.rng = np.random.default_rng(seed)
        dtype = u8(float(np.float32(1 / 127)), 128) if kind == "u8" else self.type_of(2.0)
        self.value = Value(self.file.input(shape, dtype), dtype, shape)

    def type_of(self, width: float, low: float = 0.5) -> Any:
        """A type that reaches over about ``width``, a share ``low`` of it below zero."""
        width *= float(self.rng.uniform(0.7, 1.1))
        if self.kind == "f16":
            return F16
        if self.kind != "u8":
            places = {"i8": 7, "i16": 13}[self.kind]  # of int16 two are left, so that sums fit
            return dfp(self._word, places - math.ceil(math.log2(width * max(low, 1 - low))))
        return u8(float(np.float32(width / 255)), round(255 * low))

    @property
    def _word(self) -> str:
        return {"i8": "INT8", "i16": "INT16"}[self.kind]

    def weights(self, x: Value, shape: Shape, count: int, width: float) -> list[Ref | None]:
        """Weights that reach over ``width``, and a bias where the type has one."""
        if self.kind == "f16":
            drawn = (
                self.file.rng.uniform(-width / 2, width / 2, shape),
                self.file.rng.uniform(-0.1, 0.1, count),
            )
            return [self.file.const(drawn[0], F16), self.file.const(drawn[1], F32)]
        if self.kind == "u8":
            step = float(np.float32(width / 255))
            bias = self.file.random((count,), i32(x.dtype["scale"] * step), -2000, 2000)
            return [self.file.random(shape, u8(step, 127), 0, 256), bias]
        places = {"i8": 7, "i16": 13}[self.kind]
        fl = places - math.ceil(math.log2(width / 2))
        made: list[Ref | None] = [self.file.random(shape, dfp(self._word, fl), -(2**places) + 1, 2**places)]
        if self.kind == "i8":
            made.append(self.file.random((count,), dfp("INT32", x.dtype["fl"] + fl), -2000, 2000))
        return made

    def node(
        self, op: str, reads: list[Ref | None], dtype: Any, shape: Shape, nn: Any = None, vx: Any = None
    ) -> Value:
        self.value = Value(self.file.node(op, reads, dtype, nn=nn, vx=vx), dtype, shape)
        self.nodes += 1
        if self.nodes == self.most:
            raise Enough
        return self.value

    def conv(self, x: Value, count: int, size: int = 3, stride: int = 1, width: float = 6.0) -> Value:
        n, channels, rows, columns = x.shape
        reads = self.weights(
            x, (count, channels, size, size), count, self.gain / float(np.sqrt(channels * size * size))
        )
        edge = size // 2
        shape = (n, count, (rows + 2 * edge - size) // stride + 1, (columns + 2 * edge - size) // stride + 1)
        nn = kernel((size, size), count, (stride, stride), (edge,) * 4)
        return self.node("CONV2D", [x.ref, *reads], self.type_of(width), shape, nn, VX)

    def depthwise(self, x: Value, width: float = 6.0, stride: int = 1) -> Value:
        n, channels, rows, columns = x.shape
        reads = self.weights(x, (1, channels, 3, 3), channels, 1.0)
        nn = kernel((3, 3), channels, (stride, stride), (1, 1, 1, 1), group=channels, mult=1)
        shape = (n, channels, (rows - 1) // stride + 1, (columns - 1) // stride + 1)
        return self.node("CONV2D", [x.ref, *reads], self.type_of(width), shape, nn, VX)

    def function(self, x: Value, op: str, nn: Any = None, width: float = 3.5, low: float = 0.08) -> Value:
        return self.node(op, [x.ref], self.type_of(width, low), x.shape, nn)

    def gate(self, x: Value, op: str, nn: Any = None) -> Value:
        dtype = u8(float(np.float32(1 / 255)), 0) if self.kind == "u8" else self.type_of(1.0, 0.0)
        return self.node(op, [x.ref], dtype, x.shape, nn)

    def joined(self, a: Value, b: Value, op: str = "ADD", width: float = 7.0) -> Value:
        nn, vx = ({"multiply": {"scale": 1.0}}, NEAREST) if op == "MULTIPLY" else (None, None)
        return self.node(op, [a.ref, b.ref], self.type_of(width), a.shape, nn, vx)

    def mean(self, x: Value, size: int, stride: int = 1, edge: int = 0) -> Value:
        rows, columns = ((side + 2 * edge - size) // stride + 1 for side in x.shape[2:])
        nn = pool("AVG", (size, size), (stride, stride), (edge,) * 4)
        return self.node("POOL", [x.ref], self.type_of(4.0), (*x.shape[:2], rows, columns), nn, _FLOOR)

    def largest(self, x: Value, size: int, stride: int = 1) -> Value:
        edge = size // 2 if stride == 1 else 0
        rows, columns = ((side + 2 * edge - size) // stride + 1 for side in x.shape[2:])
        nn = pool("MAX", (size, size), (stride, stride), (edge,) * 4)
        return self.node("POOL", [x.ref], x.dtype, (*x.shape[:2], rows, columns), nn, _FLOOR)

    def concat(self, *parts: Value) -> Value:
        n, _, *sides = parts[0].shape
        shape = (n, sum(part.shape[1] for part in parts), *sides)
        return self.node(
            "CONCAT", [part.ref for part in parts], self.type_of(6.0), shape, {"concat": {"axis": 2}}
        )

    def done(self) -> File:
        self.file.output(self.value.ref, self.value.shape)
        return self.file


def _silu(net: Net) -> None:
    """A YOLO's stage: convolutions behind SiLU, written as SIGMOID and MULTIPLY too, residuals, pyramid of pools."""
    x = net.function(net.conv(net.value, 8, 3, 2), "SWISH", _SWISH)
    for _ in range(3):
        y = net.function(net.conv(x, 8, 1), "SWISH", _SWISH)
        y = net.conv(y, 8)
        x = net.joined(x, net.joined(y, net.gate(y, "SIGMOID"), "MULTIPLY", 5.0))
    pools = [x]
    for _ in range(2):
        pools.append(net.largest(pools[-1], 5))
    net.function(net.conv(net.concat(*pools), 8, 1), "SWISH", _SWISH)


def _hard_swish(net: Net) -> None:
    """Blocks of MobileNetV3, with squeeze and excitation."""
    x = net.function(net.conv(net.value, 8, 3, 2), "SWISH", _HSWISH)
    for _ in range(3):
        y = net.function(net.conv(x, 16, 1), "SWISH", _HSWISH)
        y = net.function(net.depthwise(y), "SWISH", _HSWISH)
        scale = net.function(net.conv(net.mean(y, 8), 4, 1), "RELU", None, 2.0, 0.0)
        y = net.joined(y, net.gate(net.conv(scale, 16, 1), "HARD_SIGMOID", _HARD), "MULTIPLY", 4.0)
        x = net.joined(x, net.conv(y, 8, 1))


def _inverted(net: Net) -> None:
    """Blocks of MobileNetV2."""
    x = net.function(net.conv(net.value, 8, 3, 2), "RELU6", None, 3.0, 0.0)
    for _ in range(4):
        y = net.function(net.conv(x, 16, 1), "RELU6", None, 3.0, 0.0)
        y = net.function(net.depthwise(y), "CLIP", {"clip": {"min": 0.0, "max": 6.0}}, 3.0, 0.0)
        x = net.joined(x, net.conv(y, 8, 1))
    net.mean(x, 8)


def _residual(net: Net) -> None:
    """A ResNet's blocks: sums behind RELU, a mean of windows, differences."""
    x = net.function(net.conv(net.value, 8, 3, 2), "RELU", None, 3.0, 0.0)
    for step in range(3):
        y = net.conv(net.function(net.conv(x, 8), "RELU", None, 3.0, 0.0), 8)
        y = net.joined(x, y, "SUBTRACT" if step == 1 else "ADD")
        x = net.function(y, "RELU", None, 4.0, 0.0)
    net.conv(net.mean(x, 3, 2, 1), 6, 1)


def network(
    name: str,
    build: Callable[[Net], None],
    kind: str = "u8",
    shape: Shape = (1, 3, 16, 16),
    gain: float = 3.0,
) -> Callable[..., File]:
    """A function that writes the file; with a number, only so many of its nodes."""

    def make(most: int = -1) -> File:
        net = Net(name, 11, shape, kind, gain)
        net.most = most
        with contextlib.suppress(Enough):
            build(net)
        return net.done()

    return make


NETWORKS = {
    f"net_{name}": network(f"net_{name}", build)
    for name, build in (
        ("silu", _silu), ("hard_swish", _hard_swish), ("inverted", _inverted), ("residual", _residual),
    )
}  # fmt: skip


def drawn_network(seed: int, nodes: int = 12) -> File:
    """A network of random layers, for a search of what the simulator computes otherwise."""
    net = Net(f"drawn_{seed}", seed, (1, 4, 9, 10))
    seen = [net.value]
    steps: list[Callable[[Value], Value]] = [
        lambda x: net.conv(x, 4),
        lambda x: net.conv(x, 4, 1),
        lambda x: net.depthwise(x),
        lambda x: net.joined(x, seen[net.rng.integers(len(seen))]),
        lambda x: net.joined(seen[net.rng.integers(len(seen))], x, "SUBTRACT"),
        lambda x: net.joined(x, net.gate(x, "SIGMOID"), "MULTIPLY", 4.0),
        lambda x: net.function(x, "SWISH", _SWISH),
        lambda x: net.function(x, "SWISH", _HSWISH),
        lambda x: net.function(x, "RELU6", None, 3.0, 0.0),
        lambda x: net.function(x, "RELU", None, 3.0, 0.0),
        lambda x: net.function(x, "LEAKY_RELU", {"activation": {"leaky_ratio": 0.1}}, 4.0, 0.1),
        lambda x: net.function(x, "TANH", {"tanh": {"scale_a": 1.0, "scale_b": 1.0}}, 2.0, 0.5),
        lambda x: net.function(x, "MISH"),
        lambda x: net.function(x, "ELU", None, 4.0, 0.25),
        lambda x: net.mean(x, 3, 1, 1),
        lambda x: net.largest(x, 3),
        lambda x: net.conv(net.concat(x, seen[net.rng.integers(len(seen))]), 4, 1),
    ]
    for _ in range(nodes):
        seen.append(steps[net.rng.integers(len(steps))](seen[-1]))
    net.value = seen[-1]
    return net.done()
