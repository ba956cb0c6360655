/* What is set on a handle between runs: LoRA, caches, templates, tools, cross attention. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENTER(name)                                                                                          \
    read_control();                                                                                          \
    int code = enter(ID_##name);                                                                             \
    known(given, KIND_CONTEXT);                                                                              \
    handle *h = given;                                                                                       \
    if (code) return code;                                                                                   \
    if (!h) return -1;                                                                                       \
    FILE *out = begin_record(#name)

__attribute__((unused)) static char *copied(const char *text) { return strdup(text ? text : ""); }

#ifdef HAS_rkllm_load_lora
EXPORT int rkllm_load_lora(void *given, RKLLMLoraAdapter *adapter) {
    ENTER(rkllm_load_lora);
    record_struct(out, "adapter", &layout_RKLLMLoraAdapter, adapter, 1);
    end_record(out);
    if (!adapter || h->n_loras == MAX_LORAS || !adapter->lora_adapter_name || !adapter->lora_adapter_path ||
        access(adapter->lora_adapter_path, R_OK))
        return say('E', "the LoRA adapter cannot be loaded"), -1;
    h->loras[h->n_loras++] =
        (lora){strdup(adapter->lora_adapter_name), strdup(adapter->lora_adapter_path), adapter->scale};
    live(LIVE_LORAS, 1);
    return 0;
}
#endif

#ifdef HAS_rkllm_load_prompt_cache
EXPORT int rkllm_load_prompt_cache(void *given, const char *path) {
    ENTER(rkllm_load_prompt_cache);
    record_text(out, "path", path);
    end_record(out);
    uint32_t head[3];
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file || fread(head, sizeof head, 1, file) != 1 || head[0] || head[2] > 1 << 20) {
        if (file) fclose(file);
        return say('E', "load prompt cache failed"), -1;
    }
    if (h->loaded.ids) live(MISORDERED, 1); /* the one before has to be released first */
    if (!h->loaded.ids) live(LIVE_CACHES, 1);
    drop(&h->loaded);
    int32_t id;
    push(&h->loaded, 0);
    h->loaded.n = 0;
    for (uint32_t i = 0; i < head[2] && fread(&id, sizeof id, 1, file) == 1; i++) push(&h->loaded, id);
    fclose(file);
    return 0;
}

EXPORT int rkllm_release_prompt_cache(void *given) {
    ENTER(rkllm_release_prompt_cache);
    end_record(out);
    if (h->loaded.ids) live(LIVE_CACHES, -1);
    drop(&h->loaded);
    return 0;
}
#endif

#ifdef HAS_rkllm_clear_kv_cache
/* Whole caches, or all but the first n_system tokens. */
static void clear_all(handle *h, int keep_system) {
    h->paused = 0;
    for (int i = 0; i < h->n_batch; i++) {
        tokens *cache = &h->streams[i].cache;
        int kept = keep_system && cache->n ? h->n_system : 0;
        cache->n = kept < cache->n ? kept : cache->n;
    }
}

#ifdef HAS_rkllm_get_kv_cache_size
static int clear_range(handle *h, const int *start, const int *end) {
    tokens *all = &h->streams[0].prompt; /* with the part of the answer that was told */
    if (!h->paused || !start || !end)
        return say('E', "start_pos and end_pos are only valid when keep_history is 0 and the run is paused"), -1;
    if (*start < 0 || *start > *end || *end > all->n) return -1;
    memmove(all->ids + *start, all->ids + *end, (all->n - *end) * sizeof *all->ids);
    all->n -= *end - *start;
    return 0;
}

EXPORT int rkllm_clear_kv_cache(void *given, int keep_system, int *start, int *end) {
    ENTER(rkllm_clear_kv_cache);
    record_number(out, "keep_system_prompt", keep_system);
    record_number(out, "range", start || end);
    end_record(out);
    if (start || end) return clear_range(h, start, end);
    clear_all(h, keep_system);
    return 0;
}

EXPORT int rkllm_get_kv_cache_size(void *given, int *sizes) {
    ENTER(rkllm_get_kv_cache_size);
    end_record(out);
    if (!sizes) return -1;
    for (int i = 0; i < h->n_batch; i++) {
        const stream *s = &h->streams[i];
        sizes[i] = s->cache.n + (h->paused ? s->prompt.n + s->at : 0);
    }
    return 0;
}
#else
EXPORT int rkllm_clear_kv_cache(void *given, int keep_system) {
    ENTER(rkllm_clear_kv_cache);
    record_number(out, "keep_system_prompt", keep_system);
    end_record(out);
    clear_all(h, keep_system);
    return 0;
}
#endif

EXPORT int rkllm_set_chat_template(void *given, const char *system, const char *prefix, const char *postfix) {
    ENTER(rkllm_set_chat_template);
    record_text(out, "system_prompt", system);
    record_text(out, "prompt_prefix", prefix);
    record_text(out, "prompt_postfix", postfix);
    end_record(out);
    free(h->system);
    free(h->prefix);
    free(h->postfix);
    h->system = copied(system);
    h->prefix = copied(prefix);
    h->postfix = copied(postfix);
    h->own_template = 1;
    say('W', "the chat template was set: the automatic one and enable_thinking are off");
    clear_all(h, 0); /* at once */
    return 0;
}
#endif

#ifdef HAS_rkllm_set_function_tools
EXPORT int rkllm_set_function_tools(void *given, const char *system, const char *tools, const char *tag) {
    ENTER(rkllm_set_function_tools);
    record_text(out, "system_prompt", system);
    record_text(out, "tools", tools);
    record_text(out, "tool_response_str", tag);
    end_record(out);
    if (!tools) return -1;
    free(h->system);
    free(h->tools);
    free(h->tag);
    h->system = copied(system);
    h->tools = copied(tools);
    h->tag = tag ? strdup(tag) : NULL;
    return 0;
}
#endif

#ifdef HAS_rkllm_set_cross_attn_params
EXPORT int rkllm_set_cross_attn_params(void *given, RKLLMCrossAttnParam *p) {
    ENTER(rkllm_set_cross_attn_params);
    record_struct(out, "params", &layout_RKLLMCrossAttnParam, p, 1);
    int usable = h->param.extend_param.use_cross_attn && p && p->num_tokens > 0 && p->encoder_k_cache &&
                 p->encoder_v_cache && p->encoder_mask && p->encoder_pos;
    if (usable) {
        size_t each = (size_t)h->net.layers * h->net.kv_heads * h->net.head_size * p->num_tokens * sizeof(float);
        record_bytes(out, "keys", p->encoder_k_cache, each);
        record_bytes(out, "values", p->encoder_v_cache, each);
        record_bytes(out, "mask", p->encoder_mask, p->num_tokens * sizeof(float));
        record_bytes(out, "positions", p->encoder_pos, p->num_tokens * sizeof(int32_t));
        h->has_cross = 1;
    }
    end_record(out);
    return usable ? 0 : (say('E', "the cross attention parameters cannot be used"), -1);
}
#endif

/* Exported by genuine files from 1.2.0 on, declared nowhere. */
#ifdef HAS_rkllm_clear_kv_cache
EXPORT void rkllm_accuracy_analysis(void) {}
EXPORT void rkllm_print_memorys(void) {}
EXPORT void rkllm_print_timings(void) {}
#endif
