"""Structures and callback types of ``rknn3_api.h``: the C names of ``rknnlite.abi.rknn3_types``, ``rknn3_llm`` and ``rknn3_op``."""

from __future__ import annotations

from rknnlite_backend.abi import rknn3_op as op

from rknnlite.abi import rknn3_llm as llm
from rknnlite.abi import rknn3_types as types

from .parts import Function, Struct, Text

__all__ = ["HANDLE", "LLM", "OPERATORS", "TENSORS", "TYPES"]

HANDLE = Text(
    """
#if UINTPTR_MAX > 0xffffffffu
typedef uint64_t rknn3_context;
#else
typedef uint32_t rknn3_context;
#endif
"""
)
_INTS = dict.fromkeys(("x", "y", "width", "height"), "int")

TENSORS = (
    Struct("rknn3_input_output_num", types.RKNN3InputOutputNum, about="RKNN3_QUERY_IN_OUT_NUM."),
    Struct("rknn3_quant_info", types.RKNN3QuantInfo),
    Struct(
        "rknn3_tensor_attr", types.RKNN3TensorAttr,
        {"dtype": "rknn3_tensor_type", "layout": "rknn3_tensor_layout", "qnt_type": "rknn3_tensor_qnt_type"},
        "An input or output.",
        {
            "index": "set it before rknn3_query", "aligned_size": "bytes to allocate",
            "core_id": "where rknn3_create_mem puts it",
        },
    ),
    Struct("rknn3_tensor_mem", types.RKNN3TensorMemory, {"mem_type": "rknn3_mem_type"}, tag="_rknn3_tensor_memory"),
    Struct("rknn3_tensor", types.RKNN3Tensor, about="Memory, and what lies in it."),
)  # fmt: skip
"""What plugins need too."""
TYPES = (
    Struct("rknn3_sdk_version", types.RKNN3SDKVersion, about="RKNN3_QUERY_SDK_VERSION."),
    Struct("rknn3_core_mem_size", types.RKNN3CoreMemSize, about="RKNN3_QUERY_CORE_MEM_SIZE, one per core: bytes."),
    Struct("rknn3_custom_string", types.RKNN3CustomString),
    Struct("rknn3_im_rect", types.RKNN3ImRect, _INTS),
    Struct("rknn3_im_metadata", types.RKNN3ImMetadata),
    Struct(
        "rknn3_im_mem", types.RKNN3ImMem,
        {"width": "int", "height": "int", "stride": "int", "format": "rknn3_im_fmt"}, "An image.", {"stride": "bytes"},
    ),
    Struct("rknn3_config", types.RKNN3Config, {}, "For rknn3_model_init.", {"run_timeout": "milliseconds, 0: none"}),
    Struct("rknn3_allocation_info", types.RKNN3AllocationInfo, about="RKNN3_QUERY_ALLOCATION_INFO, one per core."),
    Struct(
        "rknn3_shape_info", types.RKNN3ShapeInfo, {}, "RKNN3_QUERY_DYNAMIC_SHAPE_INFO, one per shape.",
        {"input_attrs": "the caller's array", "output_attrs": "the caller's array"},
    ),
    Struct(
        "rknn3_shape_config", types.RKNN3ShapeConfig, {}, "RKNN3_QUERY_DYNAMIC_SHAPE_CONFIG.",
        {"current_shape_id": "-1: none"},
    ),
    Struct(
        "rknn3_init_extend", types.RKNN3InitExtend, {"device_id": "char *"}, "Extras of rknn3_init.",
        {"device_id": "NULL: the only device"},
    ),
    Struct("rknn3_node_mem_info", types.RKN3NodeMemInfo, about="Bytes."),
    Struct("rknn3_dev_mem_info", types.RKNN3DevMemInfo, about="Bytes."),
    Struct("rknn3_device", types.RKNN3Device),
    Struct("rknn3_devices", types.RKNN3Devices, about="What rknn3_find_devices finds."),
)  # fmt: skip

_CALLBACKS = (
    Function(
        "typedef int (*LLMResultCallback)(void *userdata, RKLLMResult *result, LLMCallState state)",
        "0 goes on.",
    ),
    Function(
        "typedef int (*LLMSamplingCallback)(void *userdata, float16 *logits, char *logits_name)",
        "The token's number, or a negative error.",
    ),
    Function(
        "typedef int (*LLMTokenizerCallback)(void *userdata, const char *text, int32_t text_len, int32_t *tokens, "
        "int32_t n_tokens_max)",
        "How many tokens it wrote, or a negative error.",
    ),
    Function(
        "typedef int (*LLMGetEmbedCallback)(void *userdata, int32_t *tokens, uint64_t num_tokens, void *embed, "
        "uint64_t len)",
        "Fills num_tokens rows of float16; len is the number of bytes.",
    ),
    Function(
        "typedef int (*LLMOutputCallback)(void *userdata, rknn3_tensor *output_tensors, uint32_t n_output_tensors, "
        "LLMOutputCallbackState state)",
        "0 goes on.",
    ),
)

LLM = (
    Text("typedef void rknn3_session;"),
    Text("typedef rknn3_tensor rknn3_aux_tensor;"),
    Struct(
        "rknn3_llm_config", llm.RKNN3LLMConfig,
        {
            "chat_template": "char *", "model_type": "char *", "task_type": "rknn3_llm_task_type",
            "kvcache_store_method": "rknn3_kvcache_store_method", "kvcache_dtype": "rknn3_kvcache_dtype",
        },
        "RKNN3_QUERY_LLM_CONFIG.",
    ),
    Struct(
        "rknn3_vocab_info", llm.RKNN3VocabInfo,
        {
            name: "int"
            for name, *_ in llm.RKNN3VocabInfo._fields_
            if not name.endswith("_token") and name != "reserved"
        },
    ),
    Struct("rknn3_llm_extend_param", llm.RKNN3LLMExtendParam),
    Struct("rknn3_sampling_params", llm.RKNN3SamplingParams),
    Struct(
        "rknn3_llm_param", llm.RKNN3LLMParam, {"logits_name": "char *"}, "One per output of logits.",
        {"logits_name": "NULL where there is one"},
    ),
    Struct("rknn3_lora", llm.RKNN3Lora),
    Struct("rknn3_kvcache_recurrent", llm.RECURRENT),
    Struct("rknn3_kvcache_policy_param", llm.RKNN3KVCachePolicyParam),
    Struct("rknn3_llm_image", llm.RKNN3Image),
    Struct("rknn3_llm_audio", llm.RKNN3Audio),
    Struct("rknn3_llm_video", llm.RKNN3Video),
    Struct(
        "rknn3_llm_multimodal_tensor", llm.RKNN3LLMMultiModelTensor, notes={"prompt": "counts before tokens"}
    ),
    Struct("rknn3_llm_tensor", llm.RKNN3LLMTensor, notes={"embed": "n_tokens rows"}),
    Struct(
        "rknn3_llm_input", llm.RKNN3LLMInput, {"input_type": "rknn3_llm_input_type"},
        notes={"role": "user or tool"}, anonymous=frozenset({"input_union"}),
    ),
    Struct(
        "rknn3_llm_infer_param", llm.RKNN3LLMInferParam, {"keep_history": "int"},
        notes={"keep_history": "1: keep it"},
    ),
    Struct("RKLLMResult", llm.RKLLMResult, {"token_ids": "int *", "num_tokens": "int"}),
    *_CALLBACKS,
    Struct(
        "RKLLMCallback", llm.RKLLMCallback,
        {
            "result_callback": "LLMResultCallback", "sampling_callback": "LLMSamplingCallback",
            "tokenizer_callback": "LLMTokenizerCallback", "embed_callback": "LLMGetEmbedCallback",
            "output_callback": "LLMOutputCallback",
        },
        notes={"output_tensors": "the caller's, to be filled"},
    ),
    Struct("RKLLMRunState", llm.RKLLMRunState, {"kvcache_policy": "rknn3_kvcache_policy"}),
)  # fmt: skip

_IO = "rknn3_tensor *inputs, uint32_t n_inputs, rknn3_tensor *outputs, uint32_t n_outputs"
_ATTRS = (
    "rknn3_tensor_attr *input_attrs, uint32_t n_inputs, rknn3_tensor_attr *output_attrs, uint32_t n_outputs"
)
_OP_CALLBACKS = {"init": "init", "prepare": "io", "compute": "io", "deinit": "deinit",
                 "get_output_num": "get_output_num", "get_attrs": "get_attrs"}  # fmt: skip

OPERATORS = (
    Struct(
        "rknn3_custom_op_context", op.RKNN3CustomOpContext, {"rknn_ctx": "rknn3_context"}, "What every callback gets.",
        {"priv_data": "the library's", "user_data": "the plugin's own"},
    ),
    Function("typedef int (*rknn3_custom_op_init_cb)(rknn3_custom_op_context *op_ctx)", "Optional."),
    Function(
        f"typedef int (*rknn3_custom_op_io_cb)(rknn3_custom_op_context *op_ctx, {_IO})",
        "prepare is optional, compute is needed.",
    ),
    Function("typedef int (*rknn3_custom_op_deinit_cb)(rknn3_custom_op_context *op_ctx)", "Optional."),
    Function(
        "typedef int (*rknn3_custom_op_get_output_num_cb)(rknn3_custom_op_context *op_ctx)",
        "The number of outputs, for post-processing.",
    ),
    Function(
        f"typedef int (*rknn3_custom_op_get_attrs_cb)(rknn3_custom_op_context *op_ctx, {_ATTRS})",
        "Fills the attributes of the outputs, for post-processing.",
    ),
    Struct(
        "rknn3_custom_op", op.RKNN3CustomOp,
        {
            "plugin_type": "rknn3_op_plugin_type", "target": "rknn3_op_target_type",
            **{name: f"rknn3_custom_op_{kind}_cb" for name, kind in _OP_CALLBACKS.items()},
        },
        "A plugin's operator.",
    ),
    Function(
        "typedef rknn3_custom_op *(*rknn3_register_custom_op_func)(int op_index)",
        f"What a plugin exports under the name {op.REGISTER_FUNCTION}; NULL past the last operator.",
    ),
)  # fmt: skip
