"""A model that the program has open: what each call does with its context."""

from __future__ import annotations

import ctypes as ct
import mmap
import struct
from collections.abc import Mapping
from typing import Optional

import numpy as np
from rknnlite_backend.abi.init_flags import options_of
from rknnlite_capi import AsyncRuns, answer, attr_of, perf_text, shapes_of, shapes_with

from rknnlite import config
from rknnlite.abi.rknn_api import SYNC_DIRECTIONS, MemSync, Query
from rknnlite.abi.rknn_op import TensorAttrStruct, TensorMem
from rknnlite.errors import ContextInvalid, ModelInvalid, ParamInvalid, TargetPlatformUnmatch
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.runtime import open_model
from rknnlite.spi import Context, Input
from rknnlite.tensor import TensorAttr

from .calls import Handler, Reply
from .memories import Memories
from .open_contexts import OpenContexts
from .protocol import Call, InitFact, Request, RunFlag, Wire
from .staging import StagedInputs, StagedOutputs

__all__ = ["Network"]

_WITH_INPUTS, _WITH_OUTPUTS, _NON_BLOCK = (
    int(RunFlag.WITH_INPUTS),
    int(RunFlag.WITH_OUTPUTS),
    int(RunFlag.NON_BLOCK),
)
"""Plain numbers: ``&`` with a flag of ``enum`` takes a microsecond."""


class Network:
    """Serves one context of the CPU reference."""

    def __init__(self, opened: Context) -> None:
        self._opened = opened
        opened.mixed_paths = True
        self._memories = Memories(opened)
        self._inputs: Optional[StagedInputs] = None
        self._given = False  # all inputs, or memory bound to a tensor
        self._gathered: Mapping[int, Input] = {}  # given by rknn_inputs_set, one call or several
        self._bound: dict[str, tuple[TensorAttr, int]] = {}  # by name: how, and the memory's number
        self._told = False  # that the two paths are mixed
        self._shaped: dict[int, tuple[int, ...]] = {}  # shapes of single inputs, the last one at the end
        self._outputs = StagedOutputs()
        self._frames = AsyncRuns(opened)
        self._asks: Optional[Wire] = None  # where callbacks are asked for

    @classmethod
    def open(cls, request: Request, contexts: OpenContexts, number: int) -> tuple[Network, Reply]:
        """Open a model, or duplicate a context. Raises what that raises."""
        facts = InitFact(0)
        if request.call == Call.DUP:
            opened = contexts.find(request.args[0]).dup()
        else:
            flags, size, master = request.args[:3]
            options = options_of(flags, contexts.find(master) if master else None)
            opened = open_model(_model(request, size), config.get("backend") or "cpu", **options)
            if request.args[3] and not opened.soc.zero_copy_only:
                soc = opened.soc.name
                opened.close()
                raise TargetPlatformUnmatch(
                    f"the model is for {soc}; librknnmrt runs those for RV1103 and RV1106"
                )
            flushes = options.get("flush_inputs", True) and options.get("flush_outputs", True)
            facts = InitFact.SYNCS if not flushes else facts
            facts |= InitFact.DYNAMIC if opened.shapes else InitFact(0)
        contexts.add(number, opened)
        return cls(opened), Reply(args=(int(facts),))

    def handlers(self) -> dict[int, Handler]:
        """What answers which call."""
        return {
            Call.QUERY: self._query,
            Call.CORE_MASK: self._core_mask,
            Call.BATCH_CORES: self._batch_cores,
            Call.SHAPES: self._shapes,
            Call.INPUTS: self._take_inputs,
            Call.RUN: self._run,
            Call.WAIT: self._wait,
            Call.OUTPUTS: self._fetch,
            Call.MEMORY: self._memories.learn,
            Call.FORGET: self._forget,
            Call.BIND: self._bind,
            Call.WEIGHTS: self._weights,
            Call.INTERNAL: self._internal,
            Call.SYNC: self._sync,
            Call.OPERATORS: self._operators,
        }

    def close(self) -> None:
        """Close the context; operators of the program are told."""
        self._opened.close()
        self._memories.close()
        self._inputs = None
        self._outputs.close()
        if self._asks is not None:
            self._asks.close()

    # -- questions and settings ---------------------------------------------------------------------------

    def _query(self, request: Request) -> Reply:
        command, index, room = request.args[:3]
        args: tuple[int, ...] = ()
        if command == Query.PERF_DETAIL:
            told, need = perf_text(self._opened), struct.calcsize("P") + 8
        else:
            told = answer(self._opened, command, index)
            need = len(told)
        if command == Query.DEVICE_MEM_INFO:  # it has pointers: the library puts it together
            mem = TensorMem.from_buffer_copy(told)
            told, need, args = b"", 0, (mem.size, mem.flags)
        if room < need:
            raise ParamInvalid(f"command {command}: the structure has {room} bytes, the answer {need}")
        return Reply(told, args)

    def _core_mask(self, request: Request) -> None:
        self._opened.set_core_mask(request.args[0])

    def _batch_cores(self, request: Request) -> None:
        self._opened.set_batch_core_num(ct.c_int32(request.args[0] & 0xFFFFFFFF).value)

    def _shapes(self, request: Request) -> None:
        structs = [
            TensorAttrStruct.from_buffer_copy(request.payload, at)
            for at in range(0, len(request.payload), ct.sizeof(TensorAttrStruct))
        ]
        if structs and not request.args[0]:  # rknn_set_input_shape
            shapes = shapes_with(structs[0], self._opened, self._shaped)
        else:
            shapes = shapes_of(structs, self._opened)
            self._shaped = dict(enumerate(shapes))
        self._opened.set_shapes(shapes)
        self._inputs, self._given = None, False
        self._gathered = {}
        self._bound.clear()

    # -- frames -------------------------------------------------------------------------------------------

    def _take_inputs(self, request: Request) -> Optional[Reply]:
        """With a descriptor: look at what lies there from now on, and answer how many bytes of each are taken."""
        if not request.fds:
            self._set_inputs()
            return None
        count, size = request.args[:2]
        self._inputs = None
        self._inputs = StagedInputs(self._opened, request.payload, count, request.fds.first, size)
        return Reply(self._inputs.needs)

    def _set_inputs(self) -> None:
        """Inputs come in one call or in several; once there is something for each, they count."""
        if self._inputs is None:
            raise ContextInvalid("there are no inputs: call rknn_inputs_set")
        if self._inputs.complete and not self._bound:
            self._opened.set_inputs(self._inputs.inputs)
            self._gathered, self._given = self._inputs.by_index, True
            return
        gathered = {**self._gathered, **self._inputs.by_index}
        attrs = self._opened.inputs
        for index in gathered:
            self._bound.pop(attrs[index].name, None)
        if all(i in gathered or attr.name in self._bound for i, attr in enumerate(attrs)):
            self._hand_over(gathered)
        self._gathered = gathered

    def _hand_over(self, gathered: Mapping[int, Input]) -> None:
        """Zeros stand for inputs that are not given; those that have memory are bound to it again."""
        natives = self._opened.native_inputs if len(gathered) < len(self._opened.inputs) else []
        zeros = [
            Input(i, np.zeros(native.dims, native.dtype.numpy), native.layout, pass_through=True)
            for i, native in enumerate(natives)
            if i not in gathered
        ]
        self._opened.set_inputs([*gathered.values(), *zeros])
        for item in zeros:
            attr, number = self._bound.get(self._opened.inputs[item.index].name, (None, 0))
            if attr is not None:
                self._opened.bind(attr, self._memories.find(number))
        self._given = True

    def _set_zeros(self) -> None:
        """A program may run before it has inputs, to warm up: the vendor's runtimes compute on what is there."""
        absent = [attr.name for i, attr in enumerate(self._opened.inputs) if i not in self._gathered]
        which = f"input {', '.join(absent)}" if self._gathered else "inputs"
        logger.warning("rknn_run without %s: it computes on zeros", which)
        self._hand_over(self._gathered)

    def _run(self, request: Request) -> Reply:
        flags, extended, timeout = request.args[:3]
        if flags & _WITH_INPUTS:
            self._set_inputs()
        elif not self._given:
            self._set_zeros()
        if self._bound and not self._told:
            self._tell_mixed()
        if extended:
            self._frames.begin(timeout, block=not flags & _NON_BLOCK)
        else:
            self._frames.run()
        return self._delivered() if flags & _WITH_OUTPUTS else Reply(args=(self._frames.last,))

    def _wait(self, request: Request) -> None:
        extended, frame, timeout = request.args[:3]
        self._frames.wait(frame if extended else None, timeout)

    def _fetch(self, request: Request) -> Reply:
        self._outputs.ask(self._opened, request.payload)
        return self._delivered()

    def _delivered(self) -> Reply:
        outputs = self._outputs
        outputs.fetch(self._opened)
        places, outputs.places_to_send = outputs.places_to_send, b""
        fds, outputs.fd_to_send = tuple(outputs.fd_to_send), []
        return Reply(places, (self._frames.fetched, 1, outputs.size, max(0, self._frames.last)), fds)

    # -- memory -------------------------------------------------------------------------------------------

    def _bind(self, request: Request) -> Reply:
        attr = attr_of(TensorAttrStruct.from_buffer_copy(request.payload))
        self._opened.bind(attr, self._memories.find(request.args[0]))
        index = next((i for i, known in enumerate(self._opened.inputs) if attr.name == known.name), None)
        if index is not None:
            self._gathered = {i: item for i, item in self._gathered.items() if i != index}
        self._bound[attr.name] = (attr, request.args[0])
        self._given = True
        return Reply(args=(int(index is not None),))

    def _forget(self, request: Request) -> None:
        self._bound = {name: kept for name, kept in self._bound.items() if kept[1] != request.args[0]}
        self._memories.forget(request)

    def _tell_mixed(self) -> None:
        """Once: the manual keeps memory for tensors apart from ``rknn_inputs_set`` and ``rknn_outputs_get``."""
        tensors = [*self._opened.inputs, *self._opened.outputs]
        without = [attr.name for attr in tensors if attr.name not in self._bound]
        self._told = bool(without)
        if without:
            logger.warning(
                "rknn_run: memory is bound to some tensors only; %s go by rknn_inputs_set and rknn_outputs_get",
                ", ".join(without),
            )

    def _weights(self, request: Request) -> None:
        self._opened.set_weight_mem(self._memories.find(request.args[0]))

    def _internal(self, request: Request) -> None:
        self._opened.set_internal_mem(self._memories.find(request.args[0]))

    def _sync(self, request: Request) -> None:
        number, mode = request.args[:2]
        self._opened.sync(self._memories.find(number), SYNC_DIRECTIONS[MemSync(mode)])

    # -- operators ----------------------------------------------------------------------------------------

    def _operators(self, request: Request) -> None:
        from .operators import operators_of

        if request.fds:
            if self._asks is not None:
                raise ContextInvalid("this context has a socket for callbacks already")
            self._asks = Wire(request.fds.take_socket())
        if self._asks is None:
            raise ContextInvalid("there is no socket for callbacks")
        self._opened.register_ops(operators_of(request, self._asks))


def _model(request: Request, size: int) -> ModelFile:
    """The file that the program names, or the bytes that it gives."""
    if not request.fds:
        return ModelFile(request.payload.decode("utf-8", "surrogateescape"))
    try:
        return ModelFile(memoryview(mmap.mmap(request.fds.first, size, access=mmap.ACCESS_READ)))
    except (OSError, ValueError, OverflowError) as error:
        raise ModelInvalid(f"the {size} bytes of the model cannot be mapped: {error}") from None
