"""The description of a toolkit-1 file as typed values: tensors, nodes, links. The lists are trusted, not the counts.

Sizes are innermost first in the file; here they are in numpy's order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np

from ...errors import ModelInvalid, ModelUnsupported, shown
from ...quant import RANGES
from ...tensor import DType, QuantParams

__all__ = ["Description", "NodeEntry", "Source", "TensorEntry", "describe"]

_TYPES = {
    "VSI_NN_TYPE_UINT8": DType.UINT8, "VSI_NN_TYPE_INT8": DType.INT8, "VSI_NN_TYPE_INT16": DType.INT16,
    "VSI_NN_TYPE_UINT16": DType.UINT16, "VSI_NN_TYPE_INT32": DType.INT32, "VSI_NN_TYPE_UINT32": DType.UINT32,
    "VSI_NN_TYPE_INT64": DType.INT64, "VSI_NN_TYPE_FLOAT16": DType.FLOAT16, "VSI_NN_TYPE_FLOAT32": DType.FLOAT32,
    "VSI_NN_TYPE_BFLOAT16": DType.BFLOAT16, "VSI_NN_TYPE_BOOL8": DType.BOOL,
}  # fmt: skip
_NONE, _ASYMMETRIC, _DFP = (f"VSI_NN_QNT_TYPE_{word}" for word in ("NONE", "AFFINE_ASYMMETRIC", "DFP"))
_MOST_ENTRIES = 1 << 16
_MOST_RANK = 8
_MOST_ELEMENTS = 1 << 31
_MOST_SHIFT = 64
_MOST_SLOT = 1 << 10


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


@dataclass(frozen=True)
class Source:
    """Where an input of a node comes from: a norm or constant tensor by id, or the output of another node."""

    norm: Optional[int] = None
    const: Optional[int] = None
    node: Optional[int] = None
    port: int = 0


@dataclass
class NodeEntry:
    """A node; ``inputs`` by slot, some of which may be missing; ``outputs``: norm tensors that its ports write.

    ``policy`` is its rounding policy, empty where it has none.
    """

    index: int
    op: str
    name: str
    attrs: Mapping[str, Any]
    inputs: dict[int, Source] = field(default_factory=dict)
    outputs: dict[int, int] = field(default_factory=dict)
    ports: int = 1
    policy: str = ""

    def label(self) -> str:
        """For messages."""
        return f'{self.op} "{self.name}"'


@dataclass(frozen=True)
class Description:
    """Everything that a file says of its graph. ``inputs`` and ``outputs`` are norm tensors in the user's order; ``data``
    are the bytes of the constants. ``channels_last``: inputs of rank 4 are NHWC. ``ovxlib``: what operators mean depends
    on it."""

    nodes: list[NodeEntry]
    norms: dict[int, TensorEntry]
    consts: dict[int, TensorEntry]
    virtuals: dict[tuple[int, int], TensorEntry]
    inputs: list[int]
    outputs: list[int]
    data: memoryview = field(default=memoryview(b""), repr=False)
    channels_last: bool = False
    ovxlib: tuple[int, ...] = ()


def describe(fields: Mapping[str, Any], data: memoryview) -> Description:
    """Read the lists; raises ModelInvalid naming the entry."""
    norms = {e.id: e for e in (_tensor(entry, n) for n, entry in _entries(fields, "norm_tensor"))}
    consts = {e.id: e for e in (_const(entry, n, len(data)) for n, entry in _entries(fields, "const_tensor"))}
    virtuals = dict(_virtual(entry, n) for n, entry in _entries(fields, "virtual_tensor"))
    nodes = [_node(entry, n) for n, entry in _entries(fields, "nodes")]
    for number, entry in _entries(fields, "connection"):
        _connect(entry, f"connection {number}", nodes, norms, consts)
    inputs, outputs = _ends(fields, norms)
    last, version = fields.get("input_fmt") == 1, _version(fields.get("ovxlib_version", ""))
    return Description(nodes, norms, consts, virtuals, inputs, outputs, data, last, version)


def _version(text: Any) -> tuple[int, ...]:
    """``1.1.26`` as numbers."""
    parts = text.split(".") if isinstance(text, str) else [""]
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        raise ModelInvalid(f"damaged file: ovxlib_version is {shown(text)}, must be numbers such as 1.1.26")
    return tuple(int(part) for part in parts)


def _entries(fields: Mapping[str, Any], key: str) -> list[tuple[int, Mapping[str, Any]]]:
    found = fields.get(key, [])
    if not isinstance(found, list) or len(found) > _MOST_ENTRIES:
        raise ModelInvalid(f"damaged file: {key} must be a list of at most {_MOST_ENTRIES} entries")
    for number, entry in enumerate(found):
        if not isinstance(entry, dict):
            raise ModelInvalid(f"damaged file: {key} {number} is {shown(entry)}, must be an object")
    return list(enumerate(found))


def _whole(entry: Mapping[str, Any], key: str, where: str, most: int, default: Optional[int] = None) -> int:
    value = entry.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ModelInvalid(
            f"damaged file: {where}: {key} is {shown(value)}, must be a whole number in 0..{most}"
        )
    return value


def _text(entry: Mapping[str, Any], key: str, default: str) -> str:
    value = entry.get(key, default)
    return value if isinstance(value, str) else default


def _shape(entry: Mapping[str, Any], where: str) -> tuple[int, ...]:
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


def _element(entry: Mapping[str, Any], where: str) -> tuple[DType, Optional[QuantParams]]:
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
    dtype, quant = _element(entry, where)
    id = _whole(entry, "tensor_id", where, _MOST_ENTRIES)
    name, shape = _text(entry, "url", f"tensor_{id}"), _shape(entry, where)
    return TensorEntry(id, name, dtype, quant, shape, shift=_shift(entry, quant))


def _shift(entry: Mapping[str, Any], quant: Optional[QuantParams]) -> Optional[int]:
    """Fractional bits, which ``_quant`` has checked."""
    found = entry["dtype"]
    return found.get("fl", 0) if quant and found.get("qnt_type") == _DFP else None


def _const(entry: Mapping[str, Any], number: int, data_size: int) -> TensorEntry:
    where = f"const_tensor {number}"
    dtype, quant = _element(entry, where)
    shape = _shape(entry, where)
    id = _whole(entry, "tensor_id", where, _MOST_ENTRIES)
    offset = _whole(entry, "offset", where, data_size)
    length = _whole(entry, "len", where, data_size - offset)
    need = math.prod(shape) * dtype.bits // 8
    if length < need:
        raise ModelInvalid(
            f"damaged file: {where}: {dtype.short} of size {list(shape)} takes {need} bytes, len is {length}"
        )
    return TensorEntry(id, f"const_{id}", dtype, quant, shape, offset, need)


def _virtual(entry: Mapping[str, Any], number: int) -> tuple[tuple[int, int], TensorEntry]:
    where = f"virtual_tensor {number}"
    dtype, quant = _element(entry, where)
    node = _whole(entry, "node_id", where, _MOST_ENTRIES)
    port = _whole(entry, "output_port", where, _MOST_SLOT, 0)
    return (node, port), TensorEntry(number, f"node_{node}_{port}", dtype, quant, shift=_shift(entry, quant))


def _node(entry: Mapping[str, Any], number: int) -> NodeEntry:
    op = _text(entry, "op", "")
    if not op:
        raise ModelInvalid(f"damaged file: node {number} has no op")
    families = entry.get("nn") or {}
    if not isinstance(families, dict):
        raise ModelInvalid(f"damaged file: node {number}: nn is {shown(families)}, must be an object")
    attrs: dict[str, Any] = {}
    for family in families.values():
        if isinstance(family, dict):
            attrs.update(family)
    name = _text(entry, "lid", "") or _text(entry, "name", "") or f"node_{number}"
    ports = _whole(entry, "output_num", f"node {number}", _MOST_SLOT, 1)
    vx = entry.get("vx")
    policy = _text(vx, "rounding_policy", "") if isinstance(vx, dict) else ""
    return NodeEntry(number, op, name, attrs, ports=max(1, ports), policy=policy)


def _connect(
    entry: Mapping[str, Any],
    where: str,
    nodes: list[NodeEntry],
    norms: Mapping[int, TensorEntry],
    consts: Mapping[int, TensorEntry],
) -> None:
    index = _whole(entry, "node_id", where, len(nodes) - 1)
    slot, node = _whole(entry, "left_tensor_id", where, _MOST_SLOT), nodes[index]
    tensor, other = entry.get("right_tensor"), entry.get("right_node")
    if isinstance(other, dict):
        source = Source(
            node=_whole(other, "node_id", where, len(nodes) - 1),
            port=_whole(other, "tensor_id", where, _MOST_SLOT, 0),
        )
    elif isinstance(tensor, dict):
        id, constant = _whole(tensor, "tensor_id", where, _MOST_ENTRIES), tensor.get("type") == "const_tensor"
        if id not in (consts if constant else norms):
            raise ModelInvalid(
                f"damaged file: {where} names the {shown(tensor.get('type'))} {id}, which is not there"
            )
        source = Source(const=id) if constant else Source(norm=id)
    else:
        raise ModelInvalid(f"damaged file: {where} leads nowhere")
    if entry.get("left") == "input":
        node.inputs[slot] = source
    elif source.norm is not None:
        node.outputs[slot] = source.norm
        node.ports = max(node.ports, slot + 1)


def _ends(fields: Mapping[str, Any], norms: Mapping[int, TensorEntry]) -> tuple[list[int], list[int]]:
    """Norm tensors by the index that users see: those of ``graph``, never of ``connection``."""
    ends: dict[str, dict[int, int]] = {"input": {}, "output": {}}
    for number, entry in _entries(fields, "graph"):
        where, side = f"graph {number}", entry.get("left")
        if side not in ends:
            raise ModelInvalid(f"damaged file: {where}: left is {shown(side)}, must be input or output")
        tensor = _whole(entry, "right_tensor_id", where, _MOST_ENTRIES)
        if tensor not in norms:
            raise ModelInvalid(f"damaged file: {where} names the norm_tensor {tensor}, which is not there")
        ends[str(side)][_whole(entry, "left_tensor_id", where, _MOST_SLOT)] = tensor
    inputs, outputs = ([found[i] for i in sorted(found)] for found in (ends["input"], ends["output"]))
    if not inputs or not outputs:
        raise ModelInvalid("damaged file: its graph has no input or no output")
    return inputs, outputs
