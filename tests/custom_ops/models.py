"""The models of these tests, and the operators they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rknnlite.api.custom_op import get_node_attr
from rknnlite.formats.slots import UnionCode
from rknnlite.spi import CustomOp, OpContext
from tests.support import handmade
from tests.support.corpus import EXAMPLES, Golden, goldens
from tests.support.flat import I8, build

DATA = Path(__file__).parent / "data"
DUAL = EXAMPLES / "custom_op" / "dual_for_RK3588.rknn"
"""int8: two convolutions, cstDualResidual (alpha 0.5), one more convolution behind its first output."""
PROBE = DATA / "probe.rk3588.fp16.rknn"
"""fp16: convolution, cstProbe with attributes of every kind and an int64 tensor, 1 x 1 convolution."""


def dual_golden() -> Golden:
    return goldens(EXAMPLES / "plugin_package" / "tests" / "dual_for_RK3588.npz")[0]


def probe_golden() -> Golden:
    return goldens(DATA / "probe.rk3588.fp16.npz")[0]


class PlainDual:
    """The class of the PC toolkit."""

    op_type = "cstDualResidual"

    def shape_infer(
        self, node: Any, in_shapes: list[Any], in_dtypes: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        return in_shapes.copy(), in_dtypes.copy()

    def compute(self, node: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
        x, y = inputs
        alpha = get_node_attr(node, "alpha")
        return [x * alpha - y, y * alpha - x]


class FullDual(CustomOp):
    """The fuller class; writes down its life."""

    op_type = "cstDualResidual"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def init(self, ctx: OpContext, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        self.calls.append("init")
        ctx.state = np.float32(ctx.attr("alpha"))

    def compute(self, ctx: OpContext, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        self.calls.append("compute")
        x, y = inputs
        np.subtract(x * ctx.state, y, out=outputs[0])
        np.subtract(y * ctx.state, x, out=outputs[1])

    def destroy(self, ctx: OpContext) -> None:
        self.calls.append("destroy")


class Probe:
    """What tests/custom_ops/data/probe... was converted with."""

    op_type = "cstProbe"

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}

    def compute(self, node: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
        x, i = inputs
        names = ("alpha", "n", "s", "ints", "floats", "absent")
        self.seen = {name: get_node_attr(node, name) for name in names}
        self.seen["types"] = [array.dtype.name for array in inputs]
        return [x * np.float32(1.0003) + np.float32(0.3), i + 1]


INT64 = 7


def argmax_model() -> bytes:
    """fp16 in, ArgMax over the five channels, int64 out."""
    tensors = [
        handmade.tensor("x", (1, 5, 4, 6), handmade.INPUT),
        handmade.tensor("y", (1, 1, 4, 6), handmade.OUTPUT, INT64),
    ]
    argmax = handmade.node("ArgMax", [0], [1], s7=I8(UnionCode.ARG_MAX), s8={0: 1})
    nodes = [handmade.node("InputOperator", [], [0]), argmax, handmade.node("OutputOperator", [1], [])]
    return handmade.container(build(handmade.root([handmade.graph(tensors, nodes, [0], [1])])))
