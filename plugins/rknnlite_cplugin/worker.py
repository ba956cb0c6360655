"""The process in which isolated operators run; ``isolated`` starts it and sits at the other end of the socket.

Requests and answers are one JSON object per message on a socket; tensors lie in shared memory whose
descriptors come with the request. A plugin that crashes takes this process down and nothing else.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Any

from rknnlite_programs.childprocess import exactly

from rknnlite.errors import RknnError
from rknnlite.files.json_text import parse_json
from rknnlite.tensor import DType, Layout, TensorAttr

from .library import open_library, symbols
from .node import Buffer, NativeNode

__all__ = ["COMPUTE", "MAX_FDS", "MESSAGE", "attr_to_json", "main", "receive", "send"]

COMPUTE = struct.Struct("<i")
"""The one request and the one answer that are not JSON: node number, return code."""
MESSAGE = -1
"""In the place of a node number: a JSON request follows."""
MAX_FDS = 253
"""Descriptors that the kernel takes in one message (SCM_MAX_FD)."""
_LENGTH = struct.Struct("<I")
_LIMIT = 16 << 20


def attr_to_json(attr: TensorAttr) -> dict[str, Any]:
    """What the worker needs to know of a tensor."""
    return {
        "index": attr.index,
        "name": attr.name,
        "dims": attr.dims,
        "dtype": int(attr.dtype),
        "layout": int(attr.layout),
    }


def _attr(data: dict[str, Any]) -> TensorAttr:
    return TensorAttr(
        data["index"], data["name"], tuple(data["dims"]), DType(data["dtype"]), Layout(data["layout"])
    )


def send(sock: socket.socket, message: dict[str, Any], fds: list[int] | None = None) -> None:
    """Send an object and, with it, descriptors."""
    data = json.dumps(message).encode()
    head = _LENGTH.pack(len(data))
    if fds:
        sock.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
    else:
        sock.sendall(head)
    sock.sendall(data)


def receive(sock: socket.socket, max_fds: int = 0) -> tuple[dict[str, Any], list[int]]:
    """Receive an object and its descriptors; EOFError when the other side is gone."""
    head, ancillary, _, _ = sock.recvmsg(_LENGTH.size, socket.CMSG_SPACE(max_fds * 4) if max_fds else 0)
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) // 4 * 4])
    head += exactly(sock, _LENGTH.size - len(head))
    size = _LENGTH.unpack(head)[0]
    if size > _LIMIT:
        raise EOFError("nonsense on the socket")
    try:
        message = parse_json(exactly(sock, size))
    except ValueError:
        message = None
    if not isinstance(message, dict):
        for fd in fds:
            os.close(fd)
        raise EOFError("nonsense on the socket")
    return message, list(fds)


class _Worker:
    """Serves one library."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._nodes: dict[int, tuple[NativeNode, list[Buffer]]] = {}

    def open(self, request: dict[str, Any]) -> dict[str, Any]:
        self._library = open_library(Path(request["path"]), Path(request["file"]))
        return {"op_type": self._library.op_type, "target": int(self._library.target)}

    def init(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        attrs = [_attr(data) for data in request["tensors"]]
        buffers = [Buffer.create(attr.size, fd) for attr, fd in zip(attrs, fds)]
        parts = list(zip(attrs, buffers))
        count = request["inputs"]
        node = NativeNode(
            self._library.struct, request["attrs"], parts[:count], parts[count:], symbols(self._library)
        )
        code = node.init()
        if code == 0:
            self._nodes[request["node"]] = node, buffers
        else:
            _close(buffers)
        return {"code": code}

    def destroy(self, request: dict[str, Any]) -> dict[str, Any]:
        node, buffers = self._nodes.pop(request["node"])
        code = node.destroy()
        _close(buffers)
        return {"code": code}

    def serve(self) -> None:
        while True:
            number = COMPUTE.unpack(exactly(self._sock, COMPUTE.size))[0]
            if number != MESSAGE:
                self._sock.sendall(COMPUTE.pack(self._nodes[number][0].compute()))
                continue
            request, fds = receive(self._sock, MAX_FDS)
            try:
                answer = self._answer(request, fds)
            except RknnError as error:
                answer = {"error": str(error)}
            send(self._sock, answer)

    def _answer(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        if request["do"] == "open":
            return self.open(request)
        if request["do"] == "init":
            return self.init(request, fds)
        return self.destroy(request)


def _close(buffers: list[Buffer]) -> None:
    for buffer in buffers:
        buffer.close()


def main() -> None:
    """Serve until the other side closes."""
    sock = socket.socket(fileno=int(sys.argv[-1]))
    with contextlib.suppress(EOFError):
        _Worker(sock).serve()
