"""One context as C functions see it: queries, inputs, runs and outputs by structures in the program's memory."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.abi import rknn_api as abi
from rknnlite.abi.rknn_api import Query
from rknnlite.abi.rknn_op import OutputStruct, TensorAttrStruct
from rknnlite.errors import InputInvalid, OutputInvalid, ParamInvalid
from rknnlite.spi import Context

from .async_runs import AsyncRuns
from .attrs import shapes_of
from .inputs import input_of
from .pointers import address, struct_at, structs_at
from .queries import answer, perf_text

__all__ = ["CContext"]


class CContext:
    """What the program has of one open model. Every method raises what its function answers the code of."""

    def __init__(self, opened: Context) -> None:
        self.opened = opened
        self._held: dict[
            int, NDArray[Any]
        ] = {}  # outputs that the program has not released, by their address
        self._perf: Any = None  # the text that the last answer to PERF_DETAIL points to
        self._frames = AsyncRuns(opened)

    # -- questions ----------------------------------------------------------------------------------------

    def query(self, command: int, info: Any, room: int) -> None:
        """Answer into ``room`` bytes at ``info``."""
        where = address(info, room)
        index = ct.c_uint32.from_address(where).value if room >= 4 else 0
        told = self._perf_detail() if command == Query.PERF_DETAIL else answer(self.opened, command, index)
        if room < len(told):
            raise ParamInvalid(f"the structure has {room} bytes, the answer {len(told)}")
        ct.memmove(where, told, len(told))

    def _perf_detail(self) -> bytes:
        """The table as text, which stays until the next question for it."""
        text = perf_text(self.opened)
        self._perf = ct.create_string_buffer(text)
        return bytes(abi.PerfDetail(ct.addressof(self._perf), len(text)))

    # -- inputs -------------------------------------------------------------------------------------------

    def set_inputs(self, count: int, inputs: Any) -> None:
        """Take a copy of all inputs."""
        attrs = self.opened.inputs
        if count != len(attrs):
            raise InputInvalid(f"{count} inputs given, the model has {len(attrs)}")
        given = structs_at(abi.InputStruct, inputs, count)
        self.opened.set_inputs([input_of(self.opened, struct, _bytes_of(struct)) for struct in given])

    def set_shapes(self, count: int, attrs: Any) -> None:
        """Choose the shapes of a dynamic model."""
        if count != len(self.opened.inputs):  # before so many are read
            raise ParamInvalid(f"{count} shapes given, the model has {len(self.opened.inputs)} inputs")
        self.opened.set_shapes(shapes_of(structs_at(TensorAttrStruct, attrs, count), self.opened))

    # -- runs ---------------------------------------------------------------------------------------------

    def run(self, extend: Any) -> None:
        """Run once; with ``extend`` as it says, which is told the number of the frame."""
        if not extend:
            self._frames.run()
            return
        told = struct_at(abi.RunExtend, extend)
        told.frame_id = self._frames.begin(max(0, told.timeout_ms), block=not told.non_block)

    def wait(self, extend: Any) -> None:
        """Wait for the frame that ``extend`` names; without, for the last one."""
        if extend:
            told = struct_at(abi.RunExtend, extend)
            self._frames.wait(told.frame_id, max(0, told.timeout_ms))
        else:
            self._frames.wait()

    # -- outputs ------------------------------------------------------------------------------------------

    def outputs(self, count: int, outputs: Any, extend: Any) -> None:
        """Give all outputs, in memory of ours until ``release``, or in the program's own."""
        attrs = self.opened.outputs
        if count != len(attrs):
            raise OutputInvalid(f"{count} outputs asked for, the model has {len(attrs)}")
        asked = structs_at(OutputStruct, outputs, count)
        told = struct_at(abi.OutputExtend, extend) if extend else None
        floats = self.opened.get_outputs(True) if any(o.want_float for o in asked) else []
        stored = self.opened.get_outputs(False) if not all(o.want_float for o in asked) else []
        for index, output in enumerate(asked):
            self._deliver(output, (floats if output.want_float else stored)[index], index)
        if told is not None:
            told.frame_id = self._frames.fetched

    def _deliver(self, output: OutputStruct, data: NDArray[Any], index: int) -> None:
        data = np.ascontiguousarray(data)
        output.index = index
        if not output.is_prealloc:
            self._held[data.ctypes.data] = data
            output.buf = data.ctypes.data
        elif not output.buf or output.size < data.nbytes:
            raise OutputInvalid(f"output {index} has {data.nbytes} bytes, its buffer {output.size}")
        else:
            where = address(output.buf, data.nbytes, OutputInvalid, f"the buffer of output {index}")
            ct.memmove(where, data.ctypes.data, data.nbytes)
        output.size = data.nbytes

    def release(self, count: int, outputs: Any) -> None:
        """Give back what ``outputs`` holds for the program; buffers of the program's own stay."""
        for output in structs_at(OutputStruct, outputs, count):
            if not output.is_prealloc and self._held.pop(output.buf or 0, None) is not None:
                output.buf = None


def _bytes_of(struct: abi.InputStruct) -> Callable[[int], NDArray[np.uint8]]:
    """A copy of the bytes of an input; the program may do with its own what it likes afterwards."""

    def copied(size: int) -> NDArray[np.uint8]:
        where = address(struct.buf, size, InputInvalid, f"the buffer of input {struct.index}")
        return np.frombuffer(ct.string_at(where, size), np.uint8)

    return copied
