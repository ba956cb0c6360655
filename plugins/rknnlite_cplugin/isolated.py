"""Operators in a worker process: a crash, a hang or a stray write stays over there."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from rknnlite_programs.childprocess import ChildProcess, exactly

from rknnlite.abi import rknn_op as abi
from rknnlite.errors import ParamInvalid
from rknnlite.native.processes import python_main
from rknnlite.spi.custom_op import CustomOp, OpContext

from .library import file_to_load
from .op import Array, NodeBuffers, check_code
from .worker import COMPUTE, MAX_FDS, MESSAGE, attr_to_json, receive, send

__all__ = ["IsolatedOp"]

_START_LIMIT = 60.0


class IsolatedOp(CustomOp):
    """An operator of a library that is loaded in a worker process only.

    A worker that has ended is started anew for the next node, so that opening the model again is enough.

    Args:
        path: the library.
        time_limit: seconds that one call may take, None for no limit; the worker is ended when it takes longer.
        or_here: loads the operator into this process, for a runtime that calls operators itself; without it that is
            an error.
    """

    def __init__(
        self, path: Path, time_limit: Optional[float], or_here: Optional[Callable[[], CustomOp]] = None
    ) -> None:
        self._or_here = or_here
        self._here: Optional[CustomOp] = None
        self._path = path
        self._limit = time_limit
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._worker = _Worker(path, time_limit)
        self.op_type = self._worker.op_type

    def describe(self) -> str:
        return f"{self._path.name}, isolated"

    @property
    def native(self) -> Any:  # type: ignore[override]
        """What a C library could take, as librknnrt's backend asks for it: nothing, unless it may be loaded here."""
        if self._or_here is not None:
            self._here = self._here or self._or_here()
            return self._here.native
        raise ParamInvalid(
            f"{self._path}: isolate=True is for the CPU reference; librknnrt calls operators in its own process, so "
            "load it with isolate=False and unset RKNNLITE_ISOLATE_PLUGINS"
        )

    def registering(self, runtime: Any) -> None:
        if self._here is not None:
            self._here.registering(runtime)

    def init(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> None:
        tensors = [*ctx.inputs, *ctx.outputs]
        if len(tensors) > MAX_FDS:
            raise ParamInvalid(f"{len(tensors)} tensors are too many for isolate=True; it takes {MAX_FDS}")
        worker, number = self._running(), next(self._numbers)
        request = {
            "do": "init",
            "node": number,
            "attrs": dict(ctx.attrs),
            "inputs": len(ctx.inputs),
            "tensors": [attr_to_json(attr) for attr in tensors],
        }
        buffers = NodeBuffers.of(ctx.inputs, ctx.outputs)
        try:
            buffers.fill(inputs)
            answer = worker.ask(request, [b.fd for b in (*buffers.inputs, *buffers.outputs)])
            check_code(answer["code"], "init", ctx)
        except BaseException:
            buffers.close()
            raise
        ctx.state = _State(worker, number, buffers)

    def compute(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> None:
        state: _State = ctx.state
        state.buffers.fill(inputs)
        code = state.worker.compute(state.number)
        if code:
            check_code(code, "compute", ctx)
        state.buffers.fetch(outputs)

    def destroy(self, ctx: OpContext) -> None:
        state, ctx.state = ctx.state, None
        if state is None:
            return
        try:
            if state.worker.alive:
                answer = state.worker.ask({"do": "destroy", "node": state.number})
                check_code(answer["code"], "destroy", ctx)
        finally:
            state.buffers.close()

    def _running(self) -> _Worker:
        with self._lock:
            if not self._worker.alive:
                self._worker = _Worker(self._path, self._limit)
            return self._worker


class _Worker:
    """The process that has the library; one request at a time."""

    def __init__(self, path: Path, time_limit: Optional[float]) -> None:
        self._limit = time_limit
        self._lock = threading.Lock()
        file = file_to_load(path)
        self._child = ChildProcess(path.name, python_main(f"{__package__}.worker"))
        opened = self.ask({"do": "open", "path": str(path.resolve()), "file": str(file)}, limit=_START_LIMIT)
        self.op_type = str(opened["op_type"])
        if opened["target"] != abi.Target.CPU:
            self._child.close()
            raise ParamInvalid(
                f"{path}: operator {self.op_type} computes on the GPU; load it with isolate=False"
            )

    @property
    def alive(self) -> bool:
        """Whether it can be asked anything."""
        return self._child.alive

    def ask(
        self, request: dict[str, Any], fds: Optional[list[int]] = None, limit: Optional[float] = None
    ) -> dict[str, Any]:
        """Send a request and wait for the answer."""
        with self._lock, self._child.exchange(request["do"], limit or self._limit) as sock:
            sock.sendall(COMPUTE.pack(MESSAGE))
            send(sock, request, fds)
            answer, _ = receive(sock)
        if "error" in answer:
            raise ParamInvalid(str(answer["error"]))
        return answer

    def compute(self, number: int) -> int:
        """Have a node computed; the plugin's return code."""
        with self._lock, self._child.exchange("compute", self._limit) as sock:
            sock.sendall(COMPUTE.pack(number))
            return int(COMPUTE.unpack(exactly(sock, COMPUTE.size))[0])


@dataclass
class _State:
    worker: _Worker
    number: int
    buffers: NodeBuffers
