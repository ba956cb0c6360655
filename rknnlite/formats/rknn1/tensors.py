"""Tensors that a toolkit-1 file describes, those of its inputs and outputs among them. The lists are trusted, not the counts.

Sizes are innermost first in the file; here they are in numpy's order. Nodes are read by ``rknnlite_graph.rknn1``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from ...errors import ModelInvalid, ModelUnsupported, shown
from ...quant import RANGES
from ...tensor import DType, QuantParams

__all__ = [
    "MOST_ENTRIES",
    "MOST_SLOT",
    "TensorEntry",
    "channels_last",
    "element",
    "ends",
    "entries",
    "norm_tensors",
    "shape_of",
    "shift_of",
    "text_of",
    "whole",
]

_TYPES = {
    "VSI_NN_TYPE_UINT8": DType.UINT8, "VSI_NN_TYPE_INT8": DType.INT8, "VSI_NN_TYPE_INT16": DType.INT16,
    "VSI_NN_TYPE_UINT16": DType.UINT16, "VSI_NN_TYPE_INT32": DType.INT32, "VSI_NN_TYPE_UINT32": DType.UINT32,
    "VSI_NN_TYPE_INT64": DType.INT64, "VSI_NN_TYPE_FLOAT16": DType.FLOAT16, "VSI_NN_TYPE_FLOAT32": DType.FLOAT32,
    "VSI_NN_TYPE_BFLOAT16": DType.BFLOAT16, "VSI_NN_TYPE_BOOL8": DType.BOOL,
}  # fmt: skip
_NONE, _ASYMMETRIC, _DFP = (f"VSI_NN_QNT_TYPE_{word}" for word in ("NONE", "AFFINE_ASYMMETRIC", "DFP"))
MOST_ENTRIES = 1 << 16
_MOST_RANK = 8
_MOST_ELEMENTS = 1 << 31
_MOST_SHIFT = 64
MOST_SLOT = 1 << 10


@dataclass(frozen=True)
class TensorEntry:
    """A tensor with a size (norm), with bytes (const: ``offset`` and ``length`` into the data), or with neither (virtual)."""

    id: int
    name: str
    dtype: DType
    quant: Optional[QuantParams]
    shape: tuple[int, ...] = ()
    offset: int = 0
    length: int = 0
    shift: Optional[int] = None
    """Fractional bits of dynamic fixed point, where that is the quantisation."""


def norm_tensors(fields: Mapping[str, Any]) -> dict[int, TensorEntry]:
    """The tensors with a size, by id; raises ModelInvalid naming the entry."""
    return {e.id: e for e in (_tensor(entry, n) for n, entry in entries(fields, "norm_tensor"))}


def channels_last(fields: Mapping[str, Any]) -> bool:
    """Whether inputs of rank 4 are NHWC."""
    return fields.get("input_fmt") == 1


def entries(fields: Mapping[str, Any], key: str) -> list[tuple[int, Mapping[str, Any]]]:
    """The objects of a list, each with its number."""
    found = fields.get(key, [])
    if not isinstance(found, list) or len(found) > MOST_ENTRIES:
        raise ModelInvalid(f"damaged file: {key} must be a list of at most {MOST_ENTRIES} entries")
    for number, entry in enumerate(found):
        if not isinstance(entry, dict):
            raise ModelInvalid(f"damaged file: {key} {number} is {shown(entry)}, must be an object")
    return list(enumerate(found))


def whole(entry: Mapping[str, Any], key: str, where: str, most: int, default: Optional[int] = None) -> int:
    """A number in bounds."""
    value = entry.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ModelInvalid(
            f"damaged file: {where}: {key} is {shown(value)}, must be a whole number in 0..{most}"
        )
    return value


def text_of(entry: Mapping[str, Any], key: str, default: str) -> str:
    """A text, else the default."""
    value = entry.get(key, default)
    return value if isinstance(value, str) else default


def shape_of(entry: Mapping[str, Any], where: str) -> tuple[int, ...]:
    """A size in numpy's order."""
    size = entry.get("size")
    if not isinstance(size, list) or len(size) > _MOST_RANK:
        raise ModelInvalid(
            f"damaged file: {where}: size is {shown(size)}, must be at most {_MOST_RANK} numbers"
        )
    for dim in size:
        if isinstance(dim, bool) or not isinstance(dim, int) or dim < 1:
            raise ModelInvalid(f"damaged file: {where}: size {shown(size)} is impossible")
    if math.prod(size) > _MOST_ELEMENTS:
        raise ModelInvalid(f"damaged file: {where}: size {shown(size)} is impossible")
    return tuple(reversed(size))


def element(entry: Mapping[str, Any], where: str) -> tuple[DType, Optional[QuantParams]]:
    """The element type and how it is quantised."""
    found = entry.get("dtype")
    if not isinstance(found, dict):
        raise ModelInvalid(f"damaged file: {where} has no dtype")
    dtype = _TYPES.get(str(found.get("vx_type")))
    if dtype is None:
        raise ModelUnsupported(
            f"{where} has the element type {shown(found.get('vx_type'))}, which is unknown"
        )
    return dtype, _quant(found, dtype, where)


def _quant(found: Mapping[str, Any], dtype: DType, where: str) -> Optional[QuantParams]:
    kind = found.get("qnt_type", _NONE)
    if kind == _NONE or dtype.is_float:
        return None
    if kind == _DFP:
        shift = found.get("fl", 0)
        if isinstance(shift, bool) or not isinstance(shift, int) or abs(shift) > _MOST_SHIFT:
            raise ModelInvalid(f"damaged file: {where}: fl is {shown(shift)}")
        return QuantParams(2.0**-shift, 0)
    if kind != _ASYMMETRIC:
        raise ModelUnsupported(
            f"{where} is quantised as {shown(kind)}; known are asymmetric and dynamic fixed point"
        )
    scale, zero = found.get("scale"), found.get("zero_point", 0)
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 0 < scale < math.inf:
        raise ModelInvalid(f"damaged file: {where}: scale is {shown(scale)}")
    low, high = RANGES.get(dtype, (-(2**31), 2**31 - 1))
    if isinstance(zero, bool) or not isinstance(zero, int) or not low <= zero <= high:
        raise ModelInvalid(f"damaged file: {where}: zero_point is {shown(zero)}, outside of {low}..{high}")
    single = float(np.float32(scale))  # runtimes hold scales in single precision: it decides halves
    if not 0 < single < math.inf:
        raise ModelInvalid(f"damaged file: {where}: scale is {shown(scale)}")
    return QuantParams(single, zero)


def _tensor(entry: Mapping[str, Any], number: int) -> TensorEntry:
    where = f"norm_tensor {number}"
    dtype, quant = element(entry, where)
    id = whole(entry, "tensor_id", where, MOST_ENTRIES)
    name, shape = text_of(entry, "url", f"tensor_{id}"), shape_of(entry, where)
    return TensorEntry(id, name, dtype, quant, shape, shift=shift_of(entry, quant))


def shift_of(entry: Mapping[str, Any], quant: Optional[QuantParams]) -> Optional[int]:
    """Fractional bits, which ``_quant`` has checked."""
    found = entry["dtype"]
    return found.get("fl", 0) if quant and found.get("qnt_type") == _DFP else None


def ends(fields: Mapping[str, Any], norms: Mapping[int, TensorEntry]) -> tuple[list[int], list[int]]:
    """Norm tensors by the index that users see: those of ``graph``, never of ``connection``."""
    sides: dict[str, dict[int, int]] = {"input": {}, "output": {}}
    for number, entry in entries(fields, "graph"):
        where, side = f"graph {number}", entry.get("left")
        if not isinstance(side, str) or side not in sides:
            raise ModelInvalid(f"damaged file: {where}: left is {shown(side)}, must be input or output")
        tensor = whole(entry, "right_tensor_id", where, MOST_ENTRIES)
        if tensor not in norms:
            raise ModelInvalid(f"damaged file: {where} names the norm_tensor {tensor}, which is not there")
        sides[side][whole(entry, "left_tensor_id", where, MOST_SLOT)] = tensor
    inputs, outputs = ([found[i] for i in sorted(found)] for found in (sides["input"], sides["output"]))
    if not inputs or not outputs:
        raise ModelInvalid("damaged file: its graph has no input or no output")
    return inputs, outputs
