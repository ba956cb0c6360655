/* Handles: life and runs. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int used_mb, n_handles;

/* What every call on a handle begins with. */
#define ENTER(name)                                                                                          \
    read_control();                                                                                          \
    int code = enter(ID_##name);                                                                             \
    known(given, KIND_CONTEXT); /* the genuine library crashes on a stale one */                             \
    handle *h = given;                                                                                       \
    if (code) return code;                                                                                   \
    if (!h) return -1

/* -- opening --------------------------------------------------------------------------------------------- */

EXPORT RKLLMParam rkllm_createDefaultParam(void) {
    RKLLMParam p;
    memset(&p, 0, sizeof p);
    read_control();
    enter(ID_rkllm_createDefaultParam);
    p.max_context_len = 512;
    p.max_new_tokens = -1;
    p.top_k = 40;
    p.top_p = 0.9f;
    p.temperature = 0.8f;
    p.repeat_penalty = 1.1f;
    p.mirostat_tau = 5.0f;
    p.mirostat_eta = 0.1f;
#ifdef HAS_RKLLMParam_n_keep
    p.n_keep = -1;
    p.extend_param.enabled_cpus_num = 4;
    p.extend_param.enabled_cpus_mask = 0xf0;
#endif
#ifdef HAS_RKLLMExtendParam_n_batch
    p.extend_param.n_batch = 1;
#endif
    return p;
}

static const char *path_of(const RKLLMParam *p) {
#ifdef HAS_RKLLMParam_modelPath
    return p->modelPath;
#else
    return p->model_path;
#endif
}

static int batch_of(const RKLLMParam *p) {
#ifdef HAS_RKLLMExtendParam_n_batch
    return p->extend_param.n_batch;
#else
    (void)p;
    return 1;
#endif
}

static int platform_known(void) {
    static const char *const platforms[] = {"RK3588", "RK3576", "RV1126B", "RK3562"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(modes.platform, platforms[i])) return 1;
    say('E', "Platform error: must be either RK3588, RK3576, RV1126B, or RK3562. Your platform is %s.", modes.platform);
    return 0;
}

/* A later model than the first one, or none of the double's own. */
static int refuses(const handle *h) {
    const RKLLMParam *p = &h->param;
    int batch = batch_of(p);
    if (!platform_known()) return 1;
    if (n_handles && !strcmp(modes.second_init, "crash")) raise(SIGSEGV);
    if (n_handles && !strcmp(modes.second_init, "fail")) return say('E', "init failed"), 1;
    if (strcasecmp(h->net.platform, modes.platform))
        return say('E', "target_platform does not match: the model is for %s", h->net.platform), 1;
    if (p->max_context_len > h->net.limit)
        return say('E', "max_context[%d] must be less than the model's max_context_limit[%d]", p->max_context_len,
                   h->net.limit), 1;
    if (batch < 1 || batch > 100) return say('E', "The n_batch must be between 1 and 100, but got %d", batch), 1;
    if (modes.domain_mb && used_mb + h->net.size_mb > modes.domain_mb)
        return say('E', "failed to malloc npu memory, size: %d MiB", h->net.size_mb), 1;
#if defined HAS_RKLLMExtendParam && !defined HAS_RKLLMParam_n_keep
    if (p->extend_param.base_domain_id) raise(SIGSEGV); /* 1.1 did */
#endif
    return 0;
}

static void keep_texts(handle *h) {
    h->texts[0] = path_of(&h->param);
#ifdef HAS_RKLLMParam_img_start
    h->texts[1] = h->param.img_start;
    h->texts[2] = h->param.img_end;
    h->texts[3] = h->param.img_content;
#endif
    for (int i = 0; i < 4; i++) h->copies[i] = h->texts[i] ? strdup(h->texts[i]) : NULL;
}

static void release(handle *h) {
    for (int i = 0; i < 4; i++) free(h->copies[i]);
    for (int i = 0; i < h->n_loras; i++) {
        free(h->loras[i].name);
        free(h->loras[i].path);
        live(LIVE_LORAS, -1);
    }
    for (int i = 0; i < MAX_BATCH; i++) {
        drop(&h->streams[i].cache);
        drop(&h->streams[i].prompt);
        drop(&h->streams[i].answer);
    }
    if (h->loaded.ids) live(LIVE_CACHES, -1);
    drop(&h->loaded);
    if (h->buffer) live(LIVE_BUFFERS, -1);
    free(h->buffer);
    free(h->system);
    free(h->prefix);
    free(h->postfix);
    free(h->tools);
    free(h->tag);
    free(h);
}

static void introduce(const handle *h) {
    say('I', "rkllm-runtime version: %s, rknpu driver version: %s, platform: %s", VERSION, modes.driver, modes.platform);
    say('I', "rkllm-toolkit version: %s, max_context_limit: %d, npu_core_num: %d, target_platform: %s, model_dtype: %s",
        h->net.toolkit, h->net.limit, h->net.cores, h->net.platform, h->net.dtype);
}

static int open_model(handle *h) {
    int readable = read_model(&h->net, path_of(&h->param));
    if (modes.init_us) sleep_until_us(now_us() + modes.init_us);
    if (!readable) {
        say('E', "invalid rknn llm model magic\nE rkllm: load model file error: %s", path_of(&h->param));
#if defined HAS_RKLLMExtendParam && !defined HAS_RKLLMParam_n_keep
        h->unreadable = 1; /* 1.1 told nobody, and died at the first run */
        return 0;
#else
        return -1;
#endif
    }
    return refuses(h) ? -1 : 0;
}

static int open_handle(void **given, handle *h) {
    *given = NULL;
    h->n_batch = batch_of(&h->param);
    int code = open_model(h);
    if (code || modes.null_handle) {
        release(h);
        return code; /* 0 with a null handle was seen */
    }
    introduce(h);
    keep_texts(h);
    used_mb += h->net.size_mb;
    n_handles++;
    remember(h, KIND_CONTEXT);
    live(LIVE_HANDLES, 1);
    *given = h;
    return 0;
}

#ifdef HAS_RKLLMCallback
EXPORT int rkllm_init(void **given, RKLLMParam *param, RKLLMCallback *callback) {
#elif defined HAS_RKLLMInput
EXPORT int rkllm_init(void **given, RKLLMParam *param, LLMResultCallback callback) {
#else
EXPORT int rkllm_init(void **given, RKLLMParam value, LLMResultCallback callback) {
    RKLLMParam *param = &value;
#endif
    read_control();
    FILE *out = begin_record("rkllm_init");
    record_struct(out, "param", &layout_RKLLMParam, param, 1);
#ifdef HAS_RKLLMCallback
    record_struct(out, "callback", &layout_RKLLMCallback, callback, 1);
#else
    record_number(out, "callback", callback != NULL);
#endif
    end_record(out);
    int code = enter(ID_rkllm_init);
    if (code) return code;
    if (!given || !param || !callback) return -1;
    handle *h = calloc(1, sizeof *h);
    h->param = *param;
#ifdef HAS_RKLLMCallback
    h->calls = callback;
#else
    h->callback = callback;
#endif
    return open_handle(given, h);
}

/* -- runs ------------------------------------------------------------------------------------------------ */

static void end_thread(handle *h) {
    if (!h->has_thread) return;
    pthread_join(h->thread, NULL);
    live(LIVE_THREADS, -1);
    h->has_thread = 0;
}

static int begin(handle *h) {
    if (atomic_exchange(&h->running, 1)) {
        live(RACES, 1);
        say('E', "another task is running");
        return -1;
    }
    h->stop = 0;
    return 0;
}

static void record_run(const handle *h, const char *name, INPUT_ARGUMENTS, const void *userdata) {
    FILE *out = begin_record(name);
#ifdef HAS_RKLLMInput
    record_struct(out, "input", &layout_RKLLMInput, inputs, h->n_batch);
    record_struct(out, "infer", &layout_RKLLMInferParam, infer, 1);
#else
    (void)h;
    record_text(out, "input", inputs);
#endif
    record_number(out, "userdata", (long)userdata);
    end_record(out);
}

#ifdef HAS_RKLLMInput
#define INPUTS inputs, infer
#else
#define INPUTS inputs
#endif

EXPORT int rkllm_run(void *given, INPUT_ARGUMENTS, void *userdata) {
    ENTER(rkllm_run);
    record_run(h, "rkllm_run", INPUTS, userdata);
    if (begin(h)) return -1;
    code = start_run(h, INPUTS, userdata);
    h->running = 0;
    return code;
}

#ifdef HAS_rkllm_run_async
typedef struct {
    handle *h;
    RKLLMInput *inputs; /* the caller's, as with the genuine library: they must live on */
    RKLLMInferParam *infer;
    void *userdata;
} later;

static void *run_later(void *given) {
    later *l = given;
    start_run(l->h, l->inputs, l->infer, l->userdata);
    l->h->running = 0;
    free(l);
    return NULL;
}

EXPORT int rkllm_run_async(void *given, INPUT_ARGUMENTS, void *userdata) {
    ENTER(rkllm_run_async);
    record_run(h, "rkllm_run_async", INPUTS, userdata);
    const char *mode = *modes.async ? modes.async : !strncmp(VERSION, "1.1", 3) ? "silent" : "works";
    if (begin(h)) return -1;
    end_thread(h);
    if (!strcmp(mode, "silent")) { /* no callback ever came in 1.1 */
        h->running = 0;
        return 0;
    }
    later *l = malloc(sizeof *l);
    *l = (later){h, inputs, infer, userdata};
    live(LIVE_THREADS, 1);
    h->has_thread = 1;
    return pthread_create(&h->thread, NULL, run_later, l) ? -1 : 0;
}
#endif

#ifdef HAS_rkllm_is_running
/* The headers say 0 for a running task up to 1.2.3, 1 in 1.3.0. */
EXPORT int rkllm_is_running(void *given) {
    ENTER(rkllm_is_running);
#ifdef HAS_RKLLMCallback
    return h->running;
#else
    return !h->running;
#endif
}
#endif

#ifdef HAS_rkllm_abort
EXPORT int rkllm_abort(void *given) {
    ENTER(rkllm_abort);
    if (!h->running) return -1;
    h->stop = 1; /* seen when the prefill is over */
    return 0;
}
#endif

/* -- the end --------------------------------------------------------------------------------------------- */

static void *call_late(void *given) {
    handle *h = given; /* a copy of what was destroyed */
    sleep_until_us(now_us() + 20000);
#ifdef HAS_RKLLMCallback
    h->calls->result_callback(NULL, NULL, LLMCallState_NORMAL);
#else
    h->callback(NULL, NULL, LLMCallState_NORMAL);
#endif
    free(h);
    return NULL;
}

static void call_after_destroy(const handle *h) {
    pthread_t thread;
    handle *copy = malloc(sizeof *copy);
    *copy = *h;
    pthread_create(&thread, NULL, call_late, copy);
    pthread_detach(thread);
}

EXPORT int rkllm_destroy(void *given) {
    read_control();
    int code = enter(ID_rkllm_destroy);
    known(given, KIND_CONTEXT);
    handle *h = given;
    if (!h) return -1;
    if (h->running) live(MISORDERED, 1);
    h->stop = 1;
    while (h->running) usleep(100);
    end_thread(h);
    for (int i = 0; i < 4; i++)
        if (h->texts[i] && strcmp(h->texts[i], h->copies[i])) live(STALE, 1);
    if (modes.late_callback) call_after_destroy(h);
    used_mb -= h->net.size_mb;
    n_handles--;
    forget(h);
    live(LIVE_HANDLES, -1);
    release(h);
    return code;
}
