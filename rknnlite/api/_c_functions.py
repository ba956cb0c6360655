"""``rknn_runtime.lib`` where no vendor library computes: the C functions that programs call beside the face.

Names, arguments and codes are those of librknnrt; ``context`` is the number to call them with. What is not here
does not exist, as in an older library: an AttributeError.
"""

from __future__ import annotations

import ctypes as ct
import itertools
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._faces.log import FaceLog
from ..abi.rknn_op import CustomOpStruct, OutputStruct
from ..errors import ContextInvalid, OutputInvalid, ParamInvalid, RknnError
from ..spi import AttrKind, Context
from ._c_ops import StructOp, attr_struct, read_attr

__all__ = ["CFunctions", "RKNNOutput"]

_QUERIES = {
    1: AttrKind.INPUT, 2: AttrKind.OUTPUT, 8: AttrKind.NATIVE_INPUT, 9: AttrKind.NATIVE_OUTPUT,
    10: AttrKind.NATIVE_NHWC_INPUT, 11: AttrKind.NATIVE_NHWC_OUTPUT, 14: AttrKind.CURRENT_INPUT,
    15: AttrKind.CURRENT_OUTPUT, 16: AttrKind.CURRENT_NATIVE_INPUT, 17: AttrKind.CURRENT_NATIVE_OUTPUT,
}  # fmt: skip
_IN_OUT_NUM, _PERF_RUN, _SDK_VERSION, _MEM_SIZE, _CUSTOM_STRING = 0, 4, 5, 6, 7
_numbers = itertools.count(1)


class RKNNOutput(OutputStruct):
    """``rknn_output`` of the C API, for programs that call ``rknn_outputs_get`` on ``lib`` themselves."""


class CFunctions:
    """The functions for one open model. Pointers may be anything that ctypes takes for one."""

    def __init__(self, opened: Context, log: FaceLog) -> None:
        self._opened, self._log = opened, log
        self.context = next(_numbers)
        self._held: list[NDArray[Any]] = []  # outputs that the program has not released

    def rknn_query(self, context: Any, command: Any, info: Any, size: Any) -> int:
        """Answer commands 0 to 2, 4 to 11 and 14 to 17 into ``size`` bytes at ``info``."""

        def work() -> None:
            where, room = _address(info), _number(size)
            index = ct.c_uint32.from_address(where).value if room >= 4 else 0
            answer = self._answer(_number(command), index)
            if room < len(answer):
                raise ParamInvalid(f"the structure has {room} bytes, the answer {len(answer)}")
            ct.memmove(where, answer, len(answer))

        return self._code("rknn_query", context, work)

    def _answer(self, command: int, index: int) -> bytes:
        opened = self._opened
        kind = _QUERIES.get(command)
        if kind is not None:
            attrs = opened.attrs(kind)
            if index >= len(attrs):
                raise ParamInvalid(f"there is no {kind.value} {index}, the model has {len(attrs)}")
            return bytes(attr_struct(attrs[index]))
        if command == _IN_OUT_NUM:
            return struct.pack("=2I", len(opened.inputs), len(opened.outputs))
        if command == _PERF_RUN:
            return struct.pack("=q", int(opened.last_run_us))
        if command == _SDK_VERSION:
            versions = opened.versions
            return struct.pack("=256s256s", versions.api.encode()[:255], versions.driver.encode()[:255])
        if command == _MEM_SIZE:
            size = opened.memory()
            return struct.pack(
                "=2IQ2I40x", size.weight, size.internal, size.total, size.sram_total, size.sram_free
            )
        if command == _CUSTOM_STRING:
            return struct.pack("=1024s", opened.custom_string.encode()[:1023])
        raise ParamInvalid(f"command {command} is not answered where no vendor library computes")

    def rknn_outputs_get(self, context: Any, count: Any, outputs: Any, extend: Any = None) -> int:
        """Fetch all outputs, in memory of ours until ``rknn_outputs_release``, or in the program's own."""

        def work() -> None:
            attrs = self._opened.outputs
            if _number(count) != len(attrs):
                raise OutputInvalid(f"{_number(count)} outputs asked for, the model has {len(attrs)}")
            asked = (RKNNOutput * len(attrs)).from_address(_address(outputs))
            floats = self._opened.get_outputs(True) if any(o.want_float for o in asked) else []
            stored = self._opened.get_outputs(False) if not all(o.want_float for o in asked) else []
            for index, output in enumerate(asked):
                self._deliver(output, (floats if output.want_float else stored)[index], index)

        return self._code("rknn_outputs_get", context, work)

    def _deliver(self, output: Any, data: NDArray[Any], index: int) -> None:
        data = np.ascontiguousarray(data)
        output.index = index
        if not output.is_prealloc:
            self._held.append(data)
            output.buf = data.ctypes.data
        elif not output.buf or output.size < data.nbytes:
            raise OutputInvalid(f"output {index} has {data.nbytes} bytes, its buffer {output.size}")
        else:
            ct.memmove(output.buf, data.ctypes.data, data.nbytes)
        output.size = data.nbytes

    def rknn_outputs_release(self, context: Any, count: Any, outputs: Any) -> int:
        """Give back what ``rknn_outputs_get`` holds for the program."""
        return self._code("rknn_outputs_release", context, self._held.clear)

    def rknn_run(self, context: Any, extend: Any = None) -> int:
        """Run once on the inputs that were set."""
        return self._code("rknn_run", context, self._opened.run)

    def rknn_set_core_mask(self, context: Any, mask: Any) -> int:
        """Choose NPU cores."""
        return self._code("rknn_set_core_mask", context, lambda: self._opened.set_core_mask(_number(mask)))

    def rknn_register_custom_ops(self, context: Any, ops: Any, count: Any) -> int:
        """Register the operators of an array of ``rknn_custom_op``; those registered before stay."""

        def work() -> None:
            given = (CustomOpStruct * _number(count)).from_address(_address(ops))
            self._opened.register_ops([StructOp(struct) for struct in given])

        return self._code("rknn_register_custom_ops", context, work)

    def rknn_custom_op_get_op_attr(self, op_ctx: Any, name: Any, answer: Any) -> None:
        """Inside a callback: an attribute of the node."""
        read_attr(op_ctx, getattr(name, "value", name), answer)

    def _code(self, name: str, context: Any, work: Any) -> int:
        """The code that C would answer; what is wrong is logged."""
        try:
            if _number(context) != self.context or self._opened.closed:
                raise ContextInvalid(
                    "this context is closed, or the number is not that of rknn_runtime.context"
                )
            work()
        except RknnError as error:
            self._log.e(f"{name} failed. error code: {error.name} ({error.code}); {error}", False)
            return error.code
        return 0


def _number(given: Any) -> int:
    """A number, or a ctypes object that holds one."""
    return int(getattr(given, "value", given))


def _address(given: Any) -> int:
    """Where a pointer points to, be it ``byref``, an array, a pointer, an address."""
    where = ct.cast(given, ct.c_void_p).value
    if not where:
        raise ParamInvalid("a pointer is NULL")
    return where
