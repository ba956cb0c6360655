"""``rknn_api.h``: the C names of what stands in ``rknnlite.abi.rknn_api`` and ``rknn_op``."""

from __future__ import annotations

from rknnlite.abi import rknn_api, rknn_op
from rknnlite.errors import RKNNRT_CODES
from rknnlite.tensor import DType, Layout

from .parts import Constants, Enum, Function, Header, Struct, Text, members_of, strings

__all__ = ["API", "ERRORS", "HANDLE", "TENSOR_ENUMS", "TENSOR_STRUCTS"]

_FLAG_WORDS = {
    "ASYNC": "ASYNC_MASK",
    "COLLECT_PERF": "COLLECT_PERF_MASK",
    "DISABLE_FLUSH_INPUT": "DISABLE_FLUSH_INPUT_MEM_CACHE",
    "DISABLE_FLUSH_OUTPUT": "DISABLE_FLUSH_OUTPUT_MEM_CACHE",
    "FALLBACK_GPU": "EXECUTE_FALLBACK_PRIOR_DEVICE_GPU",
}
_FLAGS = {
    "RKNN_FLAG_PRIOR_HIGH": 0,
    **{
        f"RKNN_FLAG_{_FLAG_WORDS.get(name, name)}": value
        for name, value in members_of(rknn_api.InitFlag).items()
    },
    "RKNN_MEM_FLAG_ALLOC_NO_CONTEXT": int(rknn_api.MemAlloc.NO_CONTEXT),
}
_ALLOCATION = {"DEFAULT": "FLAGS_DEFAULT"}

_TENSOR_WORDS = {"fmt": "rknn_tensor_format", "type": "rknn_tensor_type", "qnt_type": "rknn_tensor_qnt_type"}
TENSOR_STRUCTS = (
    Struct(
        "rknn_tensor_attr", rknn_op.TensorAttrStruct, _TENSOR_WORDS, "An input or output of a model.",
        {
            "index": "set it before rknn_query", "size": "bytes without padding", "fl": "fraction bits of DFP",
            "w_stride": "pixels of a row in memory, 0: the width", "size_with_stride": "bytes with padding",
            "pass_through": "1: rknn_set_io_mem takes the bytes as they are",
            "h_stride": "rows of an image in memory, 0: the height; the caller sets it",
        },
    ),
    Struct(
        "rknn_tensor_mem", rknn_op.TensorMem, {}, "Memory of the NPU; data begin at virt_addr + offset.",
        {"size": "bytes", "flags": "rknn_tensor_mem_flags", "priv_data": "the library's"}, tag="_rknn_tensor_memory",
    ),
)  # fmt: skip
_STRUCTS = (
    Struct("rknn_input_output_num", rknn_api.InputOutputNum, about="RKNN_QUERY_IN_OUT_NUM."),
    TENSOR_STRUCTS[0],
    Struct(
        "rknn_input_range", rknn_api.InputRange, {"fmt": "rknn_tensor_format"},
        "RKNN_QUERY_INPUT_DYNAMIC_RANGE: the shapes that an input may have.", {"index": "set it before rknn_query"},
    ),
    Struct(
        "rknn_perf_detail", rknn_api.PerfDetail, {"perf_data": "char *"}, "RKNN_QUERY_PERF_DETAIL: a table as text.",
        {"perf_data": "the library's, do not free it"},
    ),
    Struct("rknn_perf_run", rknn_api.PerfRun, {}, "RKNN_QUERY_PERF_RUN.", {"run_duration": "microseconds"}),
    Struct("rknn_sdk_version", rknn_api.SdkVersion, about="RKNN_QUERY_SDK_VERSION."),
    Struct(
        "rknn_mem_size", rknn_api.MemSize, {}, "RKNN_QUERY_MEM_SIZE: bytes.",
        {"total_internal_size": "without inputs and outputs"},
    ),
    Struct("rknn_custom_string", rknn_api.CustomString, about="RKNN_QUERY_CUSTOM_STRING."),
    TENSOR_STRUCTS[1],
    Struct(
        "rknn_input", rknn_api.InputStruct, {"type": "rknn_tensor_type", "fmt": "rknn_tensor_format"},
        "For rknn_inputs_set.", {"size": "bytes", "pass_through": "1: the bytes go in as they are"},
    ),
    Struct(
        "rknn_output", rknn_op.OutputStruct, {}, "For rknn_outputs_get.",
        {"want_float": "1: converted to float32", "is_prealloc": "1: buf and size are the caller's", "size": "bytes"},
    ),
    Struct(
        "rknn_init_extend", rknn_api.InitExtend, {"ctx": "rknn_context"}, "Extras of rknn_init.",
        {"ctx": "whose weights RKNN_FLAG_SHARE_WEIGHT_MEM takes"},
    ),
    Struct(
        "rknn_run_extend", rknn_api.RunExtend, {}, "Extras of rknn_run and rknn_wait.",
        {"frame_id": "out", "non_block": "0: wait for the result", "timeout_ms": "milliseconds"},
    ),
    Struct("rknn_output_extend", rknn_api.OutputExtend, {}, "Extras of rknn_outputs_get.", {"frame_id": "out"}),
)  # fmt: skip

ERRORS = Constants({row.name: row.code for row in RKNNRT_CODES}, "What the functions answer.")
_QUERY = Enum(
    "rknn_query_cmd",
    {
        **members_of(rknn_api.Query, "RKNN_QUERY_"),
        "RKNN_QUERY_NATIVE_NC1HWC2_INPUT_ATTR": int(rknn_api.Query.NATIVE_INPUT_ATTR),
        "RKNN_QUERY_NATIVE_NC1HWC2_OUTPUT_ATTR": int(rknn_api.Query.NATIVE_OUTPUT_ATTR),
        "RKNN_QUERY_CMD_MAX": max(rknn_api.Query) + 1,
    },
    "What rknn_query is asked.",
)
TENSOR_ENUMS = (
    Enum(
        "rknn_tensor_type",
        {**members_of(DType, "RKNN_TENSOR_"), "RKNN_TENSOR_TYPE_MAX": max(DType) + 1},
        "Element types.",
    ),
    Enum(
        "rknn_tensor_qnt_type",
        {
            **members_of(rknn_api.QntType, "RKNN_TENSOR_QNT_"),
            "RKNN_TENSOR_QNT_MAX": max(rknn_api.QntType) + 1,
        },
        "How a tensor is quantised.",
    ),
    Enum(
        "rknn_tensor_format",
        {**members_of(Layout, "RKNN_TENSOR_"), "RKNN_TENSOR_FORMAT_MAX": max(Layout) + 1},
        "Order of the dimensions.",
    ),
)
_ENUMS = (
    _QUERY,
    *TENSOR_ENUMS,
    Enum(
        "rknn_core_mask",
        {
            **{
                f"RKNN_NPU_{'CORE_' if name in ('AUTO', 'ALL') else ''}{name}": value
                for name, value in members_of(rknn_api.CoreMask).items()
            },
            "RKNN_NPU_CORE_UNDEFINED": rknn_api.CoreMask.ALL + 1,
        },
        "Cores of the NPU that a context may use.",
    ),
    Enum(
        "rknn_tensor_mem_flags",
        members_of(rknn_api.MemSource, "RKNN_TENSOR_MEMORY_FLAGS_"),
        "Where memory came from.",
    ),
    Enum(
        "rknn_mem_alloc_flags",
        {
            f"RKNN_FLAG_MEMORY_{_ALLOCATION.get(name, name)}": value
            for name, value in members_of(rknn_api.MemAlloc).items()
            if name != "NO_CONTEXT"
        },
        "For rknn_create_mem2.",
    ),
    Enum(
        "rknn_mem_sync_mode",
        members_of(rknn_api.MemSync, "RKNN_MEMORY_SYNC_"),
        "Directions of rknn_mem_sync.",
    ),
)

_FUNCTIONS = (
    Function(
        "int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flag, rknn_init_extend *extend)",
        "Opens a model in memory, or with size 0 the file whose path model points to. extend may be NULL.",
    ),
    Function(
        "int rknn_dup_context(rknn_context *context_in, rknn_context *context_out)",
        "A second context of the same model; the weights are shared.",
    ),
    Function("int rknn_destroy(rknn_context context)", "Closes a context; destroy its memory first."),
    Function(
        "int rknn_query(rknn_context context, rknn_query_cmd cmd, void *info, uint32_t size)",
        "Fills the structure of the command; size is its sizeof.",
    ),
    Function(
        "int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input inputs[])",
        "Copies the inputs in, converted unless pass_through is 1.",
    ),
    Function(
        "int rknn_set_batch_core_num(rknn_context context, int core_num)",
        "How many cores share the frames of a batch.",
    ),
    Function("int rknn_set_core_mask(rknn_context context, rknn_core_mask core_mask)"),
    Function("int rknn_run(rknn_context context, rknn_run_extend *extend)", "One frame; extend may be NULL."),
    Function(
        "int rknn_wait(rknn_context context, rknn_run_extend *extend)", "Waits for a run that did not block."
    ),
    Function(
        "int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output outputs[], "
        "rknn_output_extend *extend)",
        "The results of the last frame; give them back with rknn_outputs_release. extend may be NULL.",
    ),
    Function("int rknn_outputs_release(rknn_context context, uint32_t n_ouputs, rknn_output outputs[])"),
    Function(
        "rknn_tensor_mem *rknn_create_mem_from_phys(rknn_context ctx, uint64_t phys_addr, void *virt_addr, "
        "uint32_t size)",
        "The caller's memory by its physical address; NULL when that fails, here and below.",
    ),
    Function(
        "rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context ctx, int32_t fd, void *virt_addr, uint32_t size, "
        "int32_t offset)",
        "The caller's memory by its descriptor; virt_addr is where the descriptor's memory begins.",
    ),
    Function("rknn_tensor_mem *rknn_create_mem_from_mb_blk(rknn_context ctx, void *mb_blk, int32_t offset)"),
    Function("rknn_tensor_mem *rknn_create_mem(rknn_context ctx, uint32_t size)"),
    Function(
        "rknn_tensor_mem *rknn_create_mem2(rknn_context ctx, uint64_t size, uint64_t alloc_flags)",
        "With rknn_mem_alloc_flags; ctx may be 0 with RKNN_MEM_FLAG_ALLOC_NO_CONTEXT.",
    ),
    Function("int rknn_destroy_mem(rknn_context ctx, rknn_tensor_mem *mem)"),
    Function("int rknn_set_weight_mem(rknn_context ctx, rknn_tensor_mem *mem)"),
    Function("int rknn_set_internal_mem(rknn_context ctx, rknn_tensor_mem *mem)"),
    Function(
        "int rknn_set_io_mem(rknn_context ctx, rknn_tensor_mem *mem, rknn_tensor_attr *attr)",
        "Binds memory to an input or output, once for all runs.",
    ),
    Function(
        "int rknn_set_input_shape(rknn_context ctx, rknn_tensor_attr *attr)",
        "Old; use rknn_set_input_shapes.",
    ),
    Function(
        "int rknn_set_input_shapes(rknn_context ctx, uint32_t n_inputs, rknn_tensor_attr attr[])",
        "Chooses one of the shapes of a model with dynamic shapes, for all inputs.",
    ),
    Function("int rknn_mem_sync(rknn_context context, rknn_tensor_mem *mem, rknn_mem_sync_mode mode)"),
)

HANDLE = Text(
    """
#if UINTPTR_MAX > 0xffffffffu
typedef uint64_t rknn_context;
#else
typedef uint32_t rknn_context;
#endif
"""
)

API = Header(
    "rknn_api.h",
    "The C API of librknnrt (2.3.2): models. Declarations of rknnlite's own; the layouts are the vendor's.",
    ("<stdint.h>",),
    (
        Constants(_FLAGS, "Flags of rknn_init, and the last one of rknn_create_mem2.", hexadecimal=True),
        ERRORS,
        Constants(
            {
                "RKNN_MAX_DIMS": rknn_op.MAX_DIMS,
                "RKNN_MAX_NUM_CHANNEL": rknn_api.MAX_CHANNELS,
                "RKNN_MAX_NAME_LEN": rknn_op.MAX_NAME,
                "RKNN_MAX_DYNAMIC_SHAPE_NUM": rknn_api.MAX_DYNAMIC_SHAPES,
            },
            "Limits.",
        ),
        HANDLE,
        *_ENUMS,
        strings(
            "get_type_string", "rknn_tensor_type", {f"RKNN_TENSOR_{kind.name}": kind.short for kind in DType}
        ),
        strings(
            "get_qnt_type_string",
            "rknn_tensor_qnt_type",
            {f"RKNN_TENSOR_QNT_{kind.name}": kind.name.split("_")[0] for kind in rknn_api.QntType},
        ),
        strings(
            "get_format_string",
            "rknn_tensor_format",
            {f"RKNN_TENSOR_{kind.name}": kind.name for kind in Layout},
        ),
        *_STRUCTS,
        *_FUNCTIONS,
    ),
)
