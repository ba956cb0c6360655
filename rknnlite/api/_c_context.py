"""One context as C functions see it: queries, inputs, runs and outputs by structures in the program's memory."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..abi import rknn_api as abi
from ..abi.rknn_api import MemSource, Query
from ..abi.rknn_op import OutputStruct, TensorAttrStruct, TensorMem
from ..errors import InputInvalid, ModelInvalid, OutputInvalid, ParamInvalid
from ..spi import AttrKind, Context, Input
from ..tensor import DType, Layout, TensorAttr
from ._c_memory import attr_of
from ._c_ops import attr_struct
from ._c_pointers import address, struct_at, structs_at

__all__ = ["CContext"]

_ATTRS = {
    Query.INPUT_ATTR: AttrKind.INPUT, Query.OUTPUT_ATTR: AttrKind.OUTPUT,
    Query.NATIVE_INPUT_ATTR: AttrKind.NATIVE_INPUT, Query.NATIVE_OUTPUT_ATTR: AttrKind.NATIVE_OUTPUT,
    Query.NATIVE_NHWC_INPUT_ATTR: AttrKind.NATIVE_NHWC_INPUT,
    Query.NATIVE_NHWC_OUTPUT_ATTR: AttrKind.NATIVE_NHWC_OUTPUT,
    Query.CURRENT_INPUT_ATTR: AttrKind.CURRENT_INPUT, Query.CURRENT_OUTPUT_ATTR: AttrKind.CURRENT_OUTPUT,
    Query.CURRENT_NATIVE_INPUT_ATTR: AttrKind.CURRENT_NATIVE_INPUT,
    Query.CURRENT_NATIVE_OUTPUT_ATTR: AttrKind.CURRENT_NATIVE_OUTPUT,
}  # fmt: skip
_UINT32 = 0xFFFFFFFF


class CContext:
    """What the program has of one open model. Every method raises what its function answers the code of."""

    def __init__(self, opened: Context) -> None:
        self.opened = opened
        self._held: dict[
            int, NDArray[Any]
        ] = {}  # outputs that the program has not released, by their address
        self._perf: Any = None  # the text that the last answer to PERF_DETAIL points to
        self._frame = -1  # the last one that ``run`` has begun

    # -- questions ----------------------------------------------------------------------------------------

    def query(self, command: int, info: Any, room: int) -> None:
        """Answer into ``room`` bytes at ``info``."""
        where = address(info, room)
        index = ct.c_uint32.from_address(where).value if room >= 4 else 0
        answer = self._answer(command, index)
        if room < len(answer):
            raise ParamInvalid(f"the structure has {room} bytes, the answer {len(answer)}")
        ct.memmove(where, answer, len(answer))

    def _answer(self, command: int, index: int) -> bytes:
        opened = self.opened
        if command in _ATTRS:
            kind = _ATTRS[Query(command)]
            return bytes(attr_struct(_one(opened.attrs(kind), index, kind.value)))
        if command == Query.IN_OUT_NUM:
            return bytes(abi.InputOutputNum(len(opened.inputs), len(opened.outputs)))
        if command == Query.PERF_DETAIL:
            return bytes(self._perf_detail())
        if command == Query.PERF_RUN:
            return bytes(abi.PerfRun(int(opened.last_run_us)))
        if command == Query.SDK_VERSION:
            versions = opened.versions
            return bytes(abi.SdkVersion(versions.api.encode()[:255], versions.driver.encode()[:255]))
        if command == Query.MEM_SIZE:
            size = opened.memory()
            return bytes(abi.MemSize(size.weight, size.internal, size.total, size.sram_total, size.sram_free))
        if command == Query.CUSTOM_STRING:
            return bytes(abi.CustomString(opened.custom_string.encode()[:1023]))
        if command == Query.DEVICE_MEM_INFO:
            return bytes(self._device_memory())
        if command == Query.INPUT_DYNAMIC_RANGE:
            return bytes(self._range(index))
        raise ParamInvalid(f"command {command} is not answered where no vendor library computes")

    def _perf_detail(self) -> abi.PerfDetail:
        """The table as text, which stays until the next question for it."""
        if not self.opened.last_run_us:
            raise ParamInvalid("there are no figures per layer before a run has ended")
        text = str(self.opened.perf_table()).encode()
        self._perf = ct.create_string_buffer(text)
        return abi.PerfDetail(ct.addressof(self._perf), len(text))

    def _device_memory(self) -> TensorMem:
        """What the context holds, where librknnmrt would compute."""
        soc = self.opened.soc
        if not soc.zero_copy_only:
            raise ParamInvalid(
                f"command 12 (DEVICE_MEM_INFO) is one of librknnmrt, for RV1103 and RV1106; on {soc.name} ask command "
                "6 (MEM_SIZE)"
            )
        return TensorMem(fd=-1, size=min(self.opened.memory().total, _UINT32), flags=MemSource.ALLOC_INSIDE)

    def _range(self, index: int) -> abi.InputRange:
        attr, shapes = _one(self.opened.inputs, index, "input"), self.opened.shapes
        if not shapes:
            raise ModelInvalid("the model has static shapes: there is no range (command 13)")
        rank = len(attr.dims)
        answer = abi.InputRange(
            index=index,
            shape_number=min(len(shapes), abi.MAX_DYNAMIC_SHAPES),
            fmt=Layout.NHWC if rank == 4 else Layout.UNDEFINED,
            name=attr.name.encode()[:255],
            n_dims=rank,
        )
        for place, dims in enumerate(shapes[: abi.MAX_DYNAMIC_SHAPES]):
            answer.dyn_range[place][:rank] = dims[index]
        return answer

    # -- inputs -------------------------------------------------------------------------------------------

    def set_inputs(self, count: int, inputs: Any) -> None:
        """Take a copy of all inputs."""
        attrs = self.opened.inputs
        if count != len(attrs):
            raise InputInvalid(f"{count} inputs given, the model has {len(attrs)}")
        given = structs_at(abi.InputStruct, inputs, count)
        self.opened.set_inputs([self._input(struct, attrs) for struct in given])

    def _input(self, struct: abi.InputStruct, attrs: list[TensorAttr]) -> Input:
        if struct.index >= len(attrs):
            raise InputInvalid(f"there is no input {struct.index}, the model has {len(attrs)}")
        attr = attrs[struct.index]
        if struct.pass_through:
            return self._passed(struct)
        try:
            dtype = DType(struct.type).numpy
        except ValueError:
            raise InputInvalid(
                f"input {attr.name}: type {struct.type} is none; there are 0 to {max(DType)}"
            ) from None
        if len(attr.dims) == 4 and struct.fmt != Layout.NHWC:
            raise InputInvalid(
                f"input {attr.name}: fmt is {struct.fmt}, data of rank 4 must be NHWC (1) unless it is passed through"
            )
        data = _copied(struct, attr, attr.n_elems * dtype.itemsize).view(dtype).reshape(attr.dims)
        return Input(attr.index, data, Layout.NHWC if data.ndim == 4 else Layout.UNDEFINED)

    def _passed(self, struct: abi.InputStruct) -> Input:
        """The native tensor, with the padding of its rows or without."""
        native = self.opened.native_inputs[struct.index]
        if native.layout is not Layout.NHWC or struct.size == native.size:
            data = _copied(struct, native, native.size).view(native.dtype.numpy)
        else:
            n, h, w, c = native.dims
            need = n * h * native.w_stride * c * native.dtype.bits // 8
            rows = _copied(struct, native, need).view(native.dtype.numpy)
            data = rows.reshape(n, h, native.w_stride, c)[:, :, :w]
        return Input(struct.index, data.reshape(native.dims), native.layout, pass_through=True)

    def set_shapes(self, count: int, attrs: Any) -> None:
        """Choose the shapes of a dynamic model."""
        if count != len(self.opened.inputs):
            raise ParamInvalid(f"{count} shapes given, the model has {len(self.opened.inputs)} inputs")
        given = {struct.index: attr_of(struct) for struct in structs_at(TensorAttrStruct, attrs, count)}
        if sorted(given) != list(range(count)):
            raise ParamInvalid(f"shapes are given for inputs {sorted(given)}, must be 0 to {count - 1}")
        self.opened.set_shapes([given[index].dims for index in range(count)])

    # -- runs ---------------------------------------------------------------------------------------------

    def run(self, extend: Any) -> None:
        """Run once; with ``extend`` as it says, which is told the number of the frame."""
        if not extend:
            self.opened.run()
            self._frame += 1
            return
        told = struct_at(abi.RunExtend, extend)
        limit = max(0, told.timeout_ms)
        told.frame_id = self._frame = self.opened.start(limit)
        if not told.non_block:
            self.opened.wait(self._frame, limit)

    def wait(self, extend: Any) -> None:
        """Wait for the frame that ``extend`` names; without, for the last one."""
        if extend:
            told = struct_at(abi.RunExtend, extend)
            self.opened.wait(told.frame_id, max(0, told.timeout_ms))
        elif self._frame < 0:
            raise ParamInvalid(
                "there is no frame to wait for: call rknn_run with non_block in its extend first"
            )
        else:
            self.opened.wait(self._frame)

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
            frame = self.opened.frame_id
            told.frame_id = max(self._frame, 0) if frame is None else frame

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


def _one(attrs: list[TensorAttr], index: int, what: str) -> TensorAttr:
    if index >= len(attrs):
        raise ParamInvalid(f"there is no {what} {index}, the model has {len(attrs)}")
    return attrs[index]


def _copied(struct: abi.InputStruct, attr: TensorAttr, need: int) -> NDArray[Any]:
    """The bytes of an input; the program may do with its own what it likes afterwards."""
    if struct.size != need:
        kind = "passed through" if struct.pass_through else DType(struct.type).name
        raise InputInvalid(f"input {attr.name}: {struct.size} bytes given, {need} are needed ({kind})")
    where = address(struct.buf, need, InputInvalid, f"the buffer of input {attr.name}")
    return np.frombuffer(ct.string_at(where, need), np.uint8)
