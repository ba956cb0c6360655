"""Weights of LSTM and GRU nodes, decoded to one real array per operand (docs/rknn-format.md, RNN)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelInvalid, ModelUnsupported
from ..graph import RECURRENT_GATES, Node, RecurrentParams, Tensor
from ..quant import RANGES
from ..tensor import DType
from . import weights
from .families import NpuFamily
from .register_map import Registers, scaled
from .registers import RegisterProgram

__all__ = ["read_plain_recurrent", "read_recurrent"]

_Completed = Callable[[Registers], Registers]


def read_recurrent(
    node: Node, tensors: list[Tensor], blobs: list[memoryview], output: tuple[int, ...],
    family: NpuFamily, program: RegisterProgram, beside: Sequence[_Completed],
) -> RecurrentParams:  # fmt: skip
    """Decode W, R and B of a node.

    Args:
        tensors: x, W, R, B as listed by the node. blobs: stored bytes of W, R, B. output: shape of the first output.
        beside: for the products of W and of R what adds the registers that the family keeps in small constants.
    """
    gates = RECURRENT_GATES[node.op]
    x, w, r, _ = tensors
    quantised = w.dtype.bits == 8
    if w.dtype is DType.INT16 or (x.dtype is DType.INT16 and not quantised):
        raise ModelUnsupported(
            f"node {node.label()}: recurrent layers of int16 models are not decoded; convert in int8 or float16"
        )
    if len(x.shape) < 3:
        raise ModelInvalid(f"node {node.label()}: its input has shape {list(x.shape)}, rank 3 is needed")
    width = x.shape[-1]
    padded = w.shape[0] if w.shape and r.shape else 0
    w_rows = _rows(w, blobs[0], width)
    if padded < 1 or w_rows.shape[0] % (gates * padded):
        raise ModelInvalid(
            f"node {node.label()}: {w_rows.shape[0]} weight rows are not {gates} gates of {padded}"
        )
    directions = w_rows.shape[0] // (gates * padded)
    hidden = output[-1] if len(output) == 4 else output[-1] // directions if output else 0
    if not 0 < hidden <= padded:
        raise ModelInvalid(f"node {node.label()}: hidden size {hidden} in gates of {padded} rows")
    r_rows = _rows(r, blobs[1], hidden)
    w_at = [[(d * gates + k) * padded for k in range(gates)] for d in range(directions)]
    same_stride = gates == 4 or r_rows.shape[0] == directions * 3 * r.shape[0]
    r_at = (
        w_at if same_stride else [[d * r.shape[0] + k * hidden for k in range(3)] for d in range(directions)]
    )
    params = RecurrentParams(
        gates=gates, hidden=hidden, directions=directions,
        w=_gates(w_rows, w_at, hidden, node), r=_gates(r_rows, r_at, hidden, node),
        w_bias=np.zeros((directions, gates, hidden), np.float32),
        r_bias=np.zeros((directions, gates, hidden), np.float32),
        reverse=_reversed(node, directions),
        linear_before_reset=bool(node.attrs.get("linear_before_reset", 0)),
    )  # fmt: skip
    if quantised:
        _quantised(
            params, x, blobs[2], padded, family, _weight_tasks(family, program, node.index, beside), node
        )
    else:
        _float_bias(params, blobs[2], padded, node)
    return params


def _reversed(node: Node, directions: int) -> bool:
    """Whether a node runs backwards only. Where no direction is stored (GRU of the mini format), the type tells: the
    compiler renames all nodes but those."""
    direction = str(node.attrs.get("direction", ""))
    if direction in ("forward", "reverse", "bidirectional"):
        return direction == "reverse"
    return node.op in ("LSTM", "GRU") and directions == 1


def read_plain_recurrent(
    node: Node, tensors: list[Tensor], steps: list[tuple[NDArray[Any], NDArray[Any]]]
) -> RecurrentParams:
    """Operands of a node that runs on the CPU: float32 in ONNX order, [D, gates * H, ...] and [D, 2 * gates * H].

    Args:
        tensors: x, W, R, and B where it is given. steps: (scale, zero point) per row of W, R, B; in int8 models the
            vendor's simulator rounds the weights to them.
    """
    gates = RECURRENT_GATES[node.op]
    x, w, r, *biases = tensors
    shape = w.shape
    if len(shape) != 3 or shape[1] % gates or r.shape != (*shape[:2], shape[1] // gates) or any(
        not tensor.dtype.is_float for tensor in tensors[1:]
    ):  # fmt: skip
        raise ModelInvalid(
            f"node {node.label()}: W {list(shape)} and R {list(r.shape)} are not {gates} gates"
        )
    directions, hidden = shape[0], shape[1] // gates
    given = [
        list(b.shape) for b in biases if b.value().any()
    ]  # without a bias the converter stores zeros, of any shape
    if given not in ([], [[directions, 2 * shape[1]]]) or directions not in (1, 2) or not hidden:
        raise ModelInvalid(f"node {node.label()}: bias {given} does not fit W {list(shape)}")
    w_rows, r_rows = (
        _stepped(t, *step, whole=x.dtype).reshape(directions, gates, hidden, -1)
        for t, step in zip((w, r), steps)
    )
    stored = (
        biases[0].value().astype(np.float32) if given else np.zeros(directions * 2 * shape[1], np.float32)
    )
    bias = stored.reshape(directions, 2, gates, hidden)
    return RecurrentParams(
        gates=gates, hidden=hidden, directions=directions, w=w_rows, r=r_rows, w_bias=bias[:, 0], r_bias=bias[:, 1],
        reverse=_reversed(node, directions),
        linear_before_reset=_before_reset(node, hidden),
    )  # fmt: skip


def _before_reset(node: Node, hidden: int) -> bool:
    """The attribute of a GRU; nodes of type GRU in the mini format have it where others have the hidden size."""
    attrs = node.attrs
    moved = "linear_before_reset" not in attrs and attrs.get("hidden_size", hidden) == 1 != hidden
    return moved or bool(attrs.get("linear_before_reset", 0))


def _stepped(tensor: Tensor, scales: NDArray[Any], zeros: NDArray[Any], whole: DType) -> NDArray[np.float32]:
    """The rows of a float32 matrix, rounded to steps of int8 (of int16 beside int16 data) where the file names them."""
    rows = tensor.value().astype(np.float32).reshape(-1, tensor.shape[-1])
    if len(scales) != len(rows) or len(zeros) != len(rows) or not (scales > 0).all():
        return rows
    step, zero = scales.reshape(-1, 1), zeros.reshape(-1, 1).astype(np.float32)
    low, high = RANGES[DType.INT16 if whole is DType.INT16 else DType.INT8]
    stored = np.clip(np.rint(rows / step) + zero, low, high)
    return np.asarray((stored - zero) * step, np.float32)


def _rows(tensor: Tensor, blob: memoryview, columns: int) -> NDArray[Any]:
    """All stored rows of a matrix in conv layout, cut to its real columns."""
    parts = weights.segments(tensor.native_shape, tensor.name)
    rows, covered = 0, 0
    for part in parts:
        if covered == 0:
            rows += part[0] * part[4]
        covered = (covered + part[1] * part[5]) if covered + part[1] * part[5] < columns else 0
    flat = np.frombuffer(blob, tensor.dtype.numpy, len(blob) // tensor.dtype.numpy.itemsize)
    return weights.unpack_blocks(flat, tensor.native_shape, (rows, columns, 1, 1), tensor.name)[:, :, 0, 0]


def _gates(rows: NDArray[Any], at: list[list[int]], hidden: int, node: Node) -> NDArray[np.float32]:
    if max(max(line) for line in at) + hidden > rows.shape[0]:
        raise ModelInvalid(f"node {node.label()}: {rows.shape[0]} stored rows are too few for its gates")
    return np.stack(
        [np.stack([rows[start : start + hidden].astype(np.float32) for start in line]) for line in at]
    )


def _float_bias(params: RecurrentParams, blob: memoryview, padded: int, node: Node) -> None:
    count = params.directions * 2 * params.gates * padded
    if len(blob) < 4 * count:
        raise ModelInvalid(f"node {node.label()}: bias of {len(blob)} bytes, {4 * count} needed")
    cells = np.frombuffer(blob, "<f4", count).copy().reshape(params.directions, 2, params.gates, padded)
    params.w_bias = cells[:, 0, :, : params.hidden]
    params.r_bias = cells[:, 1, :, : params.hidden]


def _quantised(
    params: RecurrentParams, x: Tensor, blob: memoryview, padded: int, family: NpuFamily, tasks: list[_Task],
    node: Node,
) -> None:  # fmt: skip
    """int8 LSTM: integers to real values with the two output scales of the node's tasks.

    Weights that were quantised as a whole have neither zero points nor multipliers per row; what the two tasks say
    holds for all of them.
    """
    if x.quant is None:
        raise ModelInvalid(f"node {node.label()}: int8 weights on an input that is not quantised")
    if len(tasks) < 2:
        raise ModelInvalid(
            f"node {node.label()}: its registers give {len(tasks)} output scales, two are needed"
        )
    d, g, h = params.directions, params.gates, params.hidden
    has = (True, tasks[0].zero_point, tasks[0].multiplier)
    data = weights.parse_bias(blob, d * 2 * g * padded, family.bias_group, has, node.name)
    assert data.bias is not None
    shape = (d, 2, g, padded)
    bias = data.bias.astype(np.float64).reshape(shape)[..., :h]
    steps, zeros = [], []
    for i, task in enumerate(tasks[:2]):
        unit = task.scale * 2.0**-15
        steps.append(
            np.full((d, g, h), unit)
            if data.multiplier is None
            else data.multiplier.reshape(shape)[:, i, :, :h] * 2.0**-14 * unit
        )
        zeros.append(
            np.full((d, g, h), task.common_zero_point)
            if data.zero_point is None
            else data.zero_point.reshape(shape)[:, i, :, :h]
        )
    w_int, r_int = params.w - zeros[0][..., None], params.r - zeros[1][..., None]
    params.w_bias = ((bias[:, 0] + x.quant.zero_point * w_int.sum(axis=-1)) * steps[0]).astype(np.float32)
    params.r_bias = (bias[:, 1] * steps[1]).astype(np.float32)
    params.w = (w_int * steps[0][..., None] / x.quant.scale).astype(np.float32)
    params.r = (r_int * steps[1][..., None] * 127).astype(np.float32)


class _Task(NamedTuple):
    """What the registers of a product say: OUT_SCALE * 2**-OUT_SHIFT, and where zero points and multipliers are."""

    scale: float
    zero_point: bool
    multiplier: bool
    common_zero_point: int


def _weight_tasks(
    family: NpuFamily, program: RegisterProgram, index: int, beside: Sequence[_Completed]
) -> list[_Task]:
    """The products of W and R: the first with distinct scales that have a bias; per row if there is such a one."""
    found: list[tuple[_Task, Registers]] = []
    kept: dict[int, int] = {}
    for regs in program.registers(index):
        kept.update(regs)
        bias, zero_point, multiplier, common = family.places.data_use(kept)
        task = _Task(scaled(family.places.out, kept), zero_point, multiplier, common)
        if bias and all(task.scale != other.scale or task[1:3] != other[1:3] for other, _ in found):
            found.append((task, dict(kept)))
    per_row = [task for task, _ in found if task.zero_point and task.multiplier]
    if per_row:
        return per_row
    whole = [(task, regs) for task, regs in found if not (task.zero_point or task.multiplier)]
    return [
        task._replace(common_zero_point=family.places.data_use(completed(regs))[3])
        for (task, regs), completed in zip(whole, beside)
    ]
