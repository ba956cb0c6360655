"""Messages between this process and the one that has the library: a kind, a length, plain values, arrays behind them.

Nothing that arrives is evaluated: values are JSON, of the classes below only, arrays are their bytes.
"""

from __future__ import annotations

import enum
import json
import socket
import struct
from dataclasses import fields, is_dataclass
from typing import Any, Optional

import numpy as np

from rknnlite.errors import RknnError
from rknnlite.files.json_text import parse_json
from rknnlite.spi.llm import CallState, InputKind, SamplingParams

from .failure import Failure
from .requests import CallbackResult, CrossAttention, Media, Mode, Perf, Run, RunEnd, RunInput, Start

__all__ = ["Channel", "Message"]

_HEAD = struct.Struct("<BQ")
_TOKEN = struct.Struct("<iii")
_JSON = struct.Struct("<I")
_LARGEST = 1 << 40
_TYPES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        CallbackResult, CallState, CrossAttention, Failure, InputKind, Media, Mode, Perf, Run, RunEnd, RunInput, SamplingParams,
        Start,
    )
}  # fmt: skip
_DTYPES = {"<f4": np.float32, "<i4": np.int32}


class Message(enum.IntEnum):
    """What a message is."""

    REQUEST = 0
    ANSWER = 1
    FAILED = 2
    RESULT = 3
    TOKEN = 4
    ABORT = 5


class Channel:
    """One end of the socket; one thread receives, whoever sends does so under a lock."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._got = bytearray()

    def send(self, kind: Message, value: Any = None) -> None:
        """Send a message; raises OSError when the other side is gone."""
        arrays: list[Any] = []
        text = json.dumps(_plain(value, arrays)).encode()
        size = _JSON.size + len(text) + sum(array.nbytes for array in arrays)
        self._sock.sendall(_HEAD.pack(kind, size) + _JSON.pack(len(text)) + text)
        for array in arrays:
            if array.nbytes:
                self._sock.sendall(memoryview(array).cast("B"))

    def send_token(self, result: CallbackResult) -> None:
        """A token, in the shortest form."""
        self._sock.sendall(
            _HEAD.pack(Message.TOKEN, _TOKEN.size + len(result.text))
            + _TOKEN.pack(result.state, result.index, result.token)
            + result.text
        )

    def receive(self) -> tuple[Message, Any]:
        """The next message; raises EOFError when the other side is gone, RknnError for what is none."""
        kind, size = _HEAD.unpack(self._take(_HEAD.size))
        if size > _LARGEST:
            raise RknnError(f"a message of {size} bytes")
        body = self._take(size)
        try:
            kind = Message(kind)
            if kind is Message.TOKEN:
                state, index, token = _TOKEN.unpack_from(body)
                return kind, CallbackResult(CallState(state), index, token, bytes(body[_TOKEN.size :]))
            (length,) = _JSON.unpack_from(body)
            end = _JSON.size + length
            return kind, _rich(parse_json(bytes(body[_JSON.size : end])), memoryview(body)[end:])
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
            struct.error,
        ) as error:
            raise RknnError(f"a message that cannot be read: {error}") from None

    def _take(self, size: int) -> bytearray:
        while len(self._got) < size:
            missing = size - len(self._got)
            part = self._sock.recv(max(missing, 1 << 16) if missing < 1 << 20 else 1 << 20)
            if not part:
                raise EOFError("the other side has ended")
            self._got += part
        taken = self._got[:size]
        del self._got[:size]
        return taken


def _plain(value: Any, arrays: list[Any]) -> Any:
    """A value as JSON has it; arrays are put aside, in order."""
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        arrays.append(array)
        return {"_": "array", "dtype": array.dtype.str, "shape": list(array.shape)}
    if isinstance(value, enum.Enum):
        return {"_": type(value).__name__, "value": value.value}
    if is_dataclass(value):
        return {
            "_": type(value).__name__,
            **{field.name: _plain(getattr(value, field.name), arrays) for field in fields(value)},
        }
    if isinstance(value, bytes):
        return {"_": "bytes", "value": value.decode("latin-1")}
    if isinstance(value, (list, tuple)):
        return [_plain(item, arrays) for item in value]
    return value


class _Rest:
    """The bytes of the arrays that are still to come."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    def array(self, dtype: str, shape: list[int]) -> Any:
        kind = np.dtype(_DTYPES[dtype])
        size = kind.itemsize * int(np.prod(shape, dtype=np.int64))
        taken, self._data = self._data[:size], self._data[size:]
        return np.frombuffer(taken, kind).reshape(shape)


def _rich(value: Any, data: memoryview, rest: Optional[_Rest] = None) -> Any:
    """The value that JSON stands for; lists become tuples."""
    rest = rest or _Rest(data)
    if isinstance(value, list):
        return tuple(_rich(item, data, rest) for item in value)
    if not isinstance(value, dict):
        return value
    kind = value.pop("_")
    if kind == "array":
        return rest.array(value["dtype"], value["shape"])
    if kind == "bytes":
        return value["value"].encode("latin-1")
    made = _TYPES[kind]
    if issubclass(made, enum.Enum):
        return made(value["value"])
    return made(**{name: _rich(item, data, rest) for name, item in value.items()})
