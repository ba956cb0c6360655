"""Attention and normalisations as ops; ``ops/matmul.py`` and ``ops/norm.py`` define them."""

from __future__ import annotations

from math import prod

import numpy as np
from rknnlite_graph.byte_tables import exponentials
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.norms import norm_spec

from ...registry import stored_operand
from .kinds import Op
from .packing import padded_to
from .writer import Writer, demand, demand_bytes, demand_finite, output_numbers

__all__ = ["write_attention", "write_norm"]

_MODES = {"layer": 0, "rms": 1, "l2": 2, "pixel": 2, "l1": 3}
"""``enum mode`` of ``norms.c``."""


def write_attention(writer: Writer, view: NodeView) -> None:
    """[heads, d, 1, tokens] each."""
    q, k, v, y = *(view.tensor(i) for i in range(3)), view.outputs[0]
    steps = view.attrs
    demand_bytes(q, k, v, y)
    demand(
        not any(view.is_const(i) for i in range(3)) and not view.has(3), "a mask, or an operand of the file"
    )
    demand("score_step" in steps and "weight_step" in steps, "no steps of what is between")
    demand(all(len(t.shape) == 4 and t.shape[2] == 1 for t in (q, k, v, y)), "its shapes")
    assert q.quant is not None and k.quant is not None and v.quant is not None
    scale, score_zero = float(np.float32(steps.get("scale", 1.0))), int(steps["score_zero_point"])
    weight_step = np.float32(steps["weight_step"])
    demand(-128 <= score_zero <= 127, f"a zero point {score_zero}")
    numbers = np.array(
        [
            np.float32(q.quant.scale * k.quant.scale * scale),
            np.float32(steps["score_step"]),
            -128 - score_zero,
            127 - score_zero,
            weight_step,
            np.float32(v.quant.scale * float(weight_step)),
            *exponentials(np.float32(steps["score_step"])),
        ],
        np.float32,
    )
    demand_finite(numbers)
    demand(bool((numbers[[1, 4]] > 0).all()), "steps that are none")
    x, keys, values, target = (writer.plane(tensor) for tensor in (q, k, v, y))
    op = Op("ATTEND", y=target, x=x, other=keys, third=values, arrays={"numbers": numbers})
    output_numbers(writer, op, y)
    demand(x.channels % 4 == 0 and x.channels <= 512 and keys.width < 1 << 15, "its sizes")
    writer.ops.append(op)


def write_norm(writer: Writer, view: NodeView) -> None:
    """Over the channels of every position."""
    x, y, spec = view.tensor(0), view.outputs[0], norm_spec(view)
    demand_bytes(x, y)
    demand(spec.whole and spec.axes == (1,) and not view.is_const(0) and view.live == [x.index], "other axes")
    demand(x.shape == y.shape and spec.mode in _MODES, "its form")
    demand(np.isfinite(spec.added) and spec.added > 0, "a size that may be 0")
    op = Op("NORMALISE", y=writer.plane(y), x=writer.plane(x))
    room, count = op.y.room, spec.count
    parts = {}
    for name, position, without in (("factor", 1, 1), ("slope", 2, 0)):
        found = np.full(count, without, np.float32)
        if view.has(position):
            stored = stored_operand(view, position)
            demand(prod(stored.shape) in (1, count), "operands of other sizes")
            found = np.broadcast_to(stored.reshape(-1), count).astype(np.float32)
        parts[name] = padded_to(found, room)
    demand_finite(*parts.values())
    mode = np.array([_MODES[spec.mode]], np.int64)
    op.arrays = {"sizes": np.concatenate([mode, np.array([spec.added]).view(np.int64)]), **parts}
    output_numbers(writer, op, y)
    writer.ops.append(op)
