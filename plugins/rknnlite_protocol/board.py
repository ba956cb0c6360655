"""What the calls of ``rknnlite.Board`` say, as values; ``to_text`` and ``from_text`` are their JSON.

Parameters of ``ModelInfer`` for a context of a board far away, beside those of ``InferRequest``:

* of the request, ``shapes``: text of JSON, the dynamic shape (dims per input) that is chosen before the inputs are set;
  needed where data that is passed through does not tell.
* of an input, ``attr``: text of JSON, a ``TensorAttr``; the bytes are the memory that is bound with it. All inputs have
  it or none.
* of a requested output, ``attr``: the answer's tensor is UINT8, the bytes of the memory that was bound with it: as many
  as ``size`` says, by default what the tensor takes with its strides. All of the model's outputs are asked for, and have
  it, where the inputs have it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional

from rknnlite_backend.perf import MemorySize, PerfRow, PerfTable

from rknnlite.errors import InputInvalid, ParamInvalid, RknnError
from rknnlite.spi.types import AttrKind, Versions
from rknnlite.tensor import TensorAttr

from .dataclass_json import from_text, to_text
from .error_status import error_from

__all__ = [
    "ATTR",
    "PIECE",
    "SHAPES",
    "SIZE",
    "Description",
    "PerfFigures",
    "Refusal",
    "attr_text",
    "digest_of",
    "parse_attr",
    "parse_shapes",
    "shapes_text",
    "stored_name",
]

ATTR = "attr"
"""Parameter of an input or a requested output: how memory is bound."""
SHAPES = "shapes"
"""Parameter of a request: the dynamic shape."""
SIZE = "size"
"""Parameter of a requested output beside ``attr``: bytes of the memory."""
PIECE = 1 << 20
"""Bytes of a file in one message."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PREFIX = "sha256-"
Shapes = tuple[tuple[int, ...], ...]


def stored_name(sha256: str) -> str:
    """The name of a model that is known by its content: ``sha256-`` and 64 hexadecimal digits; raises ParamInvalid."""
    if not _DIGEST.fullmatch(sha256):
        raise ParamInvalid(f"{sha256[:80]!r} is no SHA-256; 64 hexadecimal digits in lower case make one")
    return _PREFIX + sha256


def digest_of(name: str) -> Optional[str]:
    """The SHA-256 in such a name, None for the name of another model."""
    digest = name[len(_PREFIX) :]
    return digest if name.startswith(_PREFIX) and _DIGEST.fullmatch(digest) else None


@dataclass(frozen=True)
class Refusal:
    """Why something is not to be had: class, text and number of the error that the board's context raised.

    Examples:
        >>> Refusal.of(ParamInvalid("no native attributes")).error()
        ParamInvalid('no native attributes')
    """

    kind: str
    text: str
    code: int

    @classmethod
    def of(cls, error: RknnError) -> Refusal:
        """That of an error."""
        return cls(type(error).__name__, str(error), error.code)

    def error(self) -> RknnError:
        """The error again."""
        return error_from(self.kind, self.text, self.code)


@dataclass(frozen=True)
class Description:
    """A context as it is opened on a board, for its default shape or for the dynamic one that was asked for.

    ``attrs`` has what ``Context.attrs`` answers, ``refused`` the kinds (and ``memory``) for which it raises, and what.
    ``shape_chosen``: data may be passed through before a shape was selected.

    Examples:
        >>> from rknnlite_protocol.dataclass_json import from_text, to_text
        >>> made = Description("resnet", "cpu", "RK3588", Versions("2.3.2", "0.9.8"))
        >>> from_text(Description, to_text(made)) == made
        True
    """

    model_name: str
    backend: str
    soc: str
    versions: Versions
    attrs: Mapping[AttrKind, tuple[TensorAttr, ...]] = field(default_factory=dict)
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    custom_string: str = ""
    core_num: int = 0
    batch: int = 1
    shapes: tuple[Shapes, ...] = ()
    shape_chosen: bool = False
    memory: Optional[MemorySize] = None

    def attributes(self, kind: AttrKind) -> list[TensorAttr]:
        """What ``Context.attrs`` answers there; raises what it raises."""
        if kind in self.attrs:
            return list(self.attrs[kind])
        refusal = self.refused.get(kind.value)
        raise refusal.error() if refusal else ParamInvalid(f"the board does not tell {kind.value} attributes")

    def memory_size(self) -> MemorySize:
        """What ``Context.memory`` answers there; raises what it raises."""
        if self.memory is not None:
            return self.memory
        refusal = self.refused.get("memory")
        raise refusal.error() if refusal else RknnError("the board keeps no memory figures")


@dataclass(frozen=True)
class PerfFigures:
    """A table of layers, and the microseconds of the run (``Context.last_run_us``).

    Examples:
        >>> figures = PerfFigures.of(PerfTable([PerfRow("1", "Conv", "NPU", "conv1", 35.0)], cores=3), 40)
        >>> figures.table() == PerfTable([PerfRow("1", "Conv", "NPU", "conv1", 35.0)])
        True
    """

    rows: tuple[PerfRow, ...]
    cores: int = 1
    timed_on: Optional[str] = None
    note: str = ""
    run_us: int = 0

    @classmethod
    def of(cls, table: PerfTable, run_us: int = 0) -> PerfFigures:
        """Those of a table."""
        return cls(tuple(table), table.cores, table.timed_on, table.note, run_us)

    def table(self) -> PerfTable:
        """The table again."""
        return PerfTable(self.rows, self.cores, self.timed_on, self.note)


def attr_text(attr: TensorAttr) -> str:
    """The value of the parameter ``attr``."""
    return to_text(attr)


def parse_attr(text: object, where: str) -> TensorAttr:
    """The attribute in that parameter; raises InputInvalid."""
    try:
        attr: TensorAttr = from_text(TensorAttr, _text(text), where)
    except ParamInvalid as error:
        raise InputInvalid(str(error)) from None
    sizes = (*attr.dims, attr.w_stride, attr.h_stride, attr.size_with_stride, attr.n_elems)
    if len(attr.dims) > 16 or not all(0 <= size < 1 << 40 for size in sizes):
        raise InputInvalid(f"{where}: dims {list(attr.dims)[:17]} with these strides belong to no tensor")
    return attr


def shapes_text(shapes: Sequence[Sequence[int]]) -> str:
    """Dims per input as text: ``DescribeRequest.shapes``, and the parameter ``shapes``."""
    return to_text([[int(dim) for dim in shape] for shape in shapes])


def parse_shapes(text: object, where: str) -> Optional[Shapes]:
    """The shapes in such a text, None where it is empty; raises ParamInvalid."""
    return from_text(Shapes, _text(text), where) if text not in ("", None) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else "null"
