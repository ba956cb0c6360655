"""Several shapes of one network as one: what differs between them becomes a symbol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, ValueInfoProto, numpy_helper, shape_inference

__all__ = ["NotAlike", "with_symbols"]

Array = NDArray[Any]
_TO_THE_END = np.iinfo(np.int64).max
_WORDS = {0: "batch", 2: "height", 3: "width"}


class NotAlike(Exception):
    """Two shapes of a network whose nodes differ by more than sizes; the text says where."""


def with_symbols(models: Sequence[ModelProto]) -> ModelProto:
    """The first network with a symbol for every size that differs; each of the others is the same with its sizes put in.

    Raises NotAlike.
    """
    variants = [_Variant(model) for model in models]
    found = ModelProto()
    found.CopyFrom(models[0])
    counts = {len(model.graph.node) for model in models}
    if len(counts) > 1:
        raise NotAlike(f"they have {sorted(counts)} nodes")
    for number, node in enumerate(found.graph.node):
        _merge_node(node, [variant.node(number) for variant in variants], found.graph.initializer)
    symbols = _Symbols()
    for kind in ("input", "output", "value_info"):
        for entry in getattr(found.graph, kind):
            symbols.mark(entry, [variant.shapes.get(entry.name, ()) for variant in variants])
    used = {name for node in found.graph.node for name in node.input}
    kept = [tensor for tensor in found.graph.initializer if tensor.name in used]
    del found.graph.initializer[:]
    found.graph.initializer.extend(kept)
    for variant in variants:
        _prove(found, variant)
    return found


@dataclass
class _Variant:
    """One shape of the network: its constants, and the shape of every value."""

    model: ModelProto
    constants: dict[str, TensorProto] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.constants = {tensor.name: tensor for tensor in self.model.graph.initializer}
        self.shapes = _shapes(self.model)

    def node(self, number: int) -> _Seen:
        return _Seen(self.model.graph.node[number], self)


@dataclass
class _Seen:
    """A node in one variant."""

    node: Any
    variant: _Variant

    def constant(self, position: int) -> Array | None:
        """A stored operand; None for one that is computed."""
        if position >= len(self.node.input):
            return None
        stored = self.variant.constants.get(self.node.input[position])
        return None if stored is None else numpy_helper.to_array(stored)

    def shape(self, position: int) -> tuple[int, ...]:
        """Of an operand."""
        name = self.node.input[position]
        stored = self.variant.constants.get(name)
        return tuple(stored.dims) if stored is not None else self.variant.shapes.get(name, ())


def _shapes(model: ModelProto) -> dict[str, tuple[int, ...]]:
    graph = shape_inference.infer_shapes(model, data_prop=True).graph
    return {each.name: _dims(each) for each in (*graph.input, *graph.output, *graph.value_info)}


def _dims(entry: ValueInfoProto) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in entry.type.tensor_type.shape.dim)


# -- nodes -----------------------------------------------------------------------------------------------------


def _merge_node(node: Any, seen: Sequence[_Seen], constants: Any) -> None:
    """Constants that differ between the variants are replaced by what holds for all."""
    label = f"{node.op_type} {node.name!r}"
    if len({(each.node.op_type, len(each.node.input)) for each in seen}) > 1:
        raise NotAlike(f"node {label} is another one")
    if _whole_window(seen):
        node.op_type = f"Global{node.op_type}"
        del node.attribute[:]
    elif len({_attributes(each.node) for each in seen}) > 1:
        raise NotAlike(f"node {label} has other attributes")
    for position in range(len(node.input)):
        values = [each.constant(position) for each in seen]
        if any((value is None) != (values[0] is None) for value in values):
            raise NotAlike(f"operand {position} of node {label} is a constant in some")
        if values[0] is None or all(_same(value, values[0]) for value in values):
            continue
        new = _general(node.op_type, position, seen, values)
        if new is None:
            raise NotAlike(f"operand {position} of node {label} is another constant")
        name = f"{node.name}/any{position}"
        constants.append(numpy_helper.from_array(np.asarray(new, np.int64), name))
        node.input[position] = name


def _attributes(node: Any) -> tuple[bytes, ...]:
    return tuple(sorted(each.SerializeToString(deterministic=True) for each in node.attribute))


def _same(a: Array | None, b: Array | None) -> bool:
    return a is not None and b is not None and a.shape == b.shape and a.tobytes() == b.tobytes()


def _whole_window(seen: Sequence[_Seen]) -> bool:
    """Whether a pooling has the size of its input in every variant, and not the same size in all."""
    if seen[0].node.op_type not in ("AveragePool", "MaxPool") or len(seen[0].node.output) > 1:
        return False
    kernels = []
    for each in seen:
        attrs = {a.name: list(a.ints) for a in each.node.attribute}
        kernels.append(tuple(attrs.get("kernel_shape", ())))
        if kernels[-1] != each.shape(0)[2:] or any(attrs.get("pads", ())):
            return False
    return len(set(kernels)) > 1


def _general(kind: str, position: int, seen: Sequence[_Seen], values: Sequence[Any]) -> list[int] | None:
    """A list of sizes that is right for every variant; None where nobody knows one."""
    if len({value.shape for value in values}) > 1 or values[0].dtype != np.int64:
        return None
    if kind == "Reshape" and position == 1:
        return _reshape(seen, values)
    if kind == "Slice" and position in (1, 2):
        return _slice(position, seen, values)
    return None


def _reshape(seen: Sequence[_Seen], values: Sequence[Any]) -> list[int] | None:
    found: list[int] = []
    for axis, sizes in enumerate(zip(*(value.tolist() for value in values))):
        if len(set(sizes)) == 1:
            found.append(sizes[0])
        elif all(axis < len(each.shape(0)) and each.shape(0)[axis] == n for each, n in zip(seen, sizes)):
            found.append(0)  # as the input has it
        else:
            found.append(-1)
    return found if found.count(-1) <= 1 else None


def _slice(position: int, seen: Sequence[_Seen], values: Sequence[Any]) -> list[int] | None:
    axes = seen[0].constant(3)
    found: list[int] = []
    for number, ends in enumerate(zip(*(value.tolist() for value in values))):
        axis = number if axes is None else int(axes[number])
        ahead = {end - each.shape(0)[axis] for each, end in zip(seen, ends)}
        if len(set(ends)) == 1:
            found.append(ends[0])
        elif len(ahead) == 1:
            before = ahead.pop()
            if before == 0 and position == 1:
                return None
            found.append(before or _TO_THE_END)
        else:
            return None
    return found


# -- sizes -----------------------------------------------------------------------------------------------------


@dataclass
class _Symbols:
    """A symbol for every set of sizes that an axis has in the variants."""

    known: dict[tuple[int, tuple[int, ...]], str] = field(default_factory=dict)

    def mark(self, entry: ValueInfoProto, shapes: Sequence[tuple[int, ...]]) -> None:
        """Put symbols into the shape of a value."""
        ranks = {len(shape) for shape in shapes}
        if len(ranks) > 1:
            raise NotAlike(f"{entry.name} has shapes of {sorted(ranks)} axes")
        for axis, sizes in enumerate(zip(*shapes)):
            if len(set(sizes)) > 1:
                entry.type.tensor_type.shape.dim[axis].dim_param = self._symbol(axis, sizes)

    def _symbol(self, axis: int, sizes: tuple[int, ...]) -> str:
        if (axis, sizes) not in self.known:
            word, count = _WORDS.get(axis, f"axis{axis}"), 1
            while word in self.known.values():
                count += 1
                word = f"{_WORDS.get(axis, f'axis{axis}')}_{count}"
            self.known[axis, sizes] = word
        return self.known[axis, sizes]


def _prove(found: ModelProto, variant: _Variant) -> None:
    """With the sizes of a variant put in, every value has the shape that it has there."""
    fixed = ModelProto()
    fixed.CopyFrom(found)
    for entry, own in zip(fixed.graph.input, variant.model.graph.input):
        entry.CopyFrom(own)
    for entry in (*fixed.graph.output, *fixed.graph.value_info):
        for dim in entry.type.tensor_type.shape.dim:
            if dim.HasField("dim_param"):
                dim.Clear()
    try:
        shapes = dict(_inferred(fixed))
    except Exception as error:  # onnx raises one of its own
        raise NotAlike(f"{next(iter(str(error).splitlines()), '')}") from None
    for name, shape in variant.shapes.items():
        if shapes.get(name, shape) != shape and 0 not in shapes[name]:
            raise NotAlike(f"{name} would have the shape {list(shapes[name])} instead of {list(shape)}")


def _inferred(model: ModelProto) -> Iterator[tuple[str, tuple[int, ...]]]:
    graph = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    for each in (*graph.input, *graph.output, *graph.value_info):
        yield each.name, _dims(each)
