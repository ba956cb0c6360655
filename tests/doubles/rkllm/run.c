/* One run: prefill, tokens, the end; and what the callback answers on the way. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NORMAL = LLMCallState_NORMAL, FINISHED = LLMCallState_FINISH, FAILED = LLMCallState_ERROR };
#ifdef HAS_LLMCallState_WAITING
enum { WAITING = LLMCallState_WAITING };
#else
enum { WAITING = LLMCallState_NORMAL };
#endif
enum { GO_ON, PAUSE, RELEASE };
enum { GENERATE, HIDDEN, LOGITS };

typedef struct {
    handle *h;
    void *userdata;
    int mode, keep, count, reused; /* tokens that were answered; of the prompt, those of a loaded cache */
    int64_t began, prefilled;
    char *texts[MAX_BATCH];
    int32_t ids[MAX_BATCH];
    const float *hidden, *logits;
    int rows;
} run;

/* -- callbacks ------------------------------------------------------------------------------------------- */

static int call(run *r, void *result, int state) {
    handle *h = r->h;
#ifdef HAS_RKLLMCallback
    void *userdata = r->userdata ? r->userdata : h->calls->result_userdata;
    return h->calls->result_callback(result, userdata, state);
#elif defined CALLBACK_RETURNS
    return h->callback(result, r->userdata, state);
#else
    h->callback(result, r->userdata, state);
    return GO_ON;
#endif
}

#ifdef HAS_RKLLMResult
static void fill(run *r, RKLLMResult *results, int state) {
    for (int i = 0; i < r->h->n_batch; i++) {
        results[i].text = r->texts[i];
#ifdef HAS_RKLLMResult_token_id
        results[i].token_id = state == FINISHED ? -1 : r->ids[i];
        results[i].last_hidden_layer = (RKLLMResultLastHiddenLayer){(float *)r->hidden, r->hidden ? r->h->net.hidden : 0,
                                                                    r->hidden ? r->rows : 0};
#endif
#ifdef HAS_RKLLMResult_logits
        results[i].logits =
            (RKLLMResultLogits){(float *)r->logits, r->logits ? r->h->net.vocab : 0, r->logits ? r->rows : 0};
#endif
#ifdef HAS_RKLLMResult_perf
        int64_t now = now_us(), prefilled = r->prefilled ? r->prefilled : now;
        int read = r->h->streams[i].prompt.n - r->reused;
        if (state == FINISHED)
            results[i].perf = (RKLLMPerfStat){(prefilled - r->began) / 1e3f, read, (now - prefilled) / 1e3f, r->count, 64};
#endif
    }
    (void)state;
}
#endif

/* Texts and arrays live until the callback returns, not longer. */
static int report(run *r, int state) {
    int answer;
#ifdef HAS_RKLLMResult
    RKLLMResult *results = calloc(r->h->n_batch, sizeof *results);
    fill(r, results, state);
#ifdef HAS_Token
    Token token = {-0.5f, r->ids[0]};
    int one = state == NORMAL;
    results[0].tokens = one ? &token : NULL;
    results[0].num = one;
#endif
    answer = call(r, state == FINISHED && !strcmp(modes.finish, "null") ? NULL : results, state);
    memset(results, 0xdd, r->h->n_batch * sizeof *results);
    free(results);
#else
    answer = call(r, r->texts[0], state);
#endif
    for (int i = 0; i < r->h->n_batch; i++) {
        if (r->texts[i]) memset(r->texts[i], 0xdd, strlen(r->texts[i]));
        free(r->texts[i]);
        r->texts[i] = NULL;
    }
    if (answer == RELEASE && r->h->buffer) {
        free(r->h->buffer);
        live(LIVE_BUFFERS, -1);
        r->h->buffer = NULL;
        r->h->buffer_size = 0;
    }
    return answer;
}

static int fail(run *r, const char *why) {
    say('E', "%s", why);
    report(r, FAILED);
    return -1;
}

/* -- prefill --------------------------------------------------------------------------------------------- */

/* How many tokens of the prompt a loaded cache saves. */
static int common_prefix(const handle *h, const stream *s) {
    int n = 0;
    while (n < h->loaded.n && n < s->cache.n + s->prompt.n) {
        int32_t id = n < s->cache.n ? s->cache.ids[n] : s->prompt.ids[n - s->cache.n];
        if (id != h->loaded.ids[n]) break;
        n++;
    }
    return n > s->cache.n ? n - s->cache.n : 0;
}

static int prepare(run *r, INPUT_ARGUMENTS) {
    handle *h = r->h;
    int room = h->param.max_context_len, most = 0;
    for (int i = 0; i < h->n_batch; i++) {
        stream *s = &h->streams[i];
#ifdef HAS_RKLLMInput
        if (build_prompt(h, s, i, inputs, infer)) return fail(r, "the input cannot be used");
#else
        if (build_prompt(h, s, i, inputs)) return fail(r, "the input cannot be used");
#endif
        if (s->cache.n + s->prompt.n > room) {
            if (modes.overflow) raise(SIGSEGV);
            return fail(r, "the prompt is longer than max_context_len");
        }
        int limit = h->limit > 0 ? h->limit : room - s->cache.n - s->prompt.n;
#ifdef HAS_RKLLMInput
        build_answer(h, s, i, limit, inputs, infer);
#else
        build_answer(h, s, i, limit, inputs);
#endif
        if (embed_by_caller(h, s->prompt.ids, s->prompt.n)) return fail(r, "the embeddings of the caller failed");
        most = s->prompt.n > most ? s->prompt.n : most;
    }
    r->reused = common_prefix(h, &h->streams[0]);
    /* nothing interrupts the prefill */
    sleep_until_us(r->began + (int64_t)(h->net.prefill_us + modes.prefill_us) * (most - r->reused));
    return 0;
}

#ifdef HAS_RKLLMInferParam
/* Rows of the prompt: hidden[i][j] = id + j / 100, logits[i][j] = (31 id + 7 j + i) % 97 / 97. */
static int report_rows(run *r) {
    handle *h = r->h;
    const tokens *prompt = &h->streams[0].prompt;
    int width = r->mode == HIDDEN ? h->net.hidden : h->net.vocab;
    size_t size = (size_t)prompt->n * width * sizeof(float);
    if (!h->buffer) live(LIVE_BUFFERS, 1);
    if (size > h->buffer_size) { /* it grows with the prompt and stays */
        h->buffer = realloc(h->buffer, size);
        h->buffer_size = size;
    }
    for (int i = 0; i < prompt->n; i++)
        for (int j = 0; j < width; j++)
            h->buffer[i * width + j] = r->mode == HIDDEN ? prompt->ids[i] + j / 100.0f
                                                         : (31 * prompt->ids[i] + 7 * j + i) % 97 / 97.0f;
    int state = NORMAL;
    if (r->mode == HIDDEN) { /* first one without rows */
        int answer = report(r, NORMAL);
        if (answer == PAUSE) return answer;
        r->hidden = h->buffer;
#ifdef HAS_LLMCallState_GET_LAST_HIDDEN_LAYER
        state = LLMCallState_GET_LAST_HIDDEN_LAYER;
#endif
    } else {
        r->logits = h->buffer;
    }
    r->rows = prompt->n;
    int answer = report(r, state);
    r->hidden = r->logits = NULL;
    return answer;
}
#endif

/* -- tokens ---------------------------------------------------------------------------------------------- */

static int splits(void) {
#ifdef HAS_LLMCallState_WAITING
    return modes.split > 0;
#else
    return modes.split != 0;
#endif
}

static int length_of(unsigned char lead) { return lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4; }

/* The text that a token completes; NULL while the character is not whole. */
static char *text_of(const handle *h, stream *s, int32_t id) {
    if (!h->net.tokenizer || id >= EOS || id < 0) return id == IMAGE ? strdup("*") : id == VIDEO ? strdup("%") : NULL;
    size_t n = strlen(s->part);
    s->part[n] = (char)id;
    s->part[n + 1] = 0;
    if (!splits() && n + 1 < (size_t)length_of(s->part[0])) return NULL;
    char *text = strdup(s->part);
    s->part[0] = 0;
    return text;
}

static void strike(run *r) {
    if (!*modes.strike || r->count != modes.at) return;
    if (!strcmp(modes.strike, "crash")) raise(SIGSEGV);
    if (!strcmp(modes.strike, "exit")) _exit(3);
    if (!strcmp(modes.strike, "hang")) pause();
    if (!strcmp(modes.strike, "assert")) {
        fprintf(stderr, "GGML_ASSERT: double.c: token %d\n", r->count);
        abort();
    }
}

/* One token of every stream that has one left; -1: none has. */
static int step(run *r) {
    handle *h = r->h;
    int left = 0, whole = 0;
    for (int i = 0; i < h->n_batch; i++) {
        stream *s = &h->streams[i];
        r->ids[i] = -1;
        if (s->at >= s->answer.n) continue;
        left++;
        r->ids[i] = s->answer.ids[s->at++];
        r->texts[i] = text_of(h, s, r->ids[i]);
        whole |= r->texts[i] != NULL;
        if (embed_by_caller(h, &r->ids[i], 1)) return -2;
    }
    if (!left) return -1;
    if (h->net.token_us + modes.token_us) sleep_until_us(now_us() + h->net.token_us + modes.token_us);
    strike(r);
    if (!strcmp(modes.strike, "error") && r->count == modes.at) return -2;
    if (!strcmp(modes.strike, "null") && r->count == modes.at) call(r, NULL, NORMAL);
    r->count++;
    return report(r, whole || !h->net.tokenizer ? NORMAL : WAITING);
}

/* -- the end --------------------------------------------------------------------------------------------- */

static void remember_history(run *r) {
    handle *h = r->h;
    for (int i = 0; i < h->n_batch; i++) {
        stream *s = &h->streams[i];
        for (int k = 0; k < s->prompt.n; k++) push(&s->cache, s->prompt.ids[k]);
        for (int k = 0; k < s->at; k++) push(&s->cache, s->answer.ids[k]);
        if (s->cache.n > h->param.max_context_len) s->cache.n = h->param.max_context_len;
        s->prompt.n = s->answer.n = s->at = 0;
    }
}

void forget_run(handle *h) {
    h->paused = 0;
    for (int i = 0; i < h->n_batch; i++) h->streams[i].cache.n = 0;
}

#ifdef HAS_RKLLMPromptCacheParam
/* u32 0, layers, tokens; int32 ids; keys and values of all layers in f16 */
static void save_cache(run *r, const RKLLMPromptCacheParam *p) {
    handle *h = r->h;
    const tokens *cache = &h->streams[0].cache;
    if (!p || !p->save_prompt_cache) return;
    if (!h->net.full_attention) return say('E', "the model does not support saving prompt cache");
    FILE *file = fopen(p->prompt_cache_path ? p->prompt_cache_path : "./prompt_cache.bin", "wb");
    if (!file) return say('E', "the prompt cache cannot be written");
    uint32_t head[] = {0, h->net.layers, cache->n}, zero = 0;
    fwrite(head, sizeof head, 1, file);
    fwrite(cache->ids, sizeof *cache->ids, cache->n, file);
    for (int i = 0; i < cache->n * h->net.layers * h->net.kv_heads * h->net.head_size; i++)
        fwrite(&zero, sizeof zero, 1, file);
    fclose(file);
}
#endif

static int finish(run *r) {
    if (r->h->stop && !strcmp(modes.abort, "none")) return 0;
    if (r->h->stop && !strcmp(modes.abort, "error")) return fail(r, "aborted");
    if (!strcmp(modes.finish, "never")) return 0;
    if (!strcmp(modes.finish, "error")) { /* told by the callback alone */
        fail(r, "the run failed");
        return 0;
    }
    report(r, FINISHED);
    if (!strcmp(modes.finish, "twice")) report(r, FINISHED);
    return 0;
}

static int generate(run *r) {
    int answer = GO_ON;
    handle *h = r->h;
    while (!h->stop && (answer = step(r)) >= 0 && answer != PAUSE) {}
    if (answer == -2) return fail(r, "the run failed");
    if (answer != PAUSE) return finish(r);
    h->paused = !r->keep;
    return 0;
}

static void check_texts(handle *h) {
    for (int i = 0; i < 4; i++)
        if (h->texts[i] && strcmp(h->texts[i], h->copies[i])) live(STALE, 1);
}

static void leak(void) {
    size_t size = (size_t)modes.leak_kb * 1024;
    char *lost = size ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL;
    if (size && lost != MAP_FAILED) memset(lost, 1, size);
}

/* A run from its start, or on from where a callback paused it. */
static int whole_run(run *r, INPUT_ARGUMENTS) {
    handle *h = r->h;
    int answer = GO_ON, code = 0;
    if (h->paused) {
        say('I', "the paused run goes on");
        h->paused = 0;
        r->prefilled = now_us();
        code = generate(r);
    } else {
#ifdef HAS_RKLLMInput
        code = prepare(r, inputs, infer);
#else
        code = prepare(r, inputs);
#endif
        r->prefilled = now_us();
#ifdef HAS_RKLLMInferParam
        if (!code && r->mode != GENERATE && !h->stop) answer = report_rows(r);
#endif
        if (answer == PAUSE)
            h->paused = !r->keep;
        else if (!code)
            code = generate(r);
    }
    if (h->paused) return code;
    remember_history(r);
#ifdef HAS_RKLLMPromptCacheParam
    save_cache(r, infer->prompt_cache_params);
#endif
    if (!r->keep || code) forget_run(h);
    return code;
}

int keeps_history(INPUT_ARGUMENTS) {
    (void)inputs;
#ifdef HAS_RKLLMInferParam_keep_history
    return infer->keep_history;
#elif defined HAS_RKLLMInput
    (void)infer;
#endif
    return 0;
}

int start_run(handle *h, INPUT_ARGUMENTS, void *userdata) {
    run r = {.h = h, .userdata = userdata, .began = now_us()};
    if (h->unreadable) {
        fprintf(stderr, "GGML_ASSERT: double.c: model\n");
        abort();
    }
    check_texts(h);
    leak();
    h->limit = h->param.max_new_tokens;
#ifdef HAS_RKLLMInput
    if (!inputs || !infer) return -1;
    r.mode = infer->mode;
    r.keep = keeps_history(inputs, infer);
    if (r.mode != GENERATE && h->n_batch > 1) return fail(&r, "hidden states and logits need n_batch 1");
#ifdef HAS_RKLLMExtendParam_use_cross_attn
    if (h->param.extend_param.use_cross_attn && !h->has_cross) return fail(&r, "no cross attention parameters were set");
#endif
#ifdef HAS_RKLLMInferParam_max_new_tokens
    if (infer->max_new_tokens > 0) h->limit = infer->max_new_tokens;
#endif
    return whole_run(&r, inputs, infer);
#else
    if (!inputs) return -1;
    return whole_run(&r, inputs);
#endif
}
