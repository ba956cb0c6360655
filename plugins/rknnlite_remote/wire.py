"""Requests and responses of inference as bytes, without a copy too many.

All of a request but the tensors' bytes is the same from frame to frame: it is serialised once per form of the inputs and
put in front of the bytes. protobuf takes fields in any order. In a response the bytes of the tensors are views of what came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_protocol.board import ATTR, SHAPES, SIZE, attr_text
from rknnlite_protocol.datatypes import DATATYPES, datatype_of
from rknnlite_protocol.error_status import CODE_KEY, ERROR_KEY
from rknnlite_protocol.grpc_codec import request_message
from rknnlite_protocol.grpc_messages import message
from rknnlite_protocol.requests import InferRequest, Parameter, Requested
from rknnlite_protocol.rest_codec import tensor_of

from rknnlite.errors import DeviceUnavailable, RknnError
from rknnlite.spi import Input
from rknnlite.spi.inputs import widened
from rknnlite.tensor import Layout, TensorAttr

from .errors import typed

__all__ = [
    "InferAnswer",
    "InputForm",
    "RequestOptions",
    "Streamed",
    "body_of",
    "parse",
    "parse_streamed",
    "tail_of",
    "with_id",
]

Array = NDArray[Any]
_RAW_INPUT, _RAW_OUTPUT, _ID, _STREAM_ERROR, _STREAMED = 7, 6, 3, 1, 2  # numbers of fields
_BYTES = 2  # wire type of what has a length
_SENT = frozenset(DATATYPES.values())


class InputForm(NamedTuple):
    """How an input is given, beside its bytes; ``attr`` is that of bound memory."""

    name: str
    dtype: Any
    shape: tuple[int, ...]
    layout: Layout
    pass_through: bool
    attr: Optional[TensorAttr] = None

    @classmethod
    def of(cls, item: Input, attr: TensorAttr) -> tuple[InputForm, Array]:
        """The form, and the array in an element type that can be sent."""
        data = item.data if item.data.dtype in _SENT else widened(item.data, attr)
        return cls(attr.name, data.dtype, data.shape, item.layout, item.pass_through), data


class RequestOptions(NamedTuple):
    """What a request says beside its inputs; ``bound`` are attributes and sizes of the memory of the outputs."""

    model: str
    raw: bool = False
    core_mask: Optional[int] = None
    shapes: str = ""
    bound: tuple[tuple[TensorAttr, int], ...] = ()


class InferAnswer(NamedTuple):
    """A response: an array per output, views that cannot be written; microseconds that the model took."""

    arrays: list[Array]
    run_us: int = 0


class Streamed(NamedTuple):
    """What comes over a stream for the frame of that number: an answer, or what the board raised."""

    number: int
    answer: Optional[InferAnswer]
    error: Optional[RknnError]


def body_of(forms: Sequence[InputForm], arrays: Sequence[Array], known: dict[Any, bytes]) -> bytes:
    """The inputs of a request; ``known`` keeps the parts that do not change."""
    key = tuple(forms)
    head = known.get(key)
    if head is None:
        if len(known) > 64:
            known.clear()
        head = known[key] = _head(forms)
    parts: list[Any] = [head]
    for array in arrays:
        data = np.ascontiguousarray(array)
        parts += (_tag(_RAW_INPUT, data.nbytes), data.reshape(-1).view(np.uint8).data)
    return b"".join(parts)


def tail_of(asked: RequestOptions) -> bytes:
    """Model, parameters and outputs of a request, to go behind the inputs."""
    parameters: dict[str, Parameter] = {}
    if asked.raw:
        parameters["raw"] = True
    if asked.core_mask is not None:
        parameters["core_mask"] = asked.core_mask
    if asked.shapes:
        parameters[SHAPES] = asked.shapes
    outputs = [Requested(attr.name, {ATTR: attr_text(attr), SIZE: size}) for attr, size in asked.bound]
    made = request_message(InferRequest(asked.model, (), outputs, parameters=parameters))
    done: bytes = made.SerializeToString()
    return done


def with_id(request: bytes, number: int) -> bytes:
    """A request with a number, by which its answer is known."""
    text = b"%d" % number
    return b"".join((request, _tag(_ID, len(text)), text))


def parse(data: bytes) -> InferAnswer:
    """The answer in the bytes of a ``ModelInferResponse``; raises DeviceUnavailable for what is none."""
    try:
        return _answer(*_response(memoryview(data)))
    except Exception as error:
        raise _unreadable(error) from None


def parse_streamed(data: bytes, label: str) -> Streamed:
    """What is in the bytes of a ``ModelStreamInferResponse`` of board ``label``; raises DeviceUnavailable for what is none."""
    try:
        parts = dict(_fields(memoryview(data)))
        found, raw = _response(parts.get(_STREAMED, memoryview(b"")))
        number = int(found.id)
        if _STREAM_ERROR not in parts:
            return Streamed(number, _answer(found, raw), None)
        text = bytes(parts[_STREAM_ERROR]).decode("utf-8", "replace")
        kind = found.parameters[ERROR_KEY].string_param or "RknnError"
        code = found.parameters[CODE_KEY].string_param
    except Exception as error:
        raise _unreadable(error) from None
    return Streamed(number, None, typed(kind, f"board {label}: {text}", code))


def _unreadable(error: Exception) -> DeviceUnavailable:
    return DeviceUnavailable(f"the board's answer cannot be read ({error}); is its server as new as this?")


def _answer(found: Any, raw: list[memoryview]) -> InferAnswer:
    if len(raw) != len(found.outputs):
        raise ValueError(f"{len(found.outputs)} outputs have {len(raw)} contents")
    arrays = [
        tensor_of(view, entry.datatype, list(entry.shape), f"output {entry.name}")
        for entry, view in zip(found.outputs, raw)
    ]
    return InferAnswer(
        arrays, int(found.parameters["run_us"].int64_param) if "run_us" in found.parameters else 0
    )


def _head(forms: Sequence[InputForm]) -> bytes:
    made = message("inference.ModelInferRequest")()
    for form in forms:
        entry = made.inputs.add(name=form.name, datatype=datatype_of(form.dtype))
        entry.shape.extend(form.shape)
        if form.attr is not None:
            entry.parameters[ATTR].string_param = attr_text(form.attr)
        if form.layout is Layout.NCHW:
            entry.parameters["layout"].string_param = "nchw"
        if form.pass_through:
            entry.parameters["pass_through"].bool_param = True
    done: bytes = made.SerializeToString()
    return done


def _tag(field: int, length: int) -> bytes:
    """What stands in front of ``length`` bytes of a field."""
    found = bytearray((field << 3 | _BYTES,))
    while length > 0x7F:
        found.append(length & 0x7F | 0x80)
        length >>= 7
    found.append(length)
    return bytes(found)


def _response(view: memoryview) -> tuple[Any, list[memoryview]]:
    """A ``ModelInferResponse`` without the bytes of its tensors, and these."""
    raw: list[memoryview] = []
    rest: list[Any] = []
    for field, content in _fields(view):
        if field == _RAW_OUTPUT:
            raw.append(content)
        else:
            rest += (_tag(field, len(content)), content)
    return message("inference.ModelInferResponse").FromString(b"".join(rest)), raw


def _fields(view: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of the fields of a message whose fields all have a length. Raises ValueError, IndexError."""
    place = 0
    while place < len(view):
        tag = view[place]
        if tag & 7 != _BYTES or tag & 0x80:
            raise ValueError(f"field {tag >> 3} is of another kind")
        length, place = _number(view, place + 1)
        if place + length > len(view):
            raise ValueError("it was cut")
        yield tag >> 3, view[place : place + length]
        place += length


def _number(view: memoryview, place: int) -> tuple[int, int]:
    found, shift = 0, 0
    while shift < 64:
        byte = view[place]
        place += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, place
        shift += 7
    raise ValueError("a length has no end")
