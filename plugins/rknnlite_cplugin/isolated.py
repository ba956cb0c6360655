"""Operators in a worker process: a crash, a hang or a stray write stays over there."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rknnlite.abi import rknn_op as abi
from rknnlite.custom_op import CustomOp, OpContext, UseBuiltin
from rknnlite.errors import ParamInvalid, RknnError, RunTimeout

from .op import Array, NodeBuffers, check_code
from .worker import COMPUTE, attr_to_json, receive, send

__all__ = ["IsolatedOp"]

_START_LIMIT = 30.0


class IsolatedOp(CustomOp):
    """An operator of a library that is loaded in a worker process only.

    Args:
        path: the library.
        time_limit: seconds that one call may take; the worker is ended when it takes longer.
    """

    def __init__(self, path: Path, time_limit: float | None) -> None:
        self._path = path
        self._worker = _Worker(path, time_limit)
        opened = self._worker.ask({"do": "open", "path": str(path.resolve())}, limit=_START_LIMIT)
        self.op_type = opened["op_type"]
        if opened["target"] != abi.Target.CPU:
            self._worker.end()
            raise ParamInvalid(
                f"{path}: operator {self.op_type} computes on the GPU; open it without isolate"
            )
        self._numbers = itertools.count()

    def describe(self) -> str:
        return f"{self._path.name}, isolated"

    def init(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> None:
        buffers = NodeBuffers.of(ctx)
        number = next(self._numbers)
        request = {
            "do": "init", "node": number, "attrs": dict(ctx.attrs), "inputs": len(ctx.inputs),
            "tensors": [attr_to_json(attr) for attr in (*ctx.inputs, *ctx.outputs)],
        }  # fmt: skip
        try:
            buffers.fill(inputs)
            answer = self._worker.ask(request, [b.fd for b in (*buffers.inputs, *buffers.outputs)])
            check_code(answer["code"], "init", ctx)
        except UseBuiltin:
            self._worker.ask({"do": "destroy", "node": number, "call": False})
            buffers.close()
            raise
        except BaseException:
            buffers.close()
            raise
        ctx.state = _State(number, buffers)

    def compute(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> None:
        state: _State = ctx.state
        state.buffers.fill(inputs)
        code = self._worker.compute(state.number)
        if code:
            check_code(code, "compute", ctx)
        state.buffers.fetch(outputs, ctx.outputs)

    def destroy(self, ctx: OpContext) -> None:
        state, ctx.state = ctx.state, None
        if state is None:
            return
        try:
            if self._worker.alive:
                answer = self._worker.ask({"do": "destroy", "node": state.number, "call": True})
                check_code(answer["code"], "destroy", ctx)
        finally:
            state.buffers.close()


@dataclass
class _State:
    number: int
    buffers: NodeBuffers


class _Worker:
    """The process and the socket to it; one request at a time."""

    def __init__(self, path: Path, time_limit: float | None) -> None:
        self._name = path.name
        self._limit = time_limit
        self._lock = threading.Lock()
        self._over: str | None = None
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rknnlite_cplugin.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the program; the worker ends when the socket does
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )
        self._sock = ours
        self._finalizer = weakref.finalize(self, _end, self._process, ours)

    @property
    def alive(self) -> bool:
        """Whether it can be asked anything."""
        return self._over is None

    def ask(
        self, request: dict[str, Any], fds: list[int] | None = None, limit: float | None = None
    ) -> dict[str, Any]:
        """Send a request and wait for the answer."""
        with self._lock:
            self._begin()
            try:
                self._sock.settimeout(limit or self._limit)
                self._sock.sendall(COMPUTE.pack(-1))
                send(self._sock, request, fds)
                answer, _ = receive(self._sock)
            except (OSError, EOFError, ValueError) as error:
                raise self._gone(error, limit or self._limit) from None
        if "error" in answer:
            raise ParamInvalid(str(answer["error"]))
        return answer

    def compute(self, number: int) -> int:
        """Have a node computed; the plugin's return code."""
        with self._lock:
            self._begin()
            try:
                self._sock.settimeout(self._limit)
                self._sock.sendall(COMPUTE.pack(number))
                answer = self._sock.recv(COMPUTE.size, socket.MSG_WAITALL)
                if len(answer) < COMPUTE.size:
                    raise EOFError
                return int(COMPUTE.unpack(answer)[0])
            except (OSError, EOFError) as error:
                raise self._gone(error, self._limit) from None

    def end(self) -> None:
        """End the process; calling it again does nothing."""
        self._over = self._over or "was ended"
        self._finalizer()

    def _begin(self) -> None:
        if self._over is not None:
            raise RknnError(f"the worker of {self._name} {self._over}; register the operator anew")

    def _gone(self, error: Exception, limit: float | None) -> RknnError:
        if isinstance(error, (socket.timeout, TimeoutError)):
            self._process.kill()
            self._over = f"was ended because a call took longer than {limit:g} s"
            self._finalizer()
            return RunTimeout(f"the plugin {self._name} did not return within {limit:g} s and was ended")
        try:
            status = self._process.wait(2)
        except subprocess.TimeoutExpired:
            status = None
        self._over = _ending(status)
        self._finalizer()
        return RknnError(f"the plugin {self._name} took its worker process down: it {self._over}")


def _ending(status: int | None) -> str:
    if status is None:
        return "stopped answering"
    if status < 0:
        return f"ended by signal {-status} ({signal.Signals(-status).name})"
    return f"ended with status {status}"


def _end(process: subprocess.Popen[bytes], sock: socket.socket) -> None:
    sock.close()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
