"""The C ABI of librknn_api (headers 1.7.5, host: 1.6.1) as ctypes declarations: structures, numbers and prototypes.

It looks like that of librknnrt and is not: attributes of 360 bytes whose ``dims`` begin with the innermost,
``rknn_init`` with four arguments, another ``rknn_tensor_mem``. What both have alike is imported.
"""

from __future__ import annotations

import ctypes as ct
import enum
import functools
from typing import Any

from rknnlite.abi.rknn_api import (
    InputOutputNum,
    InputStruct,
    OutputExtend,
    PerfDetail,
    PerfRun,
    QntType,
    SdkVersion,
)
from rknnlite.abi.rknn_op import MAX_DIMS, MAX_NAME, OutputStruct

__all__ = [
    "BASE_FUNCTIONS",
    "BOARD_ONLY",
    "HOST_ONLY",
    "MAX_DEVICES",
    "MAX_DIMS",
    "MAX_NAME",
    "STRUCTURES",
    "DevicesId",
    "Flavour",
    "InitExtend",
    "InitFlag",
    "InputOutputNum",
    "InputStruct",
    "OutputExtend",
    "OutputStruct",
    "PerfDetail",
    "PerfRun",
    "PreCompile",
    "QntType",
    "Query",
    "RunExtend",
    "SdkVersion",
    "TensorAttrStruct",
    "TensorMem",
    "array_of",
    "context_type",
    "prototypes",
]

MAX_DEVICES, _DEVICE_NAME = 256, 64


class Flavour(enum.Enum):
    """``BOARD``: the library drives the NPU beside the CPU. ``HOST``: it talks to one behind USB or PCIe."""

    BOARD = "board"
    HOST = "host"


class InitFlag(enum.IntFlag):
    """Flags of ``rknn_init``; the priority is a number in the two lowest bits (0 is the highest)."""

    PRIOR_MEDIUM = 1
    PRIOR_LOW = 2
    ASYNC = 4
    COLLECT_PERF = 8
    LOAD_MODEL_IN_NPU = 16
    """Host only: the model is a file on the device. librknnrt means other things by this bit and the next."""
    PRECOMPILE = 32
    """Board only: keep what query PRE_COMPILE reads."""


class Query(enum.IntEnum):
    """Commands of ``rknn_query``; 6 is MEM_SIZE in librknnrt, and there is none above."""

    IN_OUT_NUM = 0
    INPUT_ATTR = 1
    OUTPUT_ATTR = 2
    PERF_DETAIL = 3
    PERF_RUN = 4
    SDK_VERSION = 5
    PRE_COMPILE = 6


class TensorAttrStruct(ct.Structure):
    """360 bytes, nothing after ``scale``; ``dims`` begin with the innermost."""

    _fields_ = (
        ("index", ct.c_uint32),
        ("n_dims", ct.c_uint32),
        ("dims", ct.c_uint32 * MAX_DIMS),
        ("name", ct.c_char * MAX_NAME),
        ("n_elems", ct.c_uint32),
        ("size", ct.c_uint32),
        ("fmt", ct.c_int32),
        ("type", ct.c_int32),
        ("qnt_type", ct.c_int32),
        ("fl", ct.c_int8),
        ("zp", ct.c_uint32),
        ("scale", ct.c_float),
    )


class TensorMem(ct.Structure):
    """48 bytes (40 on 32-bit ARM); librknnrt's has other fields."""

    _fields_ = (
        ("logical_addr", ct.c_void_p),
        ("physical_addr", ct.c_uint64),
        ("fd", ct.c_int32),
        ("size", ct.c_uint32),
        ("handle", ct.c_uint32),
        ("priv_data", ct.c_void_p),
        ("reserved_flag", ct.c_uint64),
    )


class RunExtend(ct.Structure):
    """Written by ``rknn_run``."""

    _fields_ = (("frame_id", ct.c_uint64),)


class PreCompile(ct.Structure):
    _fields_ = (("model_data", ct.c_void_p), ("data_len", ct.c_uint32))


class DevicesId(ct.Structure):
    """32,772 bytes."""

    _fields_ = (
        ("n_devices", ct.c_uint32),
        ("types", (ct.c_char * _DEVICE_NAME) * MAX_DEVICES),
        ("ids", (ct.c_char * _DEVICE_NAME) * MAX_DEVICES),
    )


class InitExtend(ct.Structure):
    _fields_ = (("device_id", ct.c_char_p),)


STRUCTURES: dict[str, type[ct.Structure]] = {
    "rknn_input_output_num": InputOutputNum,
    "rknn_tensor_attr": TensorAttrStruct,
    "rknn_perf_detail": PerfDetail,
    "rknn_perf_run": PerfRun,
    "rknn_sdk_version": SdkVersion,
    "rknn_tensor_mem": TensorMem,
    "rknn_input": InputStruct,
    "rknn_output": OutputStruct,
    "rknn_run_extend": RunExtend,
    "rknn_output_extend": OutputExtend,
    "rknn_precompile": PreCompile,
    "rknn_devices_id": DevicesId,
    "rknn_init_extend": InitExtend,
}
"""C name -> declaration; the last two are of the host flavour."""

BASE_FUNCTIONS = (
    "rknn_init",
    "rknn_destroy",
    "rknn_query",
    "rknn_inputs_set",
    "rknn_run",
    "rknn_outputs_get",
    "rknn_outputs_release",
)
"""What every library of this family exports."""
BOARD_ONLY = (
    "rknn_inputs_map",
    "rknn_inputs_sync",
    "rknn_inputs_unmap",
    "rknn_outputs_map",
    "rknn_outputs_sync",
    "rknn_outputs_unmap",
    "rknn_create_mem",
    "rknn_destroy_mem",
    "rknn_set_io_mem",
)
HOST_ONLY = ("rknn_find_devices", "rknn_init2")


def context_type(flavour: Flavour) -> Any:
    """``rknn_context``: 32 bits on 32-bit ARM boards, 64 everywhere else."""
    return ct.c_uint32 if flavour is Flavour.BOARD and ct.sizeof(ct.c_void_p) == 4 else ct.c_uint64


@functools.cache
def prototypes(flavour: Flavour) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Function -> (result, arguments). Pointers to arrays and structures are passed as ``c_void_p``."""
    context, any_ = context_type(flavour), ct.c_void_p
    mem = ct.POINTER(TensorMem)
    arrays = (ct.c_int, (context, ct.c_uint32, any_))
    found: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "rknn_init": (ct.c_int, (any_, any_, ct.c_uint32, ct.c_uint32)),
        "rknn_destroy": (ct.c_int, (context,)),
        "rknn_query": (ct.c_int, (context, ct.c_int32, any_, ct.c_uint32)),
        "rknn_inputs_set": arrays,
        "rknn_run": (ct.c_int, (context, any_)),
        "rknn_outputs_get": (ct.c_int, (context, ct.c_uint32, any_, any_)),
        "rknn_outputs_release": arrays,
    }
    if flavour is Flavour.HOST:
        found["rknn_find_devices"] = (ct.c_int, (any_,))
        found["rknn_init2"] = (ct.c_int, (any_, any_, ct.c_uint32, ct.c_uint32, any_))
        return found
    found.update({name: arrays for name in BOARD_ONLY if name.rpartition("_")[2] in ("map", "sync", "unmap")})
    found["rknn_create_mem"] = (mem, (context, ct.c_uint64))
    found["rknn_destroy_mem"] = (ct.c_int, (context, mem))
    found["rknn_set_io_mem"] = (ct.c_int, (context, mem, any_))
    return found


@functools.cache
def array_of(struct: type[ct.Structure], count: int) -> Any:
    """``struct * count``, made once: every ctypes array type is a reference cycle of its own."""
    return struct * count
