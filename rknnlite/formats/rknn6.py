"""Container version 6 (toolkits 1.6 to 2.5): header, flatbuffer, JSON; metadata without the graph."""

from __future__ import annotations

import ast
import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, TypeVar

from ..errors import ModelInvalid
from ..graph import Graph
from ..quant import RANGES
from ..tensor import DType, Layout, QuantParams
from .flatbuffer import Table, root
from .model import NO_ATTRIBUTES, Attributes, IoTensor, Model
from .registers import RegisterProgram
from .storage import Storage

__all__ = ["ELEMENT_TYPES", "MAX_RANK", "Rknn6", "read", "shape_of"]

HEADER = 64
"""Bytes before the payload."""

_MAX_LITERAL = 1 << 18
_MAX_NESTING = 32
MAX_RANK = 16
MAX_ELEMENTS = 1 << 31

ELEMENT_TYPES = {
    1: DType.FLOAT32, 2: DType.UINT8, 3: DType.INT8, 4: DType.UINT16, 5: DType.INT16, 6: DType.INT32,
    7: DType.INT64, 9: DType.BOOL, 10: DType.FLOAT16, 12: DType.UINT32, 16: DType.BFLOAT16, 64: DType.INT4,
}  # fmt: skip
"""Container element type -> DType."""


def shape_of(table: Table, slot: int, name: str) -> tuple[int, ...]:
    """A logical shape, checked: rank at most 16, positive dims, at most 2**31 elements."""
    dims = table.i32s(slot)
    if len(dims) > MAX_RANK:
        raise ModelInvalid(f"tensor {name} has rank {len(dims)}, more than {MAX_RANK}")
    shape = tuple(dims.tolist())
    if any(dim < 0 for dim in shape) or prod(shape) > MAX_ELEMENTS:
        raise ModelInvalid(f"tensor {name} has the impossible shape {list(shape)}")
    return shape


def quant_of(scales: Any, zeros: Any, dtype: DType, name: str) -> QuantParams | None:
    """Per-tensor quantisation parameters; None for tensors without, and for floating types."""
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


def read(data: memoryview) -> Rknn6:
    """Read the metadata; the graph is built later, on demand. Raises ModelInvalid."""
    payload, stub = trailer(data, HEADER)
    flat = root(payload, b"RKNN")
    return metadata(flat, stub, len(data), attributes_of(flat.string(3)), Rknn6, 6)


def trailer(data: memoryview, start: int) -> tuple[memoryview, dict[str, Any]]:
    """(payload from byte ``start`` on, the JSON part behind it). Raises ModelInvalid for a cut file."""
    size = struct.unpack_from("<Q", data, 16)[0]
    if start + size + 8 > len(data):
        raise ModelInvalid(
            f"the file is truncated: its header promises {start + size + 8} bytes or more, there are {len(data)}; "
            "copy it again"
        )
    (json_size,) = struct.unpack_from("<Q", data, start + size)
    if start + size + 8 + json_size > len(data):
        raise ModelInvalid(f"the file is truncated: its JSON part of {json_size} bytes is cut; copy it again")
    text = bytes(data[start + size + 8 : start + size + 8 + json_size])
    return data[start : start + size], _json(text)


def _json(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text.decode("utf-8", "replace").rstrip("\0 \n") or "{}")
    except (ValueError, RecursionError) as error:
        raise ModelInvalid(f"damaged file: its JSON part cannot be read ({type(error).__name__})") from None
    return value if isinstance(value, dict) else {}


def literal(text: str) -> dict[str, Any]:
    """The generator's dict as data: a Python literal, never evaluated as code. Raises ModelInvalid."""
    if len(text) > _MAX_LITERAL or _nesting(text) > _MAX_NESTING:
        raise ModelInvalid(
            f"damaged file: the attribute text of {len(text)} characters is too large or too deep"
        )
    try:
        value = ast.literal_eval(text) if text else {}
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        raise ModelInvalid("damaged file: the attribute text is no literal") from None
    return value if isinstance(value, dict) else {}


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
class Rknn6(Model):
    """A model in container version 6; the readers of other versions derive theirs from it.

    ``complete_attributes``: every node stores the attributes that its type has.
    """

    complete_attributes: ClassVar[bool] = True
    flat: Table = field(default=None, repr=False)  # type: ignore[assignment]
    attrs: dict[str, Any] = field(default_factory=dict)
    file_size: int = 0

    def graph(self, index: int = 0, attributes: Attributes = NO_ATTRIBUTES) -> Graph:
        from .builder import build_graph

        return build_graph(self, index, attributes)

    def storage(self, tables: list[Table], first: Iterable[Table]) -> Storage:
        """The bytes of the tensors of a graph; ``first``: tensors of the graph that owns shared weights."""
        return Storage(list(self.flat.tables(20)), tables, first)

    def lend(self) -> Storage:
        """The bytes of the first graph, for a model whose weights were removed."""
        first = next(iter(self.flat.tables(2)))
        return self.storage(list(first.tables(0)), ())

    def program(self, storage: Storage, graph: Table) -> RegisterProgram:
        """The register commands of a graph."""
        return RegisterProgram.from_tasks(*storage.commands())

    def io(self, index: int = 0) -> tuple[list[IoTensor], list[IoTensor]]:
        graphs = list(self.flat.tables(2))
        return _io(self.flat, graphs[index], self.attrs)


AnyModel = TypeVar("AnyModel", bound=Rknn6)


def attributes_of(text: str) -> dict[str, Any]:
    """What the generator noted about each input: mean, std and more. Raises ModelInvalid."""
    attrs = literal(text).get("attrs")
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
    graphs = list(flat.tables(2))
    if not graphs:
        raise ModelInvalid("damaged file: it holds no graph")
    if 8 * sum(graph.count(0) for graph in graphs) > file_size:  # a table and its offset take more
        raise ModelInvalid(f"damaged file: {len(graphs)} graphs share their tensors")
    inputs, outputs = _io(flat, graphs[0], attrs)
    shapes = []
    dynamic = flat.string(16) == "dynamic_shape" or len(graphs) > 1
    if dynamic:
        shapes = [tuple(t.shape for t in _io(flat, graph, attrs)[0]) for graph in graphs]
    versions = flat.string(7)
    platform = flat.string(8)
    platforms = stub.get("target_platform")
    platforms = [str(p) for p in platforms] if isinstance(platforms, list) else [platform]
    return make(
        container=container,
        toolkit_version=versions.split("(")[0].strip() or str(stub.get("version", "")),
        compiler_version=versions.partition("compiler version: ")[2].removesuffix(")"),
        platform=platform,
        platforms=tuple(platforms or [platform]),
        family=flat.string(1),
        framework=flat.string(9),
        inputs=inputs,
        outputs=outputs,
        dynamic=dynamic,
        batch=_batch(flat.string(14)),
        custom_string=flat.string(11),
        custom_ops=tuple(word for word in flat.string(21).replace(";", ",").split(",") if word),
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
    tensors = _pick(graph, 0, [*graph.i32s(2).tolist(), *graph.i32s(3).tolist()])
    inputs = [_io_tensor(tensors[i], attrs, flat, 12) for i in graph.i32s(2).tolist()]
    outputs = [_io_tensor(tensors[i], attrs, flat, 13) for i in graph.i32s(3).tolist()]
    if not inputs or not outputs:
        raise ModelInvalid(f"damaged file: a graph with {len(inputs)} inputs and {len(outputs)} outputs")
    for tensor in inputs:
        if not tensor.shape:
            raise ModelInvalid(f"damaged file: input {tensor.name} has no dimensions")
    return inputs, outputs


def _pick(graph: Table, slot: int, wanted: list[int]) -> dict[int, Table]:
    count = graph.count(slot)
    if len(wanted) > 1024 or any(not 0 <= i < count for i in wanted):
        raise ModelInvalid(
            f"damaged file: inputs and outputs {wanted[:8]} are no tensors (there are {count})"
        )
    keep = set(wanted)
    return {i: table for i, table in enumerate(graph.tables(slot)) if i in keep}


def _io_tensor(table: Table, attrs: dict[str, Any], flat: Table, slot: int) -> IoTensor:
    name = table.string(5)
    code = table.i8(0)
    if code not in ELEMENT_TYPES:
        raise ModelInvalid(f"tensor {name}: unknown element type {code}")
    dtype = ELEMENT_TYPES[code]
    shape = shape_of(table, 4, name)
    layout = _layout(flat.string(slot), name, len(shape), Layout.NHWC if slot == 12 else Layout.NCHW)
    entry = attrs.get(name)
    entry = entry if slot == 12 and isinstance(entry, dict) else {}
    return IoTensor(
        name=name, shape=shape, dtype=dtype, layout=layout,
        quant=quant_of(table.f32s(10), table.i32s(11), dtype, name),
        native_shape=shape_of(table, 3, name),
        mean=_numbers(entry.get("mean"), name, "mean"), std=_numbers(entry.get("std"), name, "std"),
    )  # fmt: skip


def _layout(text: str, name: str, rank: int, default: Layout) -> Layout:
    if rank != 4:
        return Layout.UNDEFINED
    try:
        word = json.loads(text)[name]["layout"]
        return Layout[word]
    except (ValueError, KeyError, TypeError, RecursionError):
        return default


def _numbers(value: Any, name: str, what: str) -> tuple[float, ...]:
    if not isinstance(value, (list, tuple)):
        return ()
    if len(value) > 65536 or not all(isinstance(v, (int, float)) for v in value):
        raise ModelInvalid(f"damaged file: {what} of input {name} is no list of numbers")
    return tuple(float(v) for v in value)
