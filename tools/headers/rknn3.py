"""``rknn3_api.h``, in the revision 1.0.0, and ``float16.h``, which it includes."""

from __future__ import annotations

from rknnlite.abi import rknn3_enums as numbers
from rknnlite.abi.rknn3_types import Float16

from .parts import Function, Header, Text, strings
from .rknn3_enums import CONSTANTS, ENUMS, OP_ENUMS
from .rknn3_structs import HANDLE, LLM, OPERATORS, TENSORS, TYPES

__all__ = ["API3", "FLOAT16", "OP3"]

_SHORT = {"FLOAT32": "FP32", "FLOAT16": "FP16"}
_FEEDS = "const rknn3_tensor inputs[], uint32_t n_inputs, rknn3_tensor outputs[], uint32_t n_outputs"


def _cut(name: str, prefix: str = "RKNN3_TENSOR_") -> str:
    return name[len(prefix) :]


_STRINGS = (
    strings(
        "rknn3_get_type_string",
        "rknn3_tensor_type",
        {  # the vendor's function does not know UINT64
            name: _SHORT.get(_cut(name), _cut(name))
            for name in numbers.RKNN3TensorType.__members__
            if not name.endswith(("_MAX", "_UINT64"))
        },
    ),
    strings(
        "rknn3_get_qnt_type_string",
        "rknn3_tensor_qnt_type",
        {
            name: _cut(name).replace("QNT_", "")
            for name in numbers.RKNN3TensorQntType.__members__
            if not name.endswith("_MAX")
        },
        "UNKNOWN",
    ),
    strings(
        "rknn3_get_layout_string",
        "rknn3_tensor_layout",
        {name: _cut(name) for name in numbers.RKNN3TensorLayout.__members__ if not name.endswith("_MAX")},
    ),
)

_QUERY = Function(
    "int rknn3_query(rknn3_context context, rknn3_query_cmd cmd, void *info, uint64_t size)",
    "Fills the structure of the command; size is its sizeof.",
)
_MODELS = (
    Function(
        "int rknn3_init(rknn3_context *context, rknn3_init_extend *init_extend)",
        "An empty context; NULL: on the only device.",
    ),
    Function(
        "int rknn3_load_model_from_path(rknn3_context context, const char *model_path, const char *weight_path)",
        "weight_path may be NULL.",
    ),
    Function(
        "int rknn3_load_model_from_data(rknn3_context context, const void *model_data, uint64_t model_size, "
        "const void *weight_data, uint64_t weight_size)"
    ),
    Function("int rknn3_model_init(rknn3_context context, rknn3_config *config)"),
    Function("int rknn3_dup_context(rknn3_context context_in, rknn3_context *context_out)"),
    Function("int rknn3_destroy(rknn3_context context)"),
    _QUERY,
    Function(f"int rknn3_run(rknn3_context context, {_FEEDS})"),
    Function(f"int rknn3_run_async(rknn3_context context, {_FEEDS})", "Then rknn3_wait."),
    Function("int rknn3_wait(rknn3_context context)"),
    Function(
        "rknn3_tensor_mem *rknn3_create_mem_from_phys(rknn3_context context, uint64_t phys_addr, void *virt_addr, "
        "uint64_t size)",
        "NULL when that fails, here and below.",
    ),
    Function(
        "rknn3_tensor_mem *rknn3_create_mem_from_fd(rknn3_context context, int32_t fd, void *virt_addr, "
        "uint64_t size, uint64_t offset)"
    ),
    Function(
        "rknn3_tensor_mem *rknn3_create_mem(rknn3_context context, uint64_t size, int32_t core_id, "
        "rknn3_mem_alloc_flags flags)"
    ),
    Function("int rknn3_destroy_mem(rknn3_context context, rknn3_tensor_mem *mem)"),
    Function("int rknn3_mem_sync(rknn3_context context, rknn3_tensor_mem *mem, rknn3_mem_sync_mode mode)"),
    Function("int rknn3_set_shape(rknn3_context context, int32_t shape_id)"),
    Function(
        "int rknn3_set_kvcache_mem(rknn3_context context, rknn3_tensor_mem *mem[], int *npu_core_indices, int n_core)"
    ),
    Function("int rknn3_set_internal_mem(rknn3_context context, rknn3_tensor_mem *mem[], uint32_t n_core)"),
    Function(
        f"int rknn3_dump_features(rknn3_context context, {_FEEDS}, const char *dump_dir)",
        "Every layer's output as .npy.",
    ),
    Function("int rknn3_find_devices(rknn3_devices *pdevs)"),
    Function(f"int rknn3_profile_ops(rknn3_context context, {_FEEDS}, uint32_t log_level)"),
    Function("int rknn3_profile_mem(rknn3_context context)"),
    Function(
        "int rknn3_register_custom_ops_plugins(rknn3_context ctx, const char *plugin_path, int64_t size)",
        "A plugin for the coprocessor.",
    ),
    Function(
        "int rknn3_im_mem_create(rknn3_context context, int32_t width, int32_t height, rknn3_im_fmt format, "
        "int32_t size, int32_t core_id, rknn3_mem_alloc_flags flags, rknn3_im_mem *im_mem)"
    ),
    Function("int rknn3_im_mem_destroy(rknn3_context context, rknn3_im_mem *im_mem)"),
    Function("int rknn3_im_cvt_color(rknn3_context context, rknn3_im_mem *src, rknn3_im_mem *dst)"),
)
_SESSIONS = (
    Function(
        "rknn3_session *rknn3_session_init(rknn3_context context, rknn3_llm_param *params, int n_params)",
        "NULL when that fails.",
    ),
    Function("int rknn3_session_enable_lora(rknn3_session *session, rknn3_lora *lora)"),
    Function("int rknn3_session_disable_lora(rknn3_session *session, rknn3_lora *lora)"),
    Function("int rknn3_session_query_lora(rknn3_session *session, rknn3_lora **lora, int *n_lora)"),
    Function(
        "int rknn3_session_set_kvcache_policy(rknn3_session *session, rknn3_kvcache_policy policy, "
        "rknn3_kvcache_policy_param *param)"
    ),
    Function("int rknn3_session_clear_kvcache(rknn3_session *session, rknn3_kvcache_clear_policy clear)"),
    Function(
        "int rknn3_session_load_kvcache(rknn3_session *session, const char *kvcache_path, int64_t size)"
    ),
    Function("int rknn3_session_save_kvcache(rknn3_session *session, char *kvcache_path)"),
    Function("int rknn3_session_query_state(rknn3_session *session, RKLLMRunState *state)"),
    Function(
        "int rknn3_session_set_chat_template(rknn3_session *session, const char *system_prompt, "
        "const char *prompt_prefix, const char *prompt_postfix)"
    ),
    Function(
        "int rknn3_session_set_callback(rknn3_session *session, RKLLMCallback *callback)",
        "The functions must live as long as the session.",
    ),
    Function(
        "int rknn3_session_run(rknn3_session *session, rknn3_llm_input inputs[], uint32_t n_inputs, "
        "rknn3_llm_infer_param *param)"
    ),
    Function(
        "int rknn3_session_run_async(rknn3_session *session, rknn3_llm_input inputs[], uint32_t n_inputs, "
        "rknn3_llm_infer_param *param)"
    ),
    Function("int rknn3_session_stop(rknn3_session *session)"),
    Function("int rknn3_session_destroy(rknn3_session *session)", "Before rknn3_destroy."),
    Function("int rknn3_session_set_function_tools(rknn3_session *session, const char *tools)", "JSON."),
    Function(
        "int rknn3_session_set_llm_param(rknn3_session *session, rknn3_llm_param *params, int n_params)"
    ),
)

FLOAT16 = Header(
    "float16.h",
    "IEEE half precision as its 16 bits.",
    ("<stdint.h>",),
    (Text("typedef uint16_t float16;"),),
    aliases={Float16: "float16"},
)
API3 = Header(
    "rknn3_api.h",
    "The C API of librknn3_api (1.0.0). Declarations of rknnlite's own; the layouts are the vendor's.",
    ("<stdbool.h>", "<stdint.h>", '"float16.h"'),
    (*CONSTANTS, HANDLE, *ENUMS, *_STRINGS, *TENSORS, *TYPES, *LLM, *OPERATORS, *_MODELS, *_SESSIONS),
    others=(FLOAT16,),
)
OP3 = Header(
    "rknn3_op.h",
    "What a post-process plugin needs of the C API of librknn3_api (1.0.0), in one file; instead of rknn3_api.h, not "
    "beside it. Declarations of rknnlite's own; the layouts are the vendor's.",
    ("<stdint.h>",),
    (HANDLE, *OP_ENUMS, *TENSORS, *OPERATORS, _QUERY),
)
