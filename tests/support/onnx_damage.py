"""Damaged ONNX networks that are read as such: fields of nodes, stored arrays, inputs and outputs changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

__all__ = ["edited_networks"]

NUMBERS = (0, 1, -1, 2, 127, 128, 255, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))
NAMES = ("", "x", "\0", "x" * 3000, "/", "..")
KINDS = (
    "Identity",
    "QuantizeLinear",
    "DequantizeLinear",
    "Conv",
    "Div",
    "Round",
    "Clip",
    "Mul",
    "Loop",
    "ConstantOfShape",
    "Expand",
    "Nothing",
)
Draw = Callable[[int], int]


def edited_networks(seed: bytes) -> st.SearchStrategy[bytes]:
    """The network with one to four fields changed."""
    changes = st.lists(
        st.tuples(st.sampled_from(_EDITS), st.lists(st.integers(0, 1 << 16), min_size=8, max_size=8)),
        min_size=1,
        max_size=4,
    )
    return changes.map(lambda chosen: _edited(seed, chosen))


def _edited(seed: bytes, chosen: Sequence[tuple[Callable[[Any, Draw], None], list[int]]]) -> bytes:
    from onnx import ModelProto

    model = ModelProto.FromString(seed)
    for edit, numbers in chosen:
        left = itertools.cycle(numbers)
        edit(model, lambda count, left=left: next(left) % max(1, count))  # type: ignore[misc]
    data: bytes = model.SerializeToString()
    return data


def _of(items: Sequence[Any], draw: Draw) -> Any:
    return items[draw(len(items))] if items else None


def _names(model: Any) -> list[str]:
    made = [name for node in model.graph.node for name in (*node.input, *node.output)]
    return [*made, *(each.name for each in model.graph.initializer), *NAMES]


def _rewired(model: Any, draw: Draw) -> None:
    """An operand or a result by another name: cycles, doubles, things that are not there."""
    node = _of(model.graph.node, draw)
    ends = node and _of((node.input, node.output), draw)
    if ends:
        ends[draw(len(ends))] = _of(_names(model), draw)


def _short(model: Any, draw: Draw) -> None:
    node = _of(model.graph.node, draw)
    ends = node and _of((node.input, node.output), draw)
    if ends:
        del ends[draw(len(ends)) :]


def _typed(model: Any, draw: Draw) -> None:
    node = _of(model.graph.node, draw)
    if node:
        node.op_type = _of(KINDS, draw)


def _doubled(model: Any, draw: Draw) -> None:
    node = _of(model.graph.node, draw)
    if node:
        model.graph.node.add().CopyFrom(node)


def _attribute(model: Any, draw: Draw) -> None:
    nodes = [node for node in model.graph.node if node.attribute]
    node = _of(nodes, draw)
    if not node:
        return
    attribute = _of(node.attribute, draw)
    attribute.i = _of(NUMBERS, draw)
    if attribute.ints:
        attribute.ints[draw(len(attribute.ints))] = _of(NUMBERS, draw)
    if draw(4) == 0:
        attribute.type = draw(12)
    if draw(4) == 0:
        attribute.name = _of(NAMES, draw)


def _stored(model: Any, draw: Draw) -> None:
    tensor = _of(model.graph.initializer, draw)
    if not tensor:
        return
    way = draw(5)
    if way == 0 and tensor.dims:
        tensor.dims[draw(len(tensor.dims))] = _of(NUMBERS, draw)
    elif way == 1:
        tensor.data_type = draw(22)
    elif way == 2:
        tensor.raw_data = tensor.raw_data[: draw(len(tensor.raw_data) + 1)]
    elif way == 3:
        tensor.raw_data = bytes([draw(256)]) * len(tensor.raw_data)
    else:
        tensor.data_location = 1
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", _of(("/dev/zero", "/etc/passwd", "../x", "none"), draw)


def _shaped(model: Any, draw: Draw) -> None:
    info = _of([*model.graph.input, *model.graph.output, *model.graph.value_info], draw)
    if not info:
        return
    tensor = info.type.tensor_type
    if draw(3) == 0:
        tensor.elem_type = draw(22)
    elif tensor.shape.dim:
        tensor.shape.dim[draw(len(tensor.shape.dim))].dim_value = _of(NUMBERS, draw)
    else:
        info.name = _of(_names(model), draw)


def _removed(model: Any, draw: Draw) -> None:
    fields = (
        model.graph.node,
        model.graph.initializer,
        model.graph.input,
        model.graph.output,
        model.opset_import,
    )
    field = _of(fields, draw)
    if field:
        del field[draw(len(field))]


def _version(model: Any, draw: Draw) -> None:
    if model.opset_import:
        model.opset_import[0].version = _of(NUMBERS, draw)
    if draw(2):
        model.ir_version = _of(NUMBERS, draw)


_EDITS = (_rewired, _short, _typed, _doubled, _attribute, _stored, _shaped, _removed, _version)
