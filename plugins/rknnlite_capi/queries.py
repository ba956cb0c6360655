"""Answers of ``rknn_query`` as bytes."""

from __future__ import annotations

from rknnlite.abi import rknn_api as abi
from rknnlite.abi.rknn_api import MemSource, Query
from rknnlite.abi.rknn_op import TensorMem
from rknnlite.errors import ModelInvalid, ParamInvalid
from rknnlite.spi import AttrKind, Context
from rknnlite.tensor import Layout, TensorAttr

from .attrs import attr_struct

__all__ = ["NoRange", "answer", "perf_text"]

_ATTRS = {
    Query.INPUT_ATTR: AttrKind.INPUT,
    Query.OUTPUT_ATTR: AttrKind.OUTPUT,
    Query.NATIVE_INPUT_ATTR: AttrKind.NATIVE_INPUT,
    Query.NATIVE_OUTPUT_ATTR: AttrKind.NATIVE_OUTPUT,
    Query.NATIVE_NHWC_INPUT_ATTR: AttrKind.NATIVE_NHWC_INPUT,
    Query.NATIVE_NHWC_OUTPUT_ATTR: AttrKind.NATIVE_NHWC_OUTPUT,
    Query.CURRENT_INPUT_ATTR: AttrKind.CURRENT_INPUT,
    Query.CURRENT_OUTPUT_ATTR: AttrKind.CURRENT_OUTPUT,
    Query.CURRENT_NATIVE_INPUT_ATTR: AttrKind.CURRENT_NATIVE_INPUT,
    Query.CURRENT_NATIVE_OUTPUT_ATTR: AttrKind.CURRENT_NATIVE_OUTPUT,
}
_UINT32 = 0xFFFFFFFF
_API, _DRIVER = "2.3.2", "0.9.8"
"""Of the runtime whose API this is, and of a driver that it takes."""


class NoRange(ModelInvalid):
    """The shapes are static. Programs ask every model for its range: it is no error to be told of."""


def answer(opened: Context, command: int, index: int) -> bytes:
    """The structure that command ``command`` fills, about tensor ``index`` where it is about one.

    PERF_DETAIL is not among them: its structure points to text, see ``perf_text``.

    Raises:
        ParamInvalid: there is no such command or tensor. NoRange: a range was asked of static shapes.
    """
    if command in _ATTRS:
        kind = _ATTRS[Query(command)]
        return bytes(attr_struct(_one(opened.attrs(kind), index, kind.value)))
    if command == Query.IN_OUT_NUM:
        return bytes(abi.InputOutputNum(len(opened.inputs), len(opened.outputs)))
    if command == Query.PERF_RUN:
        return bytes(abi.PerfRun(int(opened.last_run_us)))
    if command == Query.SDK_VERSION:
        return bytes(_versions(opened))
    if command == Query.MEM_SIZE:
        size = opened.memory()
        return bytes(abi.MemSize(size.weight, size.internal, size.total, size.sram_total, size.sram_free))
    if command == Query.CUSTOM_STRING:
        return bytes(abi.CustomString(opened.custom_string.encode()[:1023]))
    if command == Query.DEVICE_MEM_INFO:
        return bytes(_device_memory(opened))
    if command == Query.INPUT_DYNAMIC_RANGE:
        return bytes(_range(opened, index))
    raise ParamInvalid(f"command {command} is not answered where no vendor library computes")


def perf_text(opened: Context) -> bytes:
    """The table that PERF_DETAIL points to; raises ParamInvalid before a run."""
    if not opened.last_run_us:
        raise ParamInvalid("there are no figures per layer before a run has ended")
    return f"{opened.perf_table()}\n".encode()  # programs print it without an end of line of their own


def _versions(opened: Context) -> abi.SdkVersion:
    """Programs compare the numbers in front: where no vendor's library computes, those of the API that is answered.

    The vendor's wheel splits the whole text at its points: there are two.
    """
    api, driver, _ = opened.versions
    if not api[:1].isdigit():
        api, driver = (f"{n} ({text.replace('.', '-')})" for n, text in ((_API, api), (_DRIVER, driver)))
    return abi.SdkVersion(api.encode()[:255], driver.encode()[:255])


def _device_memory(opened: Context) -> TensorMem:
    """What the context holds, where librknnmrt would compute."""
    soc = opened.soc
    if not soc.zero_copy_only:
        raise ParamInvalid(
            f"command 12 (DEVICE_MEM_INFO) is one of librknnmrt, for RV1103 and RV1106; on {soc.name} ask command "
            "6 (MEM_SIZE)"
        )
    return TensorMem(fd=-1, size=min(opened.memory().total, _UINT32), flags=MemSource.ALLOC_INSIDE)


def _range(opened: Context, index: int) -> abi.InputRange:
    shapes = opened.shapes
    if not shapes:  # before the index, which programs that ask this of every model leave as it is
        raise NoRange("the model has static shapes: there is no range (command 13)")
    attr = _one(opened.inputs, index, "input")
    rank = len(attr.dims)
    told = abi.InputRange(
        index=index,
        shape_number=min(len(shapes), abi.MAX_DYNAMIC_SHAPES),
        fmt=Layout.NHWC if rank == 4 else Layout.UNDEFINED,
        name=attr.name.encode()[:255],
        n_dims=rank,
    )
    for place, dims in enumerate(shapes[: abi.MAX_DYNAMIC_SHAPES]):
        told.dyn_range[place][:rank] = dims[index]
    return told


def _one(attrs: list[TensorAttr], index: int, what: str) -> TensorAttr:
    if index >= len(attrs):
        raise ParamInvalid(f"there is no {what} {index}, the model has {len(attrs)}")
    return attrs[index]
