/* What the CPU reference has not: adapters, encrypted models, streamed weights; each says so. */
#include "rknn3.h"

#define LORA "the CPU reference has no LoRA adapters; merge the adapter into the weights before the conversion"

static int refused_session(const char *function, const char *why)
{
    return failed(function, RKNN3_ERR_FAIL, "%s", why);
}

PUBLIC int rknn3_session_enable_lora(rknn3_session *session, rknn3_lora *lora)
{
    (void)session, (void)lora;
    return refused_session("rknn3_session_enable_lora", LORA);
}

PUBLIC int rknn3_session_disable_lora(rknn3_session *session, rknn3_lora *lora)
{
    (void)session, (void)lora;
    return refused_session("rknn3_session_disable_lora", LORA);
}

/* There are none, which is an answer. */
PUBLIC int rknn3_session_query_lora(rknn3_session *session, rknn3_lora **lora, int *n_lora)
{
    (void)session;
    if (!lora || !n_lora)
        return failed("rknn3_session_query_lora", RKNN3_ERR_ARGUMENT_INVALID, "lora at %p, n_lora at %p", (void *)lora,
                      (void *)n_lora);
    *lora = NULL;
    *n_lora = 0;
    return RKNN3_SUCCESS;
}

/* -- of the later revision only ---------------------------------------------------------------------- */

#define KEYS "the CPU reference decrypts nothing; convert the model without encryption"

static int refused_later(const char *function, rknn3_context context, const char *why)
{
    program_is_later(context);
    return context_refused(function, context, why);
}

PUBLIC int rknn3_set_decrypt_key_from_path(rknn3_context context, const char *path);
int rknn3_set_decrypt_key_from_path(rknn3_context context, const char *path)
{
    (void)path;
    return refused_later("rknn3_set_decrypt_key_from_path", context, KEYS);
}

PUBLIC int rknn3_set_decrypt_key_from_data(rknn3_context context, const void *data, uint64_t size);
int rknn3_set_decrypt_key_from_data(rknn3_context context, const void *data, uint64_t size)
{
    (void)data, (void)size;
    return refused_later("rknn3_set_decrypt_key_from_data", context, KEYS);
}

PUBLIC int rknn3_load_weight_chunk(rknn3_context context, uint64_t offset, const void *data, uint64_t size);
int rknn3_load_weight_chunk(rknn3_context context, uint64_t offset, const void *data, uint64_t size)
{
    (void)offset, (void)data, (void)size;
    return refused_later("rknn3_load_weight_chunk", context, "weights are read as a whole here; give their path or their bytes with the model");
}

PUBLIC int rknn3_set_kvcache_group(rknn3_context context, int32_t group);
int rknn3_set_kvcache_group(rknn3_context context, int32_t group)
{
    (void)group;
    return refused_later("rknn3_set_kvcache_group", context, "there are no groups of KV cache lengths here; the cache grows to max_context_len");
}

PUBLIC int rknn3_lora_init(rknn3_context context, const char *path);
int rknn3_lora_init(rknn3_context context, const char *path)
{
    (void)path;
    return refused_later("rknn3_lora_init", context, LORA);
}

PUBLIC int rknn3_lora_init_from_data(rknn3_context context, const void *data, uint64_t size);
int rknn3_lora_init_from_data(rknn3_context context, const void *data, uint64_t size)
{
    (void)data, (void)size;
    return refused_later("rknn3_lora_init_from_data", context, LORA);
}

PUBLIC int rknn3_lora_load(rknn3_context context, rknn3_lora *lora);
int rknn3_lora_load(rknn3_context context, rknn3_lora *lora)
{
    (void)lora;
    return refused_later("rknn3_lora_load", context, LORA);
}

PUBLIC int rknn3_lora_unload(rknn3_context context, rknn3_lora *lora);
int rknn3_lora_unload(rknn3_context context, rknn3_lora *lora)
{
    (void)lora;
    return refused_later("rknn3_lora_unload", context, LORA);
}

PUBLIC int rknn3_lora_enable(rknn3_context context, rknn3_lora *lora);
int rknn3_lora_enable(rknn3_context context, rknn3_lora *lora)
{
    (void)lora;
    return refused_later("rknn3_lora_enable", context, LORA);
}

PUBLIC int rknn3_lora_disable(rknn3_context context, rknn3_lora *lora);
int rknn3_lora_disable(rknn3_context context, rknn3_lora *lora)
{
    (void)lora;
    return refused_later("rknn3_lora_disable", context, LORA);
}

PUBLIC int rknn3_set_input_name_alias(rknn3_context context, const char *from, const char *to);
int rknn3_set_input_name_alias(rknn3_context context, const char *from, const char *to)
{
    (void)from, (void)to;
    return refused_later("rknn3_set_input_name_alias", context, "inputs have no further names here; name them as the model does");
}

PUBLIC int rknn3_session_pause(rknn3_session *session);
int rknn3_session_pause(rknn3_session *session)
{
    (void)session;
    return refused_session("rknn3_session_pause", "a run does not pause here; stop it, and run again with keep_history 1");
}

PUBLIC int rknn3_session_resume(rknn3_session *session);
int rknn3_session_resume(rknn3_session *session)
{
    (void)session;
    return refused_session("rknn3_session_resume", "a run does not pause here; stop it, and run again with keep_history 1");
}
