"""Requests in the form of bound memory: the zero-copy path of clients far away, on contexts that do nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_protocol.board import ATTR, SHAPES, SIZE, parse_attr, parse_shapes
from rknnlite_protocol.execution import outputs_wanted, paired_tensors
from rknnlite_protocol.requests import InferRequest, InferResponse, Requested, Tensor, Timing

from rknnlite.errors import InputInvalid, OutputInvalid, ParamInvalid, RknnError
from rknnlite.spi import AttrKind, Context, Memory
from rknnlite.tensor import TensorAttr

from ..async_helpers import in_thread
from ..queueing import Turnstile

__all__ = ["BoundContexts", "is_bound"]

_CALLERS = (InputInvalid, OutputInvalid, ParamInvalid)
_ROOM = 8  # times the bytes of the tensor itself: float32 for int8, and rows between items of a batch
_FORMS = (AttrKind.OUTPUT, AttrKind.NATIVE_OUTPUT, AttrKind.NATIVE_NHWC_OUTPUT)
Bytes = NDArray[np.uint8]


def is_bound(request: InferRequest) -> bool:
    """Whether the tensors of a request are memory to be bound."""
    return any(ATTR in tensor.parameters for tensor in (*request.inputs, *request.outputs))


class _Wanted(NamedTuple):
    """What a request wants to be bound; a context that has it bound already is spared the work."""

    shapes: Any
    inputs: tuple[tuple[TensorAttr, int], ...]
    outputs: tuple[tuple[TensorAttr, int], ...]


class BoundContexts:
    """At most ``most`` contexts, opened when they are needed; for one event loop."""

    def __init__(self, open_context: Callable[[], Context], most: int) -> None:
        self._open = open_context
        self._turns = Turnstile(most, 1 << 16)  # those who come in have waited in the network's queue
        self._idle: list[_Bound] = []
        self._lock = threading.Lock()
        self._closed = False

    async def infer(self, request: InferRequest) -> InferResponse:
        """Bind, write, run, read. Raises what these raise, and InputInvalid for a request that is only half so."""
        async with self._turns.turn():
            return await in_thread(self._infer, request)

    def close(self) -> None:
        """Close what is idle now, and the others when their requests are answered; may be called again."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for bound in idle:
            bound.close()

    def _infer(self, request: InferRequest) -> InferResponse:
        with self._lock:
            bound = self._idle.pop() if self._idle else None
        bound = bound or _Bound(self._open())
        healthy = False
        try:
            response = bound.infer(request)
            healthy = True
            return response
        except _CALLERS:
            healthy = True
            raise
        finally:
            with self._lock:
                kept = healthy and not self._closed
                if kept:
                    self._idle.append(bound)
            if not kept:
                bound.close()


class _Bound:
    """A context and the memory that is bound in it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._wanted: Optional[_Wanted] = None
        self._inputs: list[Memory] = []
        self._outputs: list[Memory] = []
        self._masked = False

    def infer(self, request: InferRequest) -> InferResponse:
        context, begun = self._context, time.perf_counter_ns()
        with context.exclusive():
            self._mask(request.whole("core_mask", 0xFFFF))
            shapes = parse_shapes(request.parameters.get(SHAPES), f"parameter {SHAPES}")
            if self._wanted is None or shapes != self._wanted.shapes:
                self._choose(shapes)
            tensors = paired_tensors(request, context.inputs)
            outputs = [request.outputs[n] for n in _places(request, context.outputs)]
            given = [_bytes(tensor) for tensor in tensors]
            self._bind(
                _Wanted(
                    shapes,
                    tuple((_attr(tensor), data.size) for tensor, data in zip(tensors, given)),
                    tuple(self._sized(output) for output in outputs),
                )
            )
            for memory, data in zip(self._inputs, given):
                memory.ndarray[:] = data
                context.sync(memory, "to_device")
            ready = time.perf_counter_ns()
            context.run()
            ran = time.perf_counter_ns()
            found = [self._read(output, memory) for output, memory in zip(outputs, self._outputs)]
            took = context.last_run_us
        timing = Timing(begun, ready, ran, time.perf_counter_ns())
        parameters = {"run_us": took} if took else {}
        return InferResponse(request.model_name, found, request.id, parameters=parameters, timing=timing)

    def close(self) -> None:
        self._let_go()
        self._context.close()

    def _mask(self, mask: Optional[int]) -> None:
        if mask is not None or self._masked:
            self._context.set_core_mask(mask or 0)
        self._masked = mask is not None

    def _choose(self, shapes: Any) -> None:
        if shapes is None and self._context.shapes:
            raise InputInvalid(
                f"memory of a dynamic model is bound for a shape: name it in the parameter {SHAPES}, one list of "
                "dims per input"
            )
        self._let_go()
        if shapes is not None:
            self._context.set_shapes(shapes)

    def _bind(self, wanted: _Wanted) -> None:
        if wanted == self._wanted:
            return
        self._let_go()
        for pairs, memories in ((wanted.inputs, self._inputs), (wanted.outputs, self._outputs)):
            for attr, size in pairs:
                memory = self._context.create_mem(size)
                memories.append(memory)
                memory.ndarray[:] = 0  # nobody gets to see what was there
                self._context.bind(attr, memory)
        self._wanted = wanted

    def _let_go(self) -> None:
        memories = [*self._inputs, *self._outputs]
        self._wanted, self._inputs, self._outputs = None, [], []
        for memory in memories:
            memory.close()

    def _sized(self, output: Requested) -> tuple[TensorAttr, int]:
        """The attribute and the bytes of the memory, which a client may not choose at will."""
        where = f"output {output.name}"
        if ATTR not in output.parameters:
            raise OutputInvalid(f"{where}: parameter {ATTR} is missing, which others of the request have")
        attr = parse_attr(output.parameters[ATTR], f"{where}, parameter {ATTR}")
        size = output.parameters.get(SIZE, max(attr.size, attr.size_with_stride))
        most = _ROOM * max(max(form.size, form.size_with_stride) for form in self._forms(output.name))
        if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= most:
            raise OutputInvalid(f"{where}: memory of {size!r:.40} bytes is asked for, 1 to {most} can be had")
        return attr, size

    def _forms(self, name: str) -> list[TensorAttr]:
        found = []
        for kind in _FORMS:
            try:
                found += [attr for attr in self._context.attrs(kind) if attr.name == name]
            except RknnError:
                continue  # a form that the backend has not
        return found

    def _read(self, output: Requested, memory: Memory) -> Tensor:
        self._context.sync(memory, "from_device")
        return Tensor(output.name, memory.ndarray.copy())


def _places(request: InferRequest, attrs: list[TensorAttr]) -> list[int]:
    """Where the request names each of the model's outputs."""
    numbers = outputs_wanted(request, [attr.name for attr in attrs]) if request.outputs else []
    if sorted(numbers) != list(range(len(attrs))):
        raise OutputInvalid(
            f"memory is bound to all outputs or none; the model has {', '.join(attr.name for attr in attrs)}, asked for "
            f"are {[output.name for output in request.outputs]!r:.200}"
        )
    return [numbers.index(number) for number in range(len(attrs))]


def _attr(tensor: Tensor) -> TensorAttr:
    if ATTR not in tensor.parameters:
        raise InputInvalid(
            f"input {tensor.name}: parameter {ATTR} is missing, which others of the request have"
        )
    return parse_attr(tensor.parameters[ATTR], f"input {tensor.name}, parameter {ATTR}")


def _bytes(tensor: Tensor) -> Bytes:
    data = np.ascontiguousarray(tensor.data).reshape(-1).view(np.uint8)
    if not data.size:
        raise InputInvalid(f"input {tensor.name}: no bytes for the memory that is bound")
    return data
