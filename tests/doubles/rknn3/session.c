/* Sessions: life, settings, cache. */
#include "double3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int start_run(session *s, rknn3_llm_input *inputs, uint32_t n, rknn3_llm_infer_param *param, int wait); /* llm.c */

static session *session_of(rknn3_session *given) { return known(given, KIND_SESSION) ? given : NULL; }

/* What every call on a session begins with. */
#define ENTER(name)                                                                                          \
    int code = enter(ID_##name);                                                                             \
    session *s = session_of(given);                                                                          \
    if (code) return code;                                                                                   \
    if (!s) return RKNN3_ERR_ARGUMENT_INVALID

static int usable(const context *c, const rknn3_llm_param *p, int n) {
    return p && n == 1 && (!p->logits_name || !strcmp(p->logits_name, "logits")) && p->max_context_len > 0 &&
           (uint32_t)p->max_context_len <= c->net->context &&
           (p->vocab_info.vocab_size == 0 || (uint32_t)p->vocab_info.vocab_size == c->net->vocab) &&
           p->sampling_param.top_p > 0;
}

EXPORT rknn3_session *rknn3_session_init(rknn3_context ctx, rknn3_llm_param *params, int n) {
    context *c = context_of(ctx);
    if (enter(ID_rknn3_session_init) || !c || !c->ready || !c->net->vocab || !usable(c, params, n)) return NULL;
    session *s = calloc(1, sizeof *s);
    s->owner = c;
    s->param = *params;
    s->param.logits_name = NULL;
    c->children++;
    remember(s, KIND_SESSION);
    live(LIVE_SESSIONS, 1);
    return s;
}

static void end_thread(session *s) {
    if (!s->running) return;
    pthread_join(s->thread, NULL);
    live(LIVE_THREADS, -1);
    s->running = 0;
}

EXPORT int rknn3_session_destroy(rknn3_session *given) {
    int code = enter(ID_rknn3_session_destroy);
    session *s = session_of(given);
    if (!s) return RKNN3_ERR_ARGUMENT_INVALID;
    known(s->owner, KIND_CONTEXT);
    if (s->running) {
        if (s->running == 1) live(MISORDERED, 1); /* 2: the end has been told, only the thread is left */
        s->stop = 1;
        end_thread(s);
    }
    s->owner->children--;
    forget(s);
    free(s->system);
    free(s->prefix);
    free(s->postfix);
    free(s->tools);
    free(s);
    live(LIVE_SESSIONS, -1);
    return code;
}

EXPORT int rknn3_session_set_llm_param(rknn3_session *given, rknn3_llm_param *params, int n) {
    ENTER(rknn3_session_set_llm_param);
    if (!usable(s->owner, params, n)) return RKNN3_ERR_ARGUMENT_INVALID;
    s->param = *params;
    s->param.logits_name = NULL;
    return RKNN3_SUCCESS;
}

EXPORT int rknn3_session_set_callback(rknn3_session *given, RKLLMCallback *calls) {
    ENTER(rknn3_session_set_callback);
    if (!calls || !calls->result_callback) return RKNN3_ERR_ARGUMENT_INVALID;
    s->calls = *calls;
    return RKNN3_SUCCESS;
}

static void replace(char **text, const char *with) {
    free(*text);
    *text = with && *with ? strdup(with) : NULL;
}

EXPORT int rknn3_session_set_chat_template(rknn3_session *given, const char *system, const char *prefix,
                                           const char *postfix) {
    ENTER(rknn3_session_set_chat_template);
    replace(&s->system, system);
    replace(&s->prefix, prefix);
    replace(&s->postfix, postfix);
    return RKNN3_SUCCESS;
}

EXPORT int rknn3_session_set_function_tools(rknn3_session *given, const char *tools) {
    ENTER(rknn3_session_set_function_tools);
    replace(&s->tools, tools);
    return RKNN3_SUCCESS;
}

/* -- runs ------------------------------------------------------------------------------------------------ */

EXPORT int rknn3_session_run(rknn3_session *given, rknn3_llm_input inputs[], uint32_t n, rknn3_llm_infer_param *param) {
    ENTER(rknn3_session_run);
    end_thread(s);
    return start_run(s, inputs, n, param, 1);
}

EXPORT int rknn3_session_run_async(rknn3_session *given, rknn3_llm_input inputs[], uint32_t n,
                                   rknn3_llm_infer_param *param) {
    ENTER(rknn3_session_run_async);
    end_thread(s);
    return start_run(s, inputs, n, param, 0);
}

EXPORT int rknn3_session_stop(rknn3_session *given) {
    ENTER(rknn3_session_stop);
    s->stop = 1;
    return RKNN3_SUCCESS;
}

EXPORT int rknn3_session_query_state(rknn3_session *given, RKLLMRunState *state) {
    ENTER(rknn3_session_query_state);
    if (!state) return RKNN3_ERR_ARGUMENT_INVALID;
    memset(state, 0, sizeof *state);
    state->n_total_tokens = s->n_total;
    state->n_max_tokens = s->param.max_context_len;
    state->n_decode_tokens = s->n_decode;
    state->n_prefill_tokens = s->n_prefill;
    state->kvcache_policy = s->policy;
    return RKNN3_SUCCESS;
}

/* -- cache ----------------------------------------------------------------------------------------------- */

EXPORT int rknn3_session_set_kvcache_policy(rknn3_session *given, rknn3_kvcache_policy policy,
                                            rknn3_kvcache_policy_param *param) {
    ENTER(rknn3_session_set_kvcache_policy);
    if (policy > RKNN3_KVCACHE_POLICY_NORMAL) return RKNN3_ERR_ARGUMENT_INVALID;
    if (param && (param->recurrent.n_keep < 0 || param->recurrent.n_keep_aligned % 16))
        return RKNN3_ERR_ARGUMENT_INVALID;
    s->policy = policy;
    return RKNN3_SUCCESS;
}

EXPORT int rknn3_session_clear_kvcache(rknn3_session *given, rknn3_kvcache_clear_policy clear) {
    ENTER(rknn3_session_clear_kvcache);
    if (clear > RKNN3_KVCACHE_KEEP_SYSTEM_PROMPT) return RKNN3_ERR_ARGUMENT_INVALID;
    s->n_total = clear && s->n_total > s->n_system ? s->n_system : clear ? (int)s->n_total : 0;
    return RKNN3_SUCCESS;
}

EXPORT int rknn3_session_save_kvcache(rknn3_session *given, char *path) {
    ENTER(rknn3_session_save_kvcache);
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return RKNN3_ERR_FAIL;
    fprintf(file, "RKKV %u %u %d\n", s->owner->net->vocab, s->owner->net->hidden, (int)s->n_total);
    fclose(file);
    return RKNN3_SUCCESS;
}

static int load(session *s, const char *text, size_t size) {
    unsigned vocab, hidden;
    int total;
    if (!text || size < 8 || sscanf(text, "RKKV %u %u %d", &vocab, &hidden, &total) != 3) return RKNN3_ERR_FAIL;
    if (vocab != s->owner->net->vocab || hidden != s->owner->net->hidden) return RKNN3_ERR_MODEL_INVALID;
    s->n_total = total;
    return RKNN3_SUCCESS;
}

static int load_file(session *s, const char *path) {
    size_t size = 0;
    char *text = slurp(path, &size);
    int code = load(s, text, size);
    free(text);
    return code;
}

#ifdef LATER
EXPORT int rknn3_session_load_kvcache_from_path(rknn3_session *given, const char *path) {
    ENTER(rknn3_session_load_kvcache_from_path);
    return load_file(s, path);
}

EXPORT int rknn3_session_load_kvcache_from_data(rknn3_session *given, const void *data, int64_t size) {
    ENTER(rknn3_session_load_kvcache_from_data);
    return load(s, data, size);
}

EXPORT int rknn3_session_pause(rknn3_session *given) {
    ENTER(rknn3_session_pause);
    s->paused = 1;
    return RKNN3_SUCCESS;
}

EXPORT int rknn3_session_resume(rknn3_session *given) {
    ENTER(rknn3_session_resume);
    s->paused = 0;
    return RKNN3_SUCCESS;
}
#else
EXPORT int rknn3_session_load_kvcache(rknn3_session *given, const char *path, int64_t size) {
    ENTER(rknn3_session_load_kvcache);
    return path && (size == 0 || size == (int64_t)strlen(path)) ? load_file(s, path) : RKNN3_ERR_ARGUMENT_INVALID;
}

EXPORT int rknn3_session_query_lora(rknn3_session *given, rknn3_lora **loras, int *n) {
    ENTER(rknn3_session_query_lora);
    if (!loras || !n) return RKNN3_ERR_ARGUMENT_INVALID;
    *loras = NULL;
    *n = 0;
    return RKNN3_SUCCESS;
}
#endif

EXPORT int rknn3_session_enable_lora(rknn3_session *given, rknn3_lora *lora) {
    ENTER(rknn3_session_enable_lora);
    return lora ? RKNN3_ERR_FAIL : RKNN3_ERR_ARGUMENT_INVALID; /* the user guide: not supported yet */
}

EXPORT int rknn3_session_disable_lora(rknn3_session *given, rknn3_lora *lora) {
    ENTER(rknn3_session_disable_lora);
    return lora ? RKNN3_ERR_FAIL : RKNN3_ERR_ARGUMENT_INVALID;
}
