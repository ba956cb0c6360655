"""Nodes of networks of tokens, of float16, as ops: normalisation, attention, what reshapes and transposes."""

from __future__ import annotations

from math import prod

import numpy as np
from rknnlite_graph.graph import Tensor
from rknnlite_graph.lowering import NotLowered
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.norms import norm_spec

from ...values import Array
from .kinds import FLOAT, Op, Plane
from .packing import padded_to
from .shuffles import write_reshape, write_transpose
from .writer import Write, Writer, demand, demand_finite, demand_halves, sides_of

__all__ = ["TOKENS"]

_MODES = {"layer": 0, "rms": 1, "l2": 2, "pixel": 2}
_LINE = 64
_LANES = 16
"""Channels of a pixel that are worth a run of their own."""


def _norm(writer: Writer, view: NodeView) -> None:
    """Over channels alone."""
    demand_halves(view, 1)
    spec, x, y = norm_spec(view), view.tensor(0), view.outputs[0]
    demand(spec.axes == (1,) and spec.mode in _MODES and x.shape == y.shape, "over other axes")
    demand(view.live == [x.index], "computed numbers")
    count = x.shape[1]
    numbers = [_constant(view, i, count) if view.has(i) else default for i, default in ((1, 1), (2, 0))]
    gamma, beta = (np.broadcast_to(np.asarray(each, np.float32), count) for each in numbers)
    demand_finite(gamma, beta)
    padded = -(-count // writer.lanes) * writer.lanes
    op = Op("FLOAT_NORM", y=writer.plane(y), x=writer.plane(x), place=_MODES[spec.mode])
    op.numbers = {"unit": float(np.float32(spec.eps))}
    op.arrays = {"slope": padded_to(gamma, padded), "factor": padded_to(beta, padded)}
    writer.ops.append(op)


def _constant(view: NodeView, position: int, count: int) -> Array:
    """As ``rknnlite_cpu.registry`` has it: layers on the NPU round what the file holds in float32."""
    value = view.constant(position).astype(np.float32).reshape(-1)
    demand(value.size == count, "its numbers")
    return value.astype(np.float16).astype(np.float32) if view.node.on_npu else value


def _attention(writer: Writer, view: NodeView) -> None:
    demand_halves(view, 3)
    demand(len(view.inputs) == 3 and "score_step" not in view.attrs, "a mask, or scores that are stored")
    q, k, v = (view.tensor(i) for i in range(3))
    y = view.outputs[0]
    demand(all(len(each.shape) == 4 and each.shape[2] == 1 for each in (q, k, v, y)), "its axes")
    heads, tokens = k.shape[0], k.shape[3]
    demand(q.shape[:2] == k.shape[:2] and v.shape == (heads, y.shape[1], 1, tokens), "its operands")
    demand(y.shape[0] == heads and y.shape[3] == q.shape[3], "its result")
    pitch = -(-FLOAT * tokens // _LINE) * _LINE
    scores = Plane(heads, 1, q.shape[3], FLOAT * tokens, pitch, 0)
    unit = float(np.float32(view.attrs.get("scale", 1.0)))
    planes = [writer.plane(each) for each in (q, k, v)]
    writer.ops.append(Op("FLOAT_SCORES", y=scores, x=planes[0], other=planes[1], numbers={"unit": unit}))
    writer.ops.append(Op("FLOAT_WEIGH", y=writer.plane(y), x=scores, other=planes[2]))


def _reshape(writer: Writer, view: NodeView) -> None:
    """Where every pixel keeps its channels nothing is done."""
    demand_halves(view, 1)
    x, y = view.tensor(0), view.outputs[0]
    demand(prod(x.shape) == prod(y.shape), "its values")
    before, after, plane = sides_of(x), sides_of(y), writer.rounded(x)
    if before[:2] == after[:2] and plane.pitch % _LINE == 0:
        writer.parts.add(writer.plane(y), plane, 0)
    elif prod(before[2:]) == prod(after[2:]) and min(before[1], after[1]) >= _LANES:
        writer.ops.append(Op("FLOAT_RESHAPE", y=writer.plane(y), x=plane))
    else:
        _cut(writer, x, y, plane)


def _cut(writer: Writer, x: Tensor, y: Tensor, plane: Plane) -> None:
    """Where axes are cut or joined values move along them, else one by one."""
    try:
        write_reshape(writer, x, y, plane)
    except NotLowered:
        writer.ops.append(Op("FLOAT_RESHAPE", y=writer.plane(y), x=plane))


def _transpose(writer: Writer, view: NodeView) -> None:
    """Channels and columns by themselves, or any order of the axes."""
    demand_halves(view, 1)
    plane = writer.rounded(view.tensor(0))
    if list(view.attrs.get("perm") or []) == [0, 3, 2, 1]:
        writer.ops.append(Op("FLOAT_TRANSPOSE", y=writer.plane(view.outputs[0]), x=plane))
    else:
        write_transpose(writer, view, plane)


TOKENS: dict[str, Write] = {
    "exNorm": _norm,
    "LayerNormalization": _norm,
    "exSDPAttention": _attention,
    "Transpose": _transpose,
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _reshape),
}
