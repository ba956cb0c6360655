"""LSTM and GRU as ops, and the way from bytes to floats and back; ``ops/ordered_recurrence.py`` and ``ops/rnn.py`` define them."""

from __future__ import annotations

import numpy as np
from rknnlite_graph.graph import Graph, RecurrentParams, Tensor
from rknnlite_graph.node_view import NodeView

from rknnlite.tensor import DType

from ...ops import builder_of
from ...ops.ordered_recurrence import rows_of
from ...registry import stored_operand
from ...values import Array, centred_range
from .kinds import RECURRENT_SIZES, Flag, Op
from .output_functions import LOGISTIC
from .shuffles import steps_of
from .writer import Writer, demand, demand_bytes, demand_finite, in_bytes, in_halves, output_numbers

__all__ = ["write_convert", "write_recurrent"]


def write_convert(writer: Writer, view: NodeView) -> None:
    """Bytes to floats by a table, and back."""
    x, y = view.tensor(0), view.outputs[0]
    demand(x.shape == y.shape, "its shape")
    if view.node.index in writer.done:
        return
    if y.quant is None:
        demand_bytes(x)
        demand(in_halves(y), "its result")
        builder = builder_of(view.node.op)
        assert builder is not None and x.quant is not None
        low, high = centred_range(x)
        centred = np.arange(low, high + 1, dtype=np.float32)
        table = np.zeros(256, np.float32)
        table[(centred.astype(np.int64) + writer.zero(x)) & 255] = builder(view)([centred])[0].reshape(-1)
        demand_finite(table)
        reader = writer.only_reader(y)
        if reader is not None and reader.recurrent is not None and reader.inputs[0] == y.index:
            writer.bytes_of[y.index] = x, table
            return
        op = Op("TO_FLOATS", y=writer.plane(y), x=writer.plane(x), arrays={"factor": table})
    else:
        demand_bytes(y)
        demand(in_halves(x), "its operand")
        op = Op("TO_BYTES", y=writer.plane(y), x=writer.plane(x))
        output_numbers(writer, op, y)
    writer.ops.append(op)


def write_recurrent(writer: Writer, view: NodeView) -> None:
    """One op for all directions."""
    params, x, y = view.node.recurrent, view.tensor(0), view.outputs[0]
    assert params is not None
    if not view.floats_behind_bytes:
        demand(in_halves(x) and in_halves(y), "its values are not of float16")
    demand(len(view.outputs) == 1, "its last state is a result")
    demand(not view.is_const(0) and view.live == [x.index], "states or lengths that are computed")
    demand(not view.has(1), "lengths")
    steps, batch, inputs = x.shape[0], int(np.prod(x.shape[1:-1])), x.shape[-1]
    demand(len(x.shape) in (2, 3, 4) and batch * x.shape[-2] >= 1, f"an input {x.shape}")
    demand(batch == 1 or len(x.shape) == 3, f"an input {x.shape}")
    demand((inputs, params.hidden) == (params.w.shape[-1], params.r.shape[-1]), "its weights")
    builder = builder_of(view.node.op)
    assert builder is not None
    builder(view)  # it refuses gates of other functions
    finite = in_bytes(x) or not view.floats_behind_bytes or _is_finite(view.graph, x)
    demand(finite, "an input that may be infinite")
    source, table = writer.bytes_of.get(x.index, (x, None))
    target = _bytes_behind(writer, y)
    op = Op("RECURRENT", y=writer.plane(target), x=writer.plane(source))
    x_steps = _steps(writer, source)
    if len(x.shape) != 3:
        x_steps = [x_steps[0], 0, x_steps[-1]]
    sizes = dict(
        zip(
            RECURRENT_SIZES,
            (steps, batch, inputs, params.hidden, params.gates, params.directions, params.reverse, params.linear_before_reset,
             *x_steps, *_result_steps(writer, target, (steps, params.directions, batch, params.hidden))),
        )
    )  # fmt: skip
    if x.quant is not None:
        op.numbers["unit"] = x.quant.scale
    elif table is None:
        op.flags |= Flag.FLOATS_IN
    if target.quant is not None:
        output_numbers(writer, op, target)
        op.flags |= 0 if target is y else Flag.ROUNDED
    else:
        demand(y.dtype is DType.FLOAT16, "its result")
        op.flags |= Flag.FLOATS_OUT
    op.arrays = {
        "sizes": np.array([sizes[name] for name in RECURRENT_SIZES], np.int64),
        "numbers": _numbers(view, params, batch, writer.lanes),
    }
    if table is not None:
        op.arrays["slope"] = table
    weights = _weights(params, writer.lanes)
    with np.errstate(over="ignore"):
        halves = weights.astype(np.float16)
    demand_finite(weights, op.arrays["numbers"])
    if np.array_equal(halves, weights):
        op.flags |= Flag.HALVES
        op.arrays["weights"] = halves.view(np.int8)
    else:
        op.arrays["factor"] = weights
    writer.ops.append(op)


def _bytes_behind(writer: Writer, y: Tensor) -> Tensor:
    """What becomes of a result of float16 that only bytes are made of, else the result."""
    reader = writer.only_reader(y)
    if y.dtype is not DType.FLOAT16 or reader is None or reader.op != "exDataConvert":
        return y
    target = writer.graph.tensors[reader.outputs[0]]
    if not in_bytes(target) or target.shape != y.shape:
        return y
    writer.done.add(reader.index)
    return target


def _steps(writer: Writer, tensor: Tensor) -> list[int]:
    """Bytes from value to value along each axis."""
    return steps_of(writer.plane(tensor), len(tensor.shape), writer.unit(tensor))


def _result_steps(writer: Writer, y: Tensor, shape: tuple[int, int, int, int]) -> list[int]:
    """Bytes from step to step, direction, item and value."""
    found = _steps(writer, y)
    if len(y.shape) == 4:
        demand(y.shape == shape, f"a result {y.shape}")
        return found
    steps, directions, batch, hidden = shape
    demand(y.shape == (steps, batch, directions * hidden), f"a result {y.shape}")
    return [found[0], hidden * found[2], found[1], found[2]]


def _is_finite(graph: Graph, x: Tensor) -> bool:
    """Whether a floating tensor is made of bytes right here."""
    makers = [node for node in graph.nodes if x.index in node.outputs]
    return (
        len(makers) == 1 and makers[0].op == "exDataConvert" and in_bytes(graph.tensors[makers[0].inputs[0]])
    )


def _weights(params: RecurrentParams, lanes: int) -> Array:
    """As ``recurrent.c`` says."""
    parts = [range(params.gates)]
    if params.gates == 3 and not params.linear_before_reset:
        parts = [range(2), range(2, 3)]
    w, r = (rows.weights for rows in rows_of(params))
    recurrent = [_blocks(each[list(part)], lanes) for each in r for part in parts]
    return np.concatenate([*(_blocks(each, lanes) for each in w), *recurrent])


def _numbers(view: NodeView, params: RecurrentParams, batch: int, lanes: int) -> Array:
    """Of the sigmoid; steps and bias of W and R; the first states."""
    found = [each for rows in rows_of(params) for each in (rows.step, rows.bias)]
    found += [_state(view, position, params, batch) for position in (2, 3)]
    wide = (_padded(each.astype(np.float32), lanes).reshape(-1) for each in found)
    return np.concatenate([np.array([*LOGISTIC, 1], np.float32), *wide])


def _padded(values: Array, lanes: int) -> Array:
    """[..., hidden] to whole vectors."""
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % lanes)])


def _blocks(weights: Array, lanes: int) -> Array:
    """[gates, hidden, inputs] -> [block][input][gate][lane], flat."""
    whole = _padded(weights.transpose(2, 0, 1), lanes)
    inputs, gates, _ = whole.shape
    return np.ascontiguousarray(
        whole.reshape(inputs, gates, -1, lanes).transpose(2, 0, 1, 3), np.float32
    ).reshape(-1)


def _state(view: NodeView, position: int, params: RecurrentParams, batch: int) -> Array:
    """[directions, batch, hidden]; it may be stored for more items."""
    if not view.has(position) or (position == 3 and params.gates == 3):
        return np.zeros((params.directions, batch, params.hidden), np.float32)
    stored: Array = stored_operand(view, position)
    return stored.reshape(params.directions, -1, params.hidden)[:, :batch]
