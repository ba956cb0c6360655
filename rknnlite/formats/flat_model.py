"""What all containers that hold a flatbuffer share: the base of their models, element types, shapes, metadata.

``FlatModel`` has one subclass per container; they differ in where bytes of tensors and register commands lie. Slots are
asked for by the names of container 6, a container with other places renumbers them (``flatbuffer.Schema``).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, TypeVar

from ..errors import ModelInvalid, ModelUnsupported
from ..quant import RANGES
from ..tensor import DType, Layout, QuantParams
from .flatbuffer import Table
from .model import IoTensor, Model
from .slots import GraphSlot, RootSlot, TensorSlot

__all__ = [
    "ELEMENT_TYPES",
    "FlatModel",
    "attributes_of",
    "literal",
    "metadata",
    "quant_of",
    "range_of",
    "shape_of",
]

_MOST_ALIGNMENT = 64  # positions; genuine files have 0, 4, 8 or 16
_REMARK = "Generated"  # begins what the first toolkits wrote for humans in place of their dict
_MAX_LITERAL = 1 << 18
_MAX_NESTING = 32
_ATTEMPTS = 20
_MAX_RANK = 16
_MAX_ELEMENTS = 1 << 31

ELEMENT_TYPES = {
    1: DType.FLOAT32, 2: DType.UINT8, 3: DType.INT8, 4: DType.UINT16, 5: DType.INT16, 6: DType.INT32,
    7: DType.INT64, 9: DType.BOOL, 10: DType.FLOAT16, 12: DType.UINT32, 16: DType.BFLOAT16, 64: DType.INT4,
}  # fmt: skip
"""Container element type -> DType."""


def shape_of(table: Table, slot: int, name: str) -> tuple[int, ...]:
    """A logical shape, checked: rank at most 16, positive dims, at most 2**31 elements."""
    dims = table.i32s(slot)
    if len(dims) > _MAX_RANK:
        raise ModelInvalid(f"tensor {name} has rank {len(dims)}, more than {_MAX_RANK}")
    shape = tuple(dims.tolist())
    if any(dim < 0 for dim in shape) or prod(shape) > _MAX_ELEMENTS:
        raise ModelInvalid(f"tensor {name} has the impossible shape {list(shape)}")
    return shape


def quant_of(table: Table, dtype: DType, name: str) -> QuantParams | None:
    """Per-tensor quantisation parameters; None for tensors without, and for floating types."""
    scales, zeros = table.f32s(TensorSlot.SCALES), table.i32s(TensorSlot.ZERO_POINTS)
    if dtype.is_float or dtype in (DType.INT64, DType.BOOL) or len(scales) == 0:
        return None
    scale = float(scales[0])
    if not 0 < scale < float("inf"):
        raise ModelInvalid(f"tensor {name} has the impossible scale {scale}")
    if len(zeros) not in (0, len(scales)):
        raise ModelInvalid(f"tensor {name} has {len(scales)} scales and {len(zeros)} zero points")
    zero = int(zeros[0]) if len(zeros) else 0
    low, high = RANGES.get(dtype, (-(2**31), 2**31 - 1))
    if not low <= zero <= high:
        raise ModelInvalid(
            f"tensor {name} has zero point {zero}, outside {low}..{high} of its type {dtype.short}"
        )
    return QuantParams(scale, zero)


def literal(text: str) -> dict[str, Any]:
    """The generator's dict as data: a Python literal, never evaluated as code. Raises ModelInvalid."""
    if len(text) > _MAX_LITERAL or _nesting(text) > _MAX_NESTING:
        raise ModelInvalid(
            f"damaged file: the attribute text of {len(text)} characters is too large or too deep"
        )
    try:
        value = _data(_parsed(text.lstrip(" \t"))) if text else {}
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        raise ModelInvalid("damaged file: the attribute text is no literal") from None
    return value if isinstance(value, dict) else {}


def _parsed(text: str) -> ast.expr:
    """Threads of which several parse at the same time may see SystemError, once in a great while: in Python 3.11 they share
    the counter of depth. The next attempt begins with a fresh one.
    """
    for _ in range(_ATTEMPTS):
        try:
            return ast.parse(text, mode="eval").body
        except SystemError:
            continue
    return ast.parse(text, mode="eval").body


def _data(node: ast.expr) -> Any:
    """The value of a literal. ``ast.literal_eval`` does this by inner functions that only the collector gets rid of.

    Raises ValueError, TypeError.
    """
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        kind = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
        return kind([_data(item) for item in node.elts])
    if isinstance(node, ast.Dict):
        return {_data(key): _data(value) for key, value in zip(node.keys, node.values) if key is not None}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        number = _data(node.operand)
        if type(number) in (int, float):
            return -number if isinstance(node.op, ast.USub) else number
    raise ValueError(f"{type(node).__name__} is no data")


def _nesting(text: str) -> int:
    depth = deepest = 0
    for char in text:
        if char in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")]}":
            depth -= 1
    return deepest


@dataclass
class FlatModel(Model):
    """A model whose metadata and graphs are tables of a flatbuffer.

    ``complete_attributes``: every node stores the attributes that its type has. ``logged_guesses``: guesses that were logged.
    ``doubts``: facts that make a guess, found in the metadata.
    ``flat`` is the root table, ``attrs`` what the converter noted about each input.
    """

    complete_attributes: ClassVar[bool]
    logged_guesses: set[str] = field(default_factory=set, repr=False, compare=False)
    doubts: list[str] = field(default_factory=list, repr=False, compare=False)
    flat: Table = field(default=None, repr=False)  # type: ignore[assignment]
    attrs: dict[str, Any] = field(default_factory=dict)
    file_size: int = 0

    def io(self, index: int = 0) -> tuple[list[IoTensor], list[IoTensor]]:
        graphs = list(self.flat.tables(RootSlot.GRAPHS))
        return _io(self.flat, graphs[index], self.attrs)


AnyModel = TypeVar("AnyModel", bound=FlatModel)


def attributes_of(text: str) -> dict[str, Any]:
    """What the generator noted about each input: mean, std and more; nothing where it left a remark. Raises ModelInvalid."""
    attrs = None if text.startswith(_REMARK) else literal(text).get("attrs")
    return attrs if isinstance(attrs, dict) else {}


def metadata(
    flat: Table,
    stub: dict[str, Any],
    file_size: int,
    attrs: dict[str, Any],
    make: type[AnyModel],
    container: int,
) -> AnyModel:
    """What the root table says about a model. Raises ModelInvalid."""
    graphs = list(flat.tables(RootSlot.GRAPHS))
    if not graphs:
        raise ModelInvalid("damaged file: it holds no graph")
    # a table and its offset take more
    if 8 * sum(graph.count(GraphSlot.TENSORS) for graph in graphs) > file_size:
        raise ModelInvalid(f"damaged file: {len(graphs)} graphs share their tensors")
    inputs, outputs = _io(flat, graphs[0], attrs)
    shapes = []
    dynamic = flat.string(RootSlot.SHAPE_KIND) == "dynamic_shape" or len(graphs) > 1
    if dynamic:
        shapes = [tuple(t.shape for t in _io(flat, graph, attrs)[0]) for graph in graphs]
    versions = flat.string(RootSlot.VERSIONS)
    platform = flat.string(RootSlot.PLATFORM)
    platforms = stub.get("target_platform")
    platforms = [str(p) for p in platforms] if isinstance(platforms, list) else [platform]
    return make(
        container=container,
        toolkit_version=versions.split("(")[0].strip() or str(stub.get("version", "")),
        compiler_version=versions.partition("compiler version: ")[2].removesuffix(")"),
        platform=platform,
        platforms=tuple(platforms or [platform]),
        family=flat.string(RootSlot.FAMILY),
        framework=flat.string(RootSlot.FRAMEWORK),
        inputs=inputs,
        outputs=outputs,
        dynamic=dynamic,
        batch=_batch(flat.string(RootSlot.BATCH)),
        custom_string=flat.string(RootSlot.CUSTOM_STRING),
        custom_ops=tuple(
            word for word in flat.string(RootSlot.CUSTOM_OPS).replace(";", ",").split(",") if word
        ),
        shapes=shapes,
        flat=flat,
        attrs=attrs,
        file_size=file_size,
    )


def _batch(text: str) -> int:
    if not text.isdigit():
        return 1
    batch = int(text[:9])
    if batch > 4096:
        raise ModelInvalid(f"damaged file: rknn_batch_size {batch}")
    return max(1, batch)


def _io(flat: Table, graph: Table, attrs: dict[str, Any]) -> tuple[list[IoTensor], list[IoTensor]]:
    sources, results = graph.i32s(GraphSlot.INPUTS).tolist(), graph.i32s(GraphSlot.OUTPUTS).tolist()
    tensors = _pick(graph, [*sources, *results])
    inputs = [_io_tensor(tensors[i], attrs, flat, is_input=True) for i in sources]
    outputs = [_io_tensor(tensors[i], attrs, flat, is_input=False) for i in results]
    if not inputs or not outputs:
        raise ModelInvalid(f"damaged file: a graph with {len(inputs)} inputs and {len(outputs)} outputs")
    for tensor in inputs:
        if not tensor.shape:
            raise ModelInvalid(f"damaged file: input {tensor.name} has no dimensions")
    return inputs, outputs


def _pick(graph: Table, wanted: list[int]) -> dict[int, Table]:
    count = graph.count(GraphSlot.TENSORS)
    if len(wanted) > 1024 or any(not 0 <= i < count for i in wanted):
        raise ModelInvalid(
            f"damaged file: inputs and outputs {wanted[:8]} are no tensors (there are {count})"
        )
    keep = set(wanted)
    return {i: table for i, table in enumerate(graph.tables(GraphSlot.TENSORS)) if i in keep}


def _io_tensor(table: Table, attrs: dict[str, Any], flat: Table, is_input: bool) -> IoTensor:
    name = table.string(TensorSlot.NAME)
    code = table.i8(TensorSlot.TYPE)
    if code not in ELEMENT_TYPES:
        raise ModelUnsupported(
            f"tensor {name}: unknown element type {code}; update rknnlite, or copy the file again"
        )
    dtype = ELEMENT_TYPES[code]
    shape = shape_of(table, TensorSlot.DIMS, name)
    formats = flat.string(RootSlot.INPUT_FORMATS if is_input else RootSlot.OUTPUT_FORMATS)
    layout = _layout(formats, name, len(shape), Layout.NHWC if is_input else Layout.NCHW)
    entry = attrs.get(name)
    entry = entry if is_input and isinstance(entry, dict) else {}
    return IoTensor(
        name=name, shape=shape, dtype=dtype, layout=layout,
        quant=quant_of(table, dtype, name),
        native_shape=shape_of(table, TensorSlot.NATIVE_DIMS, name),
        mean=_numbers(entry.get("mean"), name, "mean"), std=_numbers(entry.get("std"), name, "std"),
        surface_alignment=min(_MOST_ALIGNMENT, max(0, table.i32(TensorSlot.SURFACE_ALIGNMENT))),
    )  # fmt: skip


def _layout(text: str, name: str, rank: int, default: Layout) -> Layout:
    if rank != 4:
        return Layout.UNDEFINED
    try:
        from ..files.json_text import parse_json  # few files tell this

        word = parse_json(text)[name]["layout"]
        return Layout[word]
    except (ValueError, KeyError, TypeError, RecursionError):
        return default


def _numbers(value: Any, name: str, what: str) -> tuple[float, ...]:
    if not isinstance(value, (list, tuple)) or all(v is None for v in value):
        return ()
    if len(value) > 65536 or not all(isinstance(v, (int, float)) for v in value):
        raise ModelInvalid(f"damaged file: {what} of input {name} is no list of numbers")
    return tuple(float(v) for v in value)


def range_of(table: Table, quant: QuantParams | None) -> tuple[float, float] | None:
    """The calibrated (min, max) of a tensor; None when the file has none.

    The mini format leaves it out. Where the range starts or ends at zero, the int8 parameters still say it.
    """
    low, high = table.f32s(TensorSlot.LOWEST), table.f32s(TensorSlot.HIGHEST)
    if len(low) == 1 and len(high) == 1:
        return float(low[0]), float(high[0])
    if quant is not None and quant.zero_point in (-128, 127):
        return (-128 - quant.zero_point) * quant.scale, (127 - quant.zero_point) * quant.scale
    return None
