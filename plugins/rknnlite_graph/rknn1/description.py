"""The description of a toolkit-1 file as typed values: tensors, nodes, links. The lists are trusted, not the counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from rknnlite.errors import ModelInvalid, shown
from rknnlite.formats.rknn1 import Rknn1Model
from rknnlite.formats.rknn1.tensors import (
    MOST_ENTRIES,
    MOST_SLOT,
    TensorEntry,
    channels_last,
    element,
    ends,
    entries,
    norm_tensors,
    shape_of,
    shift_of,
    text_of,
    whole,
)

__all__ = ["Description", "NodeEntry", "Source", "describe"]


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


def describe(model: Rknn1Model) -> Description:
    """Read the lists; raises ModelInvalid naming the entry."""
    fields, data = model.fields, model.constants
    norms = norm_tensors(fields)
    consts = {e.id: e for e in (_const(entry, n, len(data)) for n, entry in entries(fields, "const_tensor"))}
    virtuals = dict(_virtual(entry, n) for n, entry in entries(fields, "virtual_tensor"))
    nodes = [_node(entry, n) for n, entry in entries(fields, "nodes")]
    for number, entry in entries(fields, "connection"):
        _connect(entry, f"connection {number}", nodes, norms, consts)
    inputs, outputs = ends(fields, norms)
    last, version = channels_last(fields), _version(fields.get("ovxlib_version", ""))
    return Description(nodes, norms, consts, virtuals, inputs, outputs, data, last, version)


def _version(text: Any) -> tuple[int, ...]:
    """``1.1.26`` as numbers."""
    parts = text.split(".") if isinstance(text, str) else [""]
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        raise ModelInvalid(f"damaged file: ovxlib_version is {shown(text)}, must be numbers such as 1.1.26")
    return tuple(int(part) for part in parts)


def _const(entry: Mapping[str, Any], number: int, data_size: int) -> TensorEntry:
    where = f"const_tensor {number}"
    dtype, quant = element(entry, where)
    shape = shape_of(entry, where)
    id = whole(entry, "tensor_id", where, MOST_ENTRIES)
    offset = whole(entry, "offset", where, data_size)
    length = whole(entry, "len", where, data_size - offset)
    need = math.prod(shape) * dtype.bits // 8
    if length < need:
        raise ModelInvalid(
            f"damaged file: {where}: {dtype.short} of size {list(shape)} takes {need} bytes, len is {length}"
        )
    return TensorEntry(id, f"const_{id}", dtype, quant, shape, offset, need)


def _virtual(entry: Mapping[str, Any], number: int) -> tuple[tuple[int, int], TensorEntry]:
    where = f"virtual_tensor {number}"
    dtype, quant = element(entry, where)
    node = whole(entry, "node_id", where, MOST_ENTRIES)
    port = whole(entry, "output_port", where, MOST_SLOT, 0)
    return (node, port), TensorEntry(
        number, f"node_{node}_{port}", dtype, quant, shift=shift_of(entry, quant)
    )


def _node(entry: Mapping[str, Any], number: int) -> NodeEntry:
    op = text_of(entry, "op", "")
    if not op:
        raise ModelInvalid(f"damaged file: node {number} has no op")
    families = entry.get("nn") or {}
    if not isinstance(families, dict):
        raise ModelInvalid(f"damaged file: node {number}: nn is {shown(families)}, must be an object")
    attrs: dict[str, Any] = {}
    for family in families.values():
        if isinstance(family, dict):
            attrs.update(family)
    name = text_of(entry, "lid", "") or text_of(entry, "name", "") or f"node_{number}"
    ports = whole(entry, "output_num", f"node {number}", MOST_SLOT, 1)
    vx = entry.get("vx")
    policy = text_of(vx, "rounding_policy", "") if isinstance(vx, dict) else ""
    return NodeEntry(number, op, name, attrs, ports=max(1, ports), policy=policy)


def _connect(
    entry: Mapping[str, Any],
    where: str,
    nodes: list[NodeEntry],
    norms: Mapping[int, TensorEntry],
    consts: Mapping[int, TensorEntry],
) -> None:
    index = whole(entry, "node_id", where, len(nodes) - 1)
    slot, node = whole(entry, "left_tensor_id", where, MOST_SLOT), nodes[index]
    tensor, other = entry.get("right_tensor"), entry.get("right_node")
    if isinstance(other, dict):
        source = Source(
            node=whole(other, "node_id", where, len(nodes) - 1),
            port=whole(other, "tensor_id", where, MOST_SLOT, 0),
        )
    elif isinstance(tensor, dict):
        id, constant = whole(tensor, "tensor_id", where, MOST_ENTRIES), tensor.get("type") == "const_tensor"
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
