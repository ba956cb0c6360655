"""Weights of LSTM and GRU nodes, decoded to one real array per operand (docs/rknn-format.md, RNN)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelInvalid
from ..graph import RECURRENT_GATES, Node, RecurrentParams, Tensor
from . import weights
from .families import NpuFamily
from .register_map import scaled
from .registers import RegisterProgram

__all__ = ["read_plain_recurrent", "read_recurrent"]


def read_recurrent(
    node: Node, tensors: list[Tensor], blobs: list[memoryview], output: tuple[int, ...],
    family: NpuFamily, program: RegisterProgram,
) -> RecurrentParams:  # fmt: skip
    """Decode W, R and B of a node.

    Args:
        tensors: x, W, R, B as listed by the node. blobs: stored bytes of W, R, B. output: shape of the first output.
    """
    gates = RECURRENT_GATES[node.op]
    x, w, r, _ = tensors
    quantised = w.dtype.bits == 8
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
        _quantised(params, x, blobs[2], padded, family, program, node)
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
    _, w, r, *biases = tensors
    shape = w.shape
    if len(shape) != 3 or shape[1] % gates or r.shape != (*shape[:2], shape[1] // gates) or any(
        not tensor.dtype.is_float for tensor in tensors[1:]
    ):  # fmt: skip
        raise ModelInvalid(
            f"node {node.label()}: W {list(shape)} and R {list(r.shape)} are not {gates} gates"
        )
    directions, hidden = shape[0], shape[1] // gates
    given = [list(b.shape) for b in biases]
    if given not in ([], [[directions, 2 * shape[1]]]) or directions not in (1, 2) or not hidden:
        raise ModelInvalid(f"node {node.label()}: bias {given} does not fit W {list(shape)}")
    w_rows, r_rows = (
        _stepped(t, *step).reshape(directions, gates, hidden, -1) for t, step in zip((w, r), steps)
    )
    stored = (
        biases[0].value().astype(np.float32) if biases else np.zeros(directions * 2 * shape[1], np.float32)
    )
    bias = stored.reshape(directions, 2, gates, hidden)
    return RecurrentParams(
        gates=gates, hidden=hidden, directions=directions, w=w_rows, r=r_rows, w_bias=bias[:, 0], r_bias=bias[:, 1],
        reverse=_reversed(node, directions),
        linear_before_reset=bool(node.attrs.get("linear_before_reset", 0)),
    )  # fmt: skip


def _stepped(tensor: Tensor, scales: NDArray[Any], zeros: NDArray[Any]) -> NDArray[np.float32]:
    """The rows of a float32 matrix, rounded to int8 steps where the file names them."""
    rows = tensor.value().astype(np.float32).reshape(-1, tensor.shape[-1])
    if len(scales) != len(rows) or len(zeros) != len(rows) or not (scales > 0).all():
        return rows
    step, zero = scales.reshape(-1, 1), zeros.reshape(-1, 1).astype(np.float32)
    with np.errstate(all="ignore"):  # a damaged file may hold steps that float32 cannot divide by
        stored = np.clip(np.rint(rows / step) + zero, -128, 127)
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
    params: RecurrentParams, x: Tensor, blob: memoryview, padded: int, family: NpuFamily, program: RegisterProgram,
    node: Node,
) -> None:  # fmt: skip
    """int8 LSTM: per-channel integers to real values with the two output scales of the node's tasks."""
    if x.quant is None:
        raise ModelInvalid(f"node {node.label()}: int8 weights on an input that is not quantised")
    scales = _output_scales(family, program, node.index)
    if len(scales) < 2:
        raise ModelInvalid(
            f"node {node.label()}: its registers give {len(scales)} output scales, two are needed"
        )
    d, g, h = params.directions, params.gates, params.hidden
    data = weights.parse_bias(blob, d * 2 * g * padded, family.bias_group, (True, True, True), node.name)
    assert data.bias is not None and data.zero_point is not None and data.multiplier is not None
    shape = (d, 2, g, padded)
    parts = (data.bias, data.zero_point, data.multiplier)
    bias, zero, mul = (part.astype(np.float64).reshape(shape)[..., :h] for part in parts)
    w_step, r_step = (mul[:, i] * 2.0**-14 * scales[i] * 2.0**-15 for i in range(2))
    w_int, r_int = params.w - zero[:, 0][..., None], params.r - zero[:, 1][..., None]
    params.w_bias = ((bias[:, 0] + x.quant.zero_point * w_int.sum(axis=-1)) * w_step).astype(np.float32)
    params.r_bias = (bias[:, 1] * r_step).astype(np.float32)
    params.w = (w_int * w_step[..., None] / x.quant.scale).astype(np.float32)
    params.r = (r_int * r_step[..., None] * 127).astype(np.float32)


def _output_scales(family: NpuFamily, program: RegisterProgram, index: int) -> list[float]:
    """First distinct OUT_SCALE * 2**-OUT_SHIFT among the tasks that use bias, zero point and multiplier."""
    found: list[float] = []
    kept: dict[int, int] = {}
    for regs in program.registers(index):
        kept.update(regs)
        value = scaled(family.places.out, kept)
        if all(place.of(kept) for place in family.places.uses) and value not in found:
            found.append(value)
    return found
