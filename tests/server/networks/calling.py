"""Calls of a server's gRPC services by their names, with nothing but grpcio."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from rknnlite_protocol.board import PIECE, stored_name
from rknnlite_protocol.dataclass_json import from_text
from rknnlite_protocol.grpc_codec import parse_response, request_message
from rknnlite_protocol.grpc_messages import BOARD, INFERENCE, message, methods
from rknnlite_protocol.requests import InferRequest


class Calls:
    """``Upload``, ``ModelInfer`` and the others are methods; those that take one message take its fields."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self._methods = {**methods(INFERENCE), **methods(BOARD)}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = self._methods[name]
        kind = ("stream" if method.requests_stream else "unary") + (
            "_stream" if method.responses_stream else "_unary"
        )
        call = getattr(self.channel, kind)(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        if method.requests_stream:
            return lambda messages, **how: call(messages, timeout=60, **how)
        return lambda **fields: call(method.request(**fields), timeout=60)

    def infer(self, request: InferRequest) -> Any:
        """The response to a request."""
        call = self.channel.unary_unary(
            f"/{INFERENCE}/ModelInfer",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message("inference.ModelInferResponse").FromString,
        )
        return parse_response(call(request_message(request), timeout=60))

    def text(self, kind: Any, name: str, **fields: Any) -> Any:
        """The value in the answer of a call."""
        return from_text(kind, getattr(self, name)(**fields).json)

    def send(self, path: Path) -> str:
        """Upload a file; the name of its network."""
        data = path.read_bytes()
        answer = self.Upload(iter(pieces(data)))
        assert answer.complete
        assert answer.size == len(data)
        return stored_name(digest(data))

    def dumped(self, request: InferRequest, folder: Path, golden: Iterable[Path] = ()) -> Path:
        """The files of a dump, in a folder."""
        made = message("rknnlite.DumpRequest")
        messages = [made(request=request_message(request).SerializeToString())]
        messages += [made(golden={"name": path.name, "data": path.read_bytes()}) for path in golden]
        folder.mkdir()
        for piece in self.Dump(iter(messages)):
            with (folder / piece.name).open("ab") as file:
                file.write(piece.data)
        return folder


@contextmanager
def calling(address: str) -> Iterator[Calls]:
    """A channel of its own."""
    with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield Calls(channel)


def digest(data: bytes) -> str:
    """The SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def pieces(data: bytes, offset: int = 0, sha256: str = "", size: int = PIECE) -> list[Any]:
    """The messages of an upload, from ``offset`` on."""
    made = message("rknnlite.UploadPiece")
    first = made(
        sha256=sha256 or digest(data), total=len(data), offset=offset, data=data[offset : offset + size]
    )
    return [first, *(made(data=data[at : at + size]) for at in range(offset + size, len(data), size))]


@contextmanager
def refused(code: str, *words: str) -> Iterator[Any]:
    """Expect an error with that status, whose text has these words."""
    try:
        yield
    except grpc.RpcError as error:
        assert error.code().name == code, f"{error.code()}: {error.details()}"
        for word in words:
            assert word in error.details(), error.details()
    else:
        raise AssertionError(f"no {code}")
