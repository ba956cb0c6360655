"""``rkllm.h`` of librkllmrt, one for each layout from 1.1 on, written from the tables of ``rknnlite_rkllm.abi``."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Iterator

from rknnlite_rkllm.abi.revisions import REVISIONS, Revision

from .parts import Constants, Enum, Function, Header, Part, Struct, Text, members_of

__all__ = ["RKLLM"]

_HANDLE = Text("typedef void *LLMHandle;")
_CALLBACK = Text(
    """
/* {about} */
typedef {answer} (*LLMResultCallback)(RKLLMResult *result, void *userdata, LLMCallState state);
"""
)
_PROGRAM_CALLBACKS = Text(
    """
/* Of models without a tokenizer or without embeddings. The number of tokens; 0 or less: it failed. */
typedef int (*LLMTokenizerCallback)(void *userdata, const char *text, int32_t text_len, int32_t *tokens,
                                    int32_t n_tokens_max);

/* float32; len in bytes. 0: well. */
typedef int (*LLMGetEmbedCallback)(void *userdata, int32_t *tokens, uint64_t num_tokens, void *embed, uint64_t len);

/* Keep it until rkllm_destroy. */
typedef struct _RKLLMCallback {
    LLMResultCallback result_callback;
    void *result_userdata; /* where a run brings none */
    LLMTokenizerCallback tokenizer_callback;
    void *tokenizer_userdata;
    LLMGetEmbedCallback embed_callback;
    void *embed_userdata;
} RKLLMCallback;
"""
)
_OLD_NAME = Text("/* Its name before 1.2.3. */\ntypedef RKLLMMultiModalInput RKLLMMultiModelInput;")
_ABOUT = {
    "RKLLMEmbedInput": "float32 (n_tokens, hidden size).",
    "RKLLMCrossAttnParam": "float32 keys (layers, tokens, KV heads, head size), values (layers, KV heads, head size, tokens).",
    "RKLLMPerfStat": "Filled with the end of a run.",
    "RKLLMInput": "With n_batch an array of so many.",
    "RKLLMSamplingParam": "All nine values, for one run.",
    "RKLLMPromptCacheParam": "Where the keys and values of a run are saved at its end.",
}
_PUBLIC = {"RKLLMMultiModalInput_image": "RKLLMImageInput", "RKLLMMultiModalInput_video": "RKLLMVideoInput"}
"""Structures that have no name in the vendor's header; these are ours."""
_ENUM_MEMBERS = {"input_type": "RKLLMInputType", "mode": "RKLLMInferMode"}
_RUN = "LLMHandle handle, RKLLMInput *rkllm_input, RKLLMInferParam *rkllm_infer_params, void *userdata"
_FUNCTIONS = {
    "rkllm_createDefaultParam": Function("RKLLMParam rkllm_createDefaultParam(void)", ""),
    "rkllm_load_lora": Function("int rkllm_load_lora(LLMHandle handle, RKLLMLoraAdapter *lora_adapter)", "For the runs that name it."),
    "rkllm_load_prompt_cache": Function("int rkllm_load_prompt_cache(LLMHandle handle, const char *prompt_cache_path)", ""),
    "rkllm_release_prompt_cache": Function("int rkllm_release_prompt_cache(LLMHandle handle)", ""),
    "rkllm_destroy": Function("int rkllm_destroy(LLMHandle handle)", ""),
    "rkllm_run": Function(f"int rkllm_run({_RUN})", "Returns when the end was told."),
    "rkllm_run_async": Function(f"int rkllm_run_async({_RUN})", "The callback comes from another thread."),
    "rkllm_abort": Function("int rkllm_abort(LLMHandle handle)", "-1 without a run."),
    "rkllm_set_chat_template": Function(
        "int rkllm_set_chat_template(LLMHandle handle, const char *system_prompt, const char *prompt_prefix, "
        "const char *prompt_postfix)",
        "Three empty texts: prompts are taken as they are. The cache is cleared.",
    ),
    "rkllm_get_kv_cache_size": Function(
        "int rkllm_get_kv_cache_size(LLMHandle handle, int *cache_sizes)", "n_batch numbers."
    ),
    "rkllm_set_function_tools": Function(
        "int rkllm_set_function_tools(LLMHandle handle, const char *system_prompt, const char *tools, "
        "const char *tool_response_str)",
        "tools: a JSON list.",
    ),
    "rkllm_set_cross_attn_params": Function(
        "int rkllm_set_cross_attn_params(LLMHandle handle, RKLLMCrossAttnParam *cross_attn_params)", ""
    ),
}  # fmt: skip


def _number(version: str) -> int:
    """``1.2.1b1`` -> 10200: a beta is what it changes the version before into."""
    major, minor, patch = version.partition("b")[0].split(".")
    return int(major) * 10000 + int(minor) * 100 + int(patch) - ("b" in version)


def _parts(abi: Revision) -> Iterator[Part]:
    version = abi.versions[-1]
    yield Constants({"RKLLM_HEADER_VERSION": _number(version)}, f"Of {abi.known_as}; rknnlite's own.")
    if "b" in version:
        yield Constants({"RKLLM_HEADER_BETA": 1})
    yield _HANDLE
    yield Enum("LLMCallState", members_of(abi.LLMCallState, "RKLLM_RUN_"))
    yield Enum("RKLLMInputType", members_of(abi.RKLLMInputType, "RKLLM_INPUT_"))
    yield Enum("RKLLMInferMode", members_of(abi.RKLLMInferMode, "RKLLM_INFER_"))
    for name, struct in abi.structs.items():
        if name in ("RKLLMInput_u", "RKLLMCallback"):
            continue
        names = {member for member, _ in struct._fields_}
        words = {member: word for member, word in _ENUM_MEMBERS.items() if member in names}
        words |= {member: "size_t" for member, kind in struct._fields_ if kind is ct.c_size_t}
        anonymous = frozenset({"u"} & names)
        yield Struct(_PUBLIC.get(name, name), struct, words, _ABOUT.get(name, ""), anonymous=anonymous)
    yield _OLD_NAME
    yield from _callbacks(abi)
    yield from _functions(abi)


def _callbacks(abi: Revision) -> Iterator[Part]:
    about = "The result, and what it points to, is there until it returns."
    if abi.callback_returns:
        last = "2 frees rows of hidden states or logits, " if len(abi.callback_returns) > 2 else ""
        about += f" 0 goes on, 1 pauses the run: the next one goes on with it; {last}see the manual."
    yield Text(_CALLBACK.code.format(about=about, answer="int" if abi.callback_returns else "void"))
    if abi.RKLLMCallback is not None:
        yield _PROGRAM_CALLBACKS


def _functions(abi: Revision) -> Iterator[Part]:
    callback = "LLMResultCallback callback" if abi.RKLLMCallback is None else "RKLLMCallback *callback"
    init = Function(
        f"int rkllm_init(LLMHandle *handle, RKLLMParam *param, {callback})", "0, or -1, as all of them."
    )
    positions = (
        ", int *start_pos, int *end_pos"
        if len(abi.functions.get("rkllm_clear_kv_cache", _FEW).argtypes) > 2
        else ""
    )
    clear = Function(f"int rkllm_clear_kv_cache(LLMHandle handle, int keep_system_prompt{positions})", "")
    running = "1: a run is under way." if abi.RKLLMCallback is not None else "0: a run is under way."
    asked = Function("int rkllm_is_running(LLMHandle handle)", running)
    own = {"rkllm_init": init, "rkllm_clear_kv_cache": clear, "rkllm_is_running": asked}
    yield from ((own | _FUNCTIONS)[name] for name in abi.exports)


_FEW = REVISIONS["1.1.0"].functions["rkllm_abort"]
RKLLM = {
    abi.versions[-1]: Header(
        "rkllm.h",
        f"The C API of librkllmrt ({abi.known_as}). Declarations of rknnlite's own; the layouts are the vendor's.",
        ("<stdbool.h>", "<stddef.h>", "<stdint.h>"),
        tuple(_parts(abi)),
    )
    for abi in REVISIONS.values()
    if abi.RKLLMInput is not None
}
"""Version -> its header."""
