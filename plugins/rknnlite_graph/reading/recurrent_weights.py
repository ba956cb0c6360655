"""Weights of LSTM and GRU nodes, decoded to one real array per operand (docs/rknn-format.md, RNN)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.quant import RANGES
from rknnlite.tensor import DType

from ..graph import RECURRENT_GATES, Node, RecurrentParams, StoredRows, Tensor
from . import weights
from .npu_families import NpuFamily
from .register_map import Registers, scaled
from .registers import RegisterProgram

__all__ = ["WithConstants", "read_plain_recurrent", "read_recurrent"]

WithConstants = Callable[[int, Registers], Registers]

_HIDDEN_STEP = 1 / 127
"""Of h, which lies between -1 and 1; where the network is fed an initial h, its steps are that one's."""


def read_recurrent(
    node: Node,
    tensors: list[Tensor],
    blobs: list[memoryview],
    output: tuple[int, ...],
    family: NpuFamily,
    program: RegisterProgram,
    with_constants: WithConstants,
    state: Optional[Tensor] = None,
) -> RecurrentParams:
    """Decode W, R and B of a node.

    Args:
        tensors: x, W, R, B as listed by the node. blobs: stored bytes of W, R, B. output: shape of the first output.
        state: the initial h, where the node has one.
        with_constants: adds what some families keep in small constants to the registers of x W (0) or h R (1).
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
        gates=gates,
        hidden=hidden,
        directions=directions,
        w=_gates(w_rows, w_at, hidden, node),
        r=_gates(r_rows, r_at, hidden, node),
        w_bias=np.zeros((directions, gates, hidden), np.float32),
        r_bias=np.zeros((directions, gates, hidden), np.float32),
        reverse=_reversed(node, directions),
        linear_before_reset=bool(node.attrs.get("linear_before_reset", 0)),
    )
    if quantised:
        products = _products(family, program, node, with_constants)
        hidden_step = _HIDDEN_STEP if state is None or state.quant is None else state.quant.scale
        _quantised(params, x, hidden_step, blobs[2], padded, products, node)
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
    if (
        len(shape) != 3
        or shape[1] % gates
        or r.shape != (*shape[:2], shape[1] // gates)
        or any(not tensor.dtype.is_float for tensor in tensors[1:])
    ):
        raise ModelInvalid(
            f"node {node.label()}: W {list(shape)} and R {list(r.shape)} are not {gates} gates"
        )
    directions, hidden = shape[0], shape[1] // gates
    if biases and _stand_in(biases[0], (directions, 8 * (hidden + -hidden % 8))):
        biases = []
    given = [list(b.shape) for b in biases]
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
        gates=gates,
        hidden=hidden,
        directions=directions,
        w=w_rows,
        r=r_rows,
        w_bias=bias[:, 0],
        r_bias=bias[:, 1],
        reverse=_reversed(node, directions),
        linear_before_reset=bool(node.attrs.get("linear_before_reset", 0)),
    )


def _stand_in(bias: Tensor, shape: tuple[int, int]) -> bool:
    """Whether a bias is what the compiler writes for none: zeros for as many rows
    as an LSTM of padded gates has, also for a GRU."""
    return bias.shape == shape and not bias.value().any()


def _stepped(tensor: Tensor, scales: NDArray[Any], zeros: NDArray[Any], whole: DType) -> NDArray[np.float32]:
    """The rows of a float32 matrix, rounded to steps of int8 (of int16 beside int16 data) where the file names them,
    one per row or one for all."""
    rows = tensor.value().astype(np.float32).reshape(-1, tensor.shape[-1])
    if len(scales) not in (1, len(rows)) or len(zeros) != len(scales) or not (scales > 0).all():
        return rows
    step, zero = scales.reshape(-1, 1), zeros.reshape(-1, 1).astype(np.float32)
    low, high = RANGES[DType.INT16 if whole is DType.INT16 else DType.INT8]
    with np.errstate(all="ignore"):  # a damaged file may hold steps that float32 cannot divide by
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


@dataclass(frozen=True)
class _Product:
    """What the registers tell of x W or h R: the step of its sums, and what is read per row.

    ``uses``: whether bias, zero points and multipliers lie in the file row by row; ``zero_point`` is that of all rows else,
    ``bias_group`` the number of rows whose numbers lie together. Sums are shifted right by ``truncation`` before the bias
    is added, where that would pass 32 bits.
    """

    step: float
    uses: tuple[bool, bool, bool]
    zero_point: int
    bias_group: int
    truncation: int


def _quantised(
    params: RecurrentParams,
    x: Tensor,
    hidden_step: float,
    blob: memoryview,
    padded: int,
    products: list[_Product],
    node: Node,
) -> None:
    """int8 LSTM: integers to real values with the output scales of x W and h R; h has steps of ``hidden_step``."""
    if x.quant is None:
        raise ModelInvalid(f"node {node.label()}: int8 weights on an input that is not quantised")
    if len(products) < 2 or products[0].uses != products[1].uses:
        raise ModelInvalid(
            f"node {node.label()}: its registers give {len(products)} output scales, two of one kind are needed"
        )
    d, g, h = params.directions, params.gates, params.hidden
    data = weights.parse_bias(blob, d * 2 * g * padded, products[0].bias_group, products[0].uses, node.name)
    assert data.bias is not None

    def rows(values: Optional[NDArray[Any]], i: int, common: float) -> NDArray[np.float64]:
        if values is None:  # the same for all rows: networks that are quantised layer by layer
            return np.full((d, g, h), common)
        return values.astype(np.float64).reshape(d, 2, g, padded)[:, i, :, :h]

    (w_int, w_step), (r_int, r_step) = (
        (
            np.ldexp(stored - rows(data.zero_point, i, product.zero_point)[..., None], -product.truncation),
            rows(data.multiplier, i, 2.0**14) * 2.0**-14 * product.step * 2.0**-15,
        )
        for i, (stored, product) in enumerate(zip((params.w, params.r), products))
    )
    if data.multiplier is not None:
        params.stored = tuple(
            StoredRows(matrix, rows(data.multiplier, i, 0.0), _span(np.ldexp(whole, product.truncation)))
            for i, (matrix, whole, product) in enumerate(zip("WR", (w_int, r_int), products))
        )
    w_bias, r_bias = (rows(data.bias, i, 0.0) for i in range(2))
    params.w_bias = ((w_bias + x.quant.zero_point * w_int.sum(axis=-1)) * w_step).astype(np.float32)
    params.r_bias = (r_bias * r_step).astype(np.float32)
    params.steps = (  # of the whole numbers that the file stores
        np.ldexp(w_step, -products[0].truncation) / x.quant.scale,
        np.ldexp(r_step, -products[1].truncation) / hidden_step,
    )
    params.w = (w_int * w_step[..., None] / x.quant.scale).astype(np.float32)
    params.r = (r_int * r_step[..., None] / hidden_step).astype(np.float32)


def _span(rows: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.maximum(rows.max(axis=-1), 0) - np.minimum(rows.min(axis=-1), 0), np.float64)


def _products(
    family: NpuFamily, program: RegisterProgram, node: Node, with_constants: WithConstants
) -> list[_Product]:
    """x W and h R: the first two distinct products of the tasks that add a bias per row."""
    found: list[_Product] = []
    kept: dict[int, int] = {}
    for regs in program.registers(node.index):
        kept.update(regs)
        step = scaled(family.places.out, kept)
        bias, zero, multiplier, common = family.places.data_use(kept)
        if not bias or zero != multiplier or any(step == other.step for other in found):
            continue
        if not zero:
            common = family.places.data_use(with_constants(len(found), kept))[3]
        shift = family.places.truncation
        shifted = 0 if shift is None else shift.of(kept)
        found.append(_Product(step, (bias, zero, multiplier), common, family.bias_group, shifted))
        if len(found) == 2:
            break
    return found
