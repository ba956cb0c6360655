/* What is set on a model between its runs: template, tools, adapters, caches. */
#include "rkllm_client.h"

#include <stdlib.h>
#include <string.h>

PUBLIC int rkllm_load_lora(LLMHandle handle, RKLLMLoraAdapter *lora_adapter)
{
    struct talk talk = {.function = "rkllm_load_lora", .call = CALL_LLM_LORA};
    struct pack pack = {0};
    if (!lora_adapter || !lora_adapter->lora_adapter_path || !lora_adapter->lora_adapter_name)
        return failed(talk.function, FAILED, "the adapter, its path or its name is NULL");
    pack_path(&pack, lora_adapter->lora_adapter_path);
    pack_text(&pack, lora_adapter->lora_adapter_name);
    pack_real(&pack, lora_adapter->scale);
    return model_tell(handle, &talk, &pack);
}

PUBLIC int rkllm_load_prompt_cache(LLMHandle handle, const char *prompt_cache_path)
{
    struct talk talk = {.function = "rkllm_load_prompt_cache", .call = CALL_LLM_LOAD};
    struct pack pack = {0};
    if (!prompt_cache_path)
        return failed(talk.function, FAILED, "the path is NULL");
    pack_path(&pack, prompt_cache_path);
    return model_tell(handle, &talk, &pack);
}

PUBLIC int rkllm_release_prompt_cache(LLMHandle handle)
{
    struct talk talk = {.function = "rkllm_release_prompt_cache", .call = CALL_LLM_RELEASE};
    struct pack pack = {0};
    return model_tell(handle, &talk, &pack);
}

#ifdef HAS_HISTORY
PUBLIC int rkllm_set_chat_template(LLMHandle handle, const char *system_prompt, const char *prompt_prefix,
                                   const char *prompt_postfix)
{
    struct talk talk = {.function = "rkllm_set_chat_template", .call = CALL_LLM_TEMPLATE};
    struct pack pack = {0};
    pack_text(&pack, system_prompt);
    pack_text(&pack, prompt_prefix);
    pack_text(&pack, prompt_postfix);
    return model_tell(handle, &talk, &pack);
}

static int clear(LLMHandle handle, int keep_system_prompt)
{
    struct talk talk = {.function = "rkllm_clear_kv_cache", .call = CALL_LLM_CLEAR, .args = {keep_system_prompt != 0}};
    struct pack pack = {0};
    return model_tell(handle, &talk, &pack);
}
#endif

#ifdef HAS_ROLES
static int cut(LLMHandle handle, const int *start_pos, const int *end_pos)
{
    struct talk talk = {.function = "rkllm_clear_kv_cache", .call = CALL_LLM_CUT};
    struct pack pack = {0};
    int count = model_batch(handle, NULL);
    if (!start_pos || !end_pos)
        return failed(talk.function, FAILED, "start_pos and end_pos go together");
    for (int i = 0; i < count; i++) {
        pack_number(&pack, (uint64_t)(int64_t)start_pos[i]);
        pack_number(&pack, (uint64_t)(int64_t)end_pos[i]);
    }
    return model_tell(handle, &talk, &pack);
}

PUBLIC int rkllm_clear_kv_cache(LLMHandle handle, int keep_system_prompt, int *start_pos, int *end_pos)
{
    return start_pos || end_pos ? cut(handle, start_pos, end_pos) : clear(handle, keep_system_prompt);
}

PUBLIC int rkllm_get_kv_cache_size(LLMHandle handle, int *cache_sizes)
{
    struct talk talk = {.function = "rkllm_get_kv_cache_size", .call = CALL_LLM_SIZES};
    int code = 0, count = model_batch(handle, NULL);
    if (!count)
        return model_unknown(talk.function, handle);
    if (!cache_sizes)
        return failed(talk.function, FAILED, "cache_sizes is NULL");
    struct channel *channel = channel_take(talk.function, model_id(handle), &code);
    if (!channel)
        return code;
    code = channel_talk(channel, &talk) ? FAILED : 0;
    if (!code && talk.answer_size == (size_t)count * sizeof *cache_sizes)
        memcpy(cache_sizes, talk.answer, talk.answer_size);
    free(talk.answer);
    channel_let_go(channel);
    return code;
}

PUBLIC int rkllm_set_function_tools(LLMHandle handle, const char *system_prompt, const char *tools,
                                    const char *tool_response_str)
{
    struct talk talk = {.function = "rkllm_set_function_tools", .call = CALL_LLM_TOOLS};
    struct pack pack = {0};
    if (!tools)
        return failed(talk.function, FAILED, "tools is NULL");
    pack_text(&pack, system_prompt);
    pack_text(&pack, tools);
    pack_text(&pack, tool_response_str);
    return model_tell(handle, &talk, &pack);
}

PUBLIC int rkllm_set_cross_attn_params(LLMHandle handle, RKLLMCrossAttnParam *cross_attn_params)
{
    bool known;
    (void)cross_attn_params;
    (void)model_runs(handle, &known);
    return known ? failed("rkllm_set_cross_attn_params", FAILED, "the model has no cross attention")
                 : model_unknown("rkllm_set_cross_attn_params", handle);
}
#elif defined HAS_HISTORY
PUBLIC int rkllm_clear_kv_cache(LLMHandle handle, int keep_system_prompt)
{
    return clear(handle, keep_system_prompt);
}
#endif
