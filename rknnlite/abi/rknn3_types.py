"""C ABI of librknn3_api 1.0.0, contexts and tensors: the structures.

Names are those of the vendor's Python package where it has one, layouts those of the C header (the package has
nine wrong). Numbers are in ``rknn3_enums``, the language model half in ``rknn3_llm``, plugins in ``rknn3_op``,
what a later header changes in ``rknn3_v104``, functions in ``rknn3``.
"""

from __future__ import annotations

import ctypes as ct

from .rknn3_enums import (
    RKNN3_MAX_DEV_LEN,
    RKNN3_MAX_DEVS,
    RKNN3_MAX_DIMS,
    RKNN3_MAX_NAME_LEN,
    RKNN3_MAX_NPU_NODE_NUM,
    RKNN3_MAX_STRIDE_DIMS,
)

__all__ = [
    "Float16",
    "RKN3NodeMemInfo",
    "RKNN3AllocationInfo",
    "RKNN3Config",
    "RKNN3CoreMemSize",
    "RKNN3CustomString",
    "RKNN3DevMemInfo",
    "RKNN3Device",
    "RKNN3Devices",
    "RKNN3ImMem",
    "RKNN3ImMetadata",
    "RKNN3ImRect",
    "RKNN3InitExtend",
    "RKNN3InputOutputNum",
    "RKNN3MemSize",
    "RKNN3PerfDetail",
    "RKNN3PerfRun",
    "RKNN3QuantInfo",
    "RKNN3SDKVersion",
    "RKNN3ShapeConfig",
    "RKNN3ShapeInfo",
    "RKNN3Tensor",
    "RKNN3TensorAttr",
    "RKNN3TensorMemory",
    "rknn3_context",
    "rknn3_session",
]

rknn3_context = ct.c_uint64 if ct.sizeof(ct.c_void_p) == 8 else ct.c_uint32
rknn3_session = ct.c_void_p


class Float16(ct.Structure):
    """IEEE half precision, 2 bytes; for numpy cast it to ``POINTER(c_uint16)`` and view as float16."""

    _fields_ = (("frac", ct.c_uint16, 10), ("exp", ct.c_uint16, 5), ("sign", ct.c_uint16, 1))


class RKNN3InputOutputNum(ct.Structure):
    """``rknn3_input_output_num``, 8 bytes."""

    _fields_ = (
        ("n_input", ct.c_uint32),
        ("n_output", ct.c_uint32),
    )


class RKNN3QuantInfo(ct.Structure):
    """``rknn3_quant_info``, 8 bytes."""

    _fields_ = (
        ("scale", ct.c_float),
        ("zero_point", ct.c_int32),
    )


class RKNN3TensorAttr(ct.Structure):
    """``rknn3_tensor_attr``, 512 bytes; the caller sets ``index`` before a query"""

    _fields_ = (
        ("index", ct.c_uint32),
        ("name", ct.c_char * RKNN3_MAX_NAME_LEN),
        ("n_dims", ct.c_uint32),
        ("shape", ct.c_uint32 * RKNN3_MAX_DIMS),
        ("aligned_size", ct.c_uint64),
        ("n_stride", ct.c_uint32),
        ("stride", ct.c_uint64 * RKNN3_MAX_STRIDE_DIMS),
        ("n_elems", ct.c_uint32),
        ("dtype", ct.c_int32),
        ("layout", ct.c_int32),
        ("qnt_type", ct.c_int32),
        ("qnt_info", RKNN3QuantInfo),
        ("core_id", ct.c_int32),
    )


class RKNN3SDKVersion(ct.Structure):
    """``rknn3_sdk_version``, 512 bytes."""

    _fields_ = (
        ("api_version", ct.c_char * RKNN3_MAX_NAME_LEN),
        ("drv_version", ct.c_char * RKNN3_MAX_NAME_LEN),
    )


class RKNN3CoreMemSize(ct.Structure):
    """``rknn3_core_mem_size``, 56 bytes."""

    _fields_ = (
        ("core_id", ct.c_int32),
        ("weight_size", ct.c_uint64),
        ("internal_size", ct.c_uint64),
        ("reserved", ct.c_uint8 * 32),
    )


class RKNN3CustomString(ct.Structure):
    """``rknn3_custom_string``, 1024 bytes."""

    _fields_ = (("string", ct.c_char * 1024),)


class RKNN3TensorMemory(ct.Structure):
    """``rknn3_tensor_mem``, 80 bytes."""

    _fields_ = (
        ("virt_addr", ct.c_void_p),
        ("phys_addr", ct.c_uint64),
        ("fd", ct.c_int32),
        ("buffer_id", ct.c_uint64),
        ("offset", ct.c_uint64),
        ("size", ct.c_uint64),
        ("flags", ct.c_uint64),
        ("core_id", ct.c_int32),
        ("priv_data", ct.c_void_p),
        ("mem_type", ct.c_int32),
    )


class RKNN3ImRect(ct.Structure):
    """``rknn3_im_rect``, 16 bytes."""

    _fields_ = (
        ("x", ct.c_int),
        ("y", ct.c_int),
        ("width", ct.c_int),
        ("height", ct.c_int),
    )


class RKNN3ImMetadata(ct.Structure):
    """``rknn3_im_metadata``, 8 bytes."""

    _fields_ = (("peer_im_mem_addr", ct.c_uint64),)


class RKNN3ImMem(ct.Structure):
    """``rknn3_im_mem``, 40 bytes."""

    _fields_ = (
        ("width", ct.c_int),
        ("height", ct.c_int),
        ("stride", ct.c_int),
        ("format", ct.c_int32),
        ("sync_to_host", ct.c_bool),
        ("data_mem", ct.POINTER(RKNN3TensorMemory)),
        ("metadata", RKNN3ImMetadata),
    )


class RKNN3Config(ct.Structure):
    """``rknn3_config``, 144 bytes; ``run_timeout`` in ms, 0: none"""

    _fields_ = (
        ("priority", ct.c_int32),
        ("run_timeout", ct.c_uint32),
        ("run_core_mask", ct.c_uint32),
        ("user_mem_weight", ct.c_uint8),
        ("user_mem_internal", ct.c_uint8),
        ("user_sram", ct.c_uint8),
        ("reserved", ct.c_uint8 * 128),
    )


class RKNN3Tensor(ct.Structure):
    """``rknn3_tensor``, 16 bytes."""

    _fields_ = (
        ("mem", ct.POINTER(RKNN3TensorMemory)),
        ("attr", ct.POINTER(RKNN3TensorAttr)),
    )


class RKNN3AllocationInfo(ct.Structure):
    """``rknn3_allocation_info``, 456 bytes."""

    _fields_ = (
        ("core_id", ct.c_int32),
        ("command_mem", RKNN3TensorMemory),
        ("weight_mem", RKNN3TensorMemory),
        ("internal_mem", RKNN3TensorMemory),
        ("kvcache_mem", RKNN3TensorMemory),
        ("reserved", ct.c_uint8 * 128),
    )


class RKNN3ShapeInfo(ct.Structure):
    """``rknn3_shape_info``, 64 bytes; the caller allocates both arrays"""

    _fields_ = (
        ("shape_id", ct.c_int32),
        ("n_inputs", ct.c_uint32),
        ("input_attrs", ct.POINTER(RKNN3TensorAttr)),
        ("n_outputs", ct.c_uint32),
        ("output_attrs", ct.POINTER(RKNN3TensorAttr)),
        ("is_default", ct.c_uint8),
        ("reserved", ct.c_uint8 * 31),
    )


class RKNN3ShapeConfig(ct.Structure):
    """``rknn3_shape_config``, 8 bytes."""

    _fields_ = (
        ("n_shapes", ct.c_uint32),
        ("current_shape_id", ct.c_int32),
    )


class RKNN3InitExtend(ct.Structure):
    """``rknn3_init_extend``, 136 bytes."""

    _fields_ = (
        ("device_id", ct.c_char_p),
        ("reserved", ct.c_uint8 * 128),
    )


class RKN3NodeMemInfo(ct.Structure):
    """``rknn3_node_mem_info``, 16 bytes."""

    _fields_ = (
        ("total", ct.c_uint64),
        ("free", ct.c_uint64),
    )


class RKNN3DevMemInfo(ct.Structure):
    """``rknn3_dev_mem_info``, 2072 bytes."""

    _fields_ = (
        ("node_num", ct.c_uint32),
        ("sys_total", ct.c_uint64),
        ("sys_free", ct.c_uint64),
        ("node_mem_info", RKN3NodeMemInfo * RKNN3_MAX_NPU_NODE_NUM),
    )


class RKNN3Device(ct.Structure):
    """``rknn3_device``, 2200 bytes."""

    _fields_ = (
        ("id", ct.c_char * RKNN3_MAX_DEV_LEN),
        ("type", ct.c_char * RKNN3_MAX_DEV_LEN),
        ("mem_info", RKNN3DevMemInfo),
    )


class RKNN3Devices(ct.Structure):
    """``rknn3_devices``, 140808 bytes."""

    _fields_ = (
        ("n_devices", ct.c_uint32),
        ("devices", RKNN3Device * RKNN3_MAX_DEVS),
    )


class RKNN3PerfDetail(ct.Structure):
    """Of the Python package only: text of ``data_len`` bytes."""

    _fields_ = (("perf_data", ct.c_char_p), ("data_len", ct.c_uint64))


class RKNN3PerfRun(ct.Structure):
    """Of the Python package only: microseconds."""

    _fields_ = (("run_duration", ct.c_int64),)


class RKNN3MemSize(ct.Structure):
    """Of the Python package only: bytes."""

    _fields_ = (
        ("total_const_size", ct.c_uint64),
        ("total_internal_size", ct.c_uint64),
        ("total_dma_allocated_size", ct.c_uint64),
        ("total_sram_size", ct.c_uint64),
        ("free_sram_size", ct.c_uint64),
    )
