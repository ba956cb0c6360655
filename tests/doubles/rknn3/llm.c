/* Generation. The first value of an embedding is the token's number, so the double knows what it reads. It counts on
   (count) or repeats the input (echo), and calls tokenizer, embed, output, sampling and result in this order. */
#include "double3.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        int code_ = (call);                                                                                  \
        if (code_) return code_;                                                                             \
    } while (0)

typedef struct {
    session *s;
    rknn3_llm_input *inputs; /* copies; what they point to is the caller's until the end */
    uint32_t n_inputs;
    rknn3_llm_infer_param param;
    RKLLMCallback calls;
    int32_t ids[MAX_TOKENS], held[8];
    int n, n_held, lead;
    float bias;
    float16 *rows, *logits;
} run;

static int report(run *r, const int32_t *ids, int n, int state) {
    RKLLMResult result = {(int *)ids, n};
    /* results of the last call of a run may be unusable, so they are */
    int code = r->calls.result_callback(r->calls.result_userdata, state > 1 ? NULL : &result, state);
    return code && !r->s->owner->net->stubborn ? RKNN3_ERR_RUN_TASK_FAILED : RKNN3_SUCCESS;
}

/* -- input ----------------------------------------------------------------------------------------------- */

static int tokenize(run *r, const char *text, int32_t *ids, int *n) {
    int length = strlen(text), max = length + 2;
    if (!length) return *n = 0;
    if (!r->calls.tokenizer_callback) return RKNN3_ERR_ARGUMENT_INVALID;
    if (max > MAX_TOKENS) return RKNN3_ERR_INPUT_INVALID;
    *n = r->calls.tokenizer_callback(r->calls.tokenizer_userdata, text, length, ids, max);
    return *n > 0 && *n <= max ? RKNN3_SUCCESS : RKNN3_ERR_RUN_TASK_FAILED;
}

static int embed(run *r, int32_t *ids, int n, float16 *rows) {
    uint64_t size = (uint64_t)n * r->s->owner->net->hidden * sizeof *rows;
    if (!r->calls.embed_callback) return RKNN3_ERR_ARGUMENT_INVALID;
    for (int i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= r->s->owner->net->vocab) return RKNN3_ERR_INPUT_INVALID;
    return r->calls.embed_callback(r->calls.embed_userdata, ids, n, rows, size) ? RKNN3_ERR_RUN_TASK_FAILED
                                                                                : RKNN3_SUCCESS;
}

static int add_text(run *r, const char *text) {
    int n = 0;
    if (r->n + strlen(text) + 2 > MAX_TOKENS) return RKNN3_ERR_INPUT_INVALID;
    CHECK(tokenize(r, text, r->ids + r->n, &n));
    r->n += n;
    return RKNN3_SUCCESS;
}

/* A media tag becomes start, n times content, end. */
static char *expand(const char *text, const char *tag, uint64_t items, uint64_t each, const char *const marks[3]) {
    size_t size = strlen(text) + 1;
    for (int i = 0; i < 3; i++) size += items * each * (marks[i] ? strlen(marks[i]) : 0);
    char *out = calloc(1, size);
    const char *from = text, *at;
    uint64_t found = 0;
    while ((at = strstr(from, tag))) {
        strncat(out, from, at - from);
        if (++found > items) break;
        if (marks[0]) strcat(out, marks[0]);
        for (uint64_t i = 0; i < each; i++) strcat(out, marks[2]);
        if (marks[1]) strcat(out, marks[1]);
        from = at + strlen(tag);
    }
    strcat(out, from);
    if (found == items) return out;
    free(out);
    return NULL;
}

/* system on the first turn, tools, prefix + prompt + postfix */
static int add_turn(run *r, const char *prompt) {
    session *s = r->s;
    if (s->n_total == 0 && s->system) {
        CHECK(add_text(r, s->system));
        s->n_system = r->n;
    }
    const char *parts[] = {s->tools, s->prefix, prompt, s->postfix};
    char *text = NULL;
    size_t size = 1;
    for (int i = 0; i < 4; i++) size += parts[i] ? strlen(parts[i]) : 0;
    text = calloc(1, size);
    for (int i = 0; i < 4; i++) strcat(text, parts[i] ? parts[i] : "");
    int code = add_text(r, text);
    free(text);
    return code;
}

static int add_tokens(run *r, const int32_t *tokens, uint64_t n) {
    if (!tokens || !n || n > (uint64_t)(MAX_TOKENS - r->n)) return RKNN3_ERR_INPUT_INVALID;
    memcpy(r->ids + r->n, tokens, n * sizeof *tokens);
    r->n += n;
    return RKNN3_SUCCESS;
}

typedef struct {
    const char *tag;
    const float16 *embed;
    uint64_t items, each;
    const char *marks[3]; /* start, end, content */
} media;

static int add_media(run *r, const rknn3_llm_multimodal_tensor *m) {
    media all[] = {{"<image>", m->image.image_embed, m->image.n_image, m->image.n_image_tokens,
                    {m->image.image_start, m->image.image_end, m->image.image_content}},
                   {"<audio>", m->audio.audio_embed, m->audio.n_audio, m->audio.n_audio_tokens,
                    {m->audio.audio_start, m->audio.audio_end, m->audio.audio_content}},
                   {"<video>", m->video.video_embed, m->video.n_video,
                    m->video.n_frame_tokens * m->video.n_frame_per_video,
                    {m->video.video_start, m->video.video_end, m->video.video_content}}};
    uint32_t hidden = r->s->owner->net->hidden;
    int code = RKNN3_SUCCESS;
    char *text = strdup(m->prompt ? m->prompt : "");
    for (int i = 0; i < 3 && m->prompt && text; i++) {
        if (!all[i].embed) continue;
        char *longer = expand(text, all[i].tag, all[i].items, all[i].each, all[i].marks);
        free(text);
        text = longer;
    }
    code = !text ? RKNN3_ERR_INPUT_INVALID : m->prompt ? add_turn(r, text) : add_tokens(r, m->tokens, m->n_tokens);
    free(text);
    CHECK(code);
    CHECK(embed(r, r->ids, r->n, r->rows));
    for (int i = 0; i < 3; i++) {
        int32_t mark[64];
        int n = 0;
        uint64_t used = 0;
        if (!all[i].embed) continue;
        CHECK(tokenize(r, all[i].marks[2], mark, &n));
        for (int k = 0; k < r->n; k++)
            if (n == 1 && r->ids[k] == mark[0] && used < all[i].items * all[i].each)
                memcpy(r->rows + (size_t)k * hidden, all[i].embed + used++ * hidden, hidden * sizeof *r->rows);
        if (used != all[i].items * all[i].each) return RKNN3_ERR_INPUT_INVALID;
    }
    return RKNN3_SUCCESS;
}

static int add_embeds(run *r, const rknn3_llm_tensor *t) {
    if (!t->embed || !t->n_tokens || t->n_tokens > MAX_TOKENS) return RKNN3_ERR_INPUT_INVALID;
    r->n = t->n_tokens;
    memcpy(r->rows, t->embed, (size_t)r->n * r->s->owner->net->hidden * sizeof *r->rows);
    return RKNN3_SUCCESS;
}

/* An auxiliary tensor moves every prediction by its first value. */
static int add_aux(run *r, const rknn3_tensor *aux) {
    model *net = r->s->owner->net;
    if (!aux->mem || !aux->attr || !known(aux->mem, KIND_MEMORY)) return RKNN3_ERR_INPUT_INVALID;
    if (aux->attr->index == 0 || aux->attr->index >= net->n_in) return RKNN3_ERR_INPUT_INVALID;
    tensor t = input_of(r->s->owner, aux->attr->index);
    if (aux->mem->size < stored_size(&t)) return RKNN3_ERR_INPUT_INVALID;
    r->bias += read_real(&t, ((memory *)aux->mem)->device, 0);
    return RKNN3_SUCCESS;
}

/* Fills rows and replaces ids by what the rows say. */
static int read_input(run *r) {
    const rknn3_llm_input *main = NULL;
    for (uint32_t i = 0; i < r->n_inputs; i++) {
        const rknn3_llm_input *in = &r->inputs[i];
        if (in->input_type == RKNN3_LLM_INPUT_AUX) {
            CHECK(add_aux(r, &in->aux_input));
            continue;
        }
        if (main || !in->role) return RKNN3_ERR_INPUT_INVALID;
        main = in;
    }
    if (!main) return RKNN3_ERR_INPUT_INVALID;
    switch (main->input_type) {
    case RKNN3_LLM_INPUT_PROMPT:
        if (!main->llm_input.prompt) return RKNN3_ERR_INPUT_INVALID;
        CHECK(add_turn(r, main->llm_input.prompt));
        CHECK(embed(r, r->ids, r->n, r->rows));
        break;
    case RKNN3_LLM_INPUT_TOKEN:
        CHECK(add_tokens(r, main->llm_input.tokens, main->llm_input.n_tokens));
        CHECK(embed(r, r->ids, r->n, r->rows));
        break;
    case RKNN3_LLM_INPUT_EMBED: CHECK(add_embeds(r, &main->llm_input)); break;
    case RKNN3_LLM_INPUT_MULTIMODAL: CHECK(add_media(r, &main->multimodal_input)); break;
    default: return RKNN3_ERR_INPUT_INVALID;
    }
    for (int i = 0; i < r->n; i++)
        r->ids[i] = lroundf(float_of(r->rows[(size_t)i * r->s->owner->net->hidden]));
    return RKNN3_SUCCESS;
}

/* -- generation ------------------------------------------------------------------------------------------ */

/* The wanted outputs: the first value of each is the wanted token. */
static int show(run *r, int wanted, int state) {
    for (uint32_t i = 0; i < r->calls.n_output_tensors; i++) {
        rknn3_tensor *t = &r->calls.output_tensors[i];
        if (!known(t->mem, KIND_MEMORY) || t->attr->index >= r->s->owner->net->n_out) return RKNN3_ERR_OUTPUT_INVALID;
        tensor out = output_of(r->s->owner, t->attr->index);
        write_real(&out, t->mem->virt_addr, 0, wanted);
        write_real(&out, ((memory *)t->mem)->device, 0, wanted);
    }
    if (!r->calls.output_callback) return RKNN3_SUCCESS;
    int code = r->calls.output_callback(r->calls.output_userdata, r->calls.output_tensors, r->calls.n_output_tensors,
                                        state);
    return code ? RKNN3_ERR_RUN_TASK_FAILED : RKNN3_SUCCESS;
}

static int sample(run *r, int wanted, int32_t *token) {
    uint32_t vocab = r->s->owner->net->vocab;
    *token = wanted;
    if (!r->calls.sampling_callback) return RKNN3_SUCCESS;
    memset(r->logits, 0, vocab * sizeof *r->logits);
    r->logits[wanted % (int)vocab] = half_of(8);
    *token = r->calls.sampling_callback(r->calls.sampling_userdata, r->logits, (char *)"logits");
    return *token >= 0 && (uint32_t)*token < vocab ? RKNN3_SUCCESS : RKNN3_ERR_RUN_TASK_FAILED;
}

static int is_eos(const run *r, int token) {
    const rknn3_vocab_info *v = &r->s->param.vocab_info;
    if (v->ignore_eos_token) return 0;
    for (int i = 0; i < v->n_special_eos_id && i < RKNN3_MAX_SPECIAL_EOS_ID_NUM; i++)
        if (v->special_eos_id[i] == token) return 1;
    return token == r->s->owner->net->eos;
}

/* Holds tokens back while their bytes are no complete character. */
static int pass_on(run *r, int token) {
    r->held[r->n_held++] = token;
    if (r->s->owner->net->utf8) {
        if (token >= 0xf0 && token < 0xf8) r->lead = 3;
        else if (token >= 0xe0 && token < 0xf0) r->lead = 2;
        else if (token >= 0xc0 && token < 0xe0) r->lead = 1;
        else if (r->lead && token >= 0x80 && token < 0xc0) r->lead--;
        else r->lead = 0;
    }
    if (r->lead && r->n_held < 8) return report(r, NULL, 0, RKLLM_RUN_WAITING);
    int n = r->n_held;
    r->n_held = r->lead = 0;
    return report(r, r->held, n, RKLLM_RUN_NORMAL);
}

static int pause_here(run *r) {
    if (!r->s->paused) return RKNN3_SUCCESS;
    CHECK(report(r, NULL, 0, RKLLM_RUN_PAUSE));
    while (r->s->paused && !r->s->stop) sleep_until_us(now_us() + 200);
    return report(r, NULL, 0, RKLLM_RUN_RESUME);
}

static int grow(session *s, int n) {
    int size = s->param.max_context_len, total = s->n_total + n, normal = s->policy == RKNN3_KVCACHE_POLICY_NORMAL;
    if (total > size && normal) return 0;
    s->n_total = total > size ? size : total;
    return 1;
}

static int decode(run *r, int *state) {
    session *s = r->s;
    model *net = s->owner->net;
    int last = r->ids[r->n - 1];
    for (int step = 0;; step++) {
        int64_t due = now_us() + net->latency_us + extra_latency_us;
        int wanted = net->echo ? (step < r->n ? r->ids[step] : net->eos) : last + 1;
        int32_t token;
        if (s->stop) return *state = RKLLM_RUN_STOP, RKNN3_SUCCESS;
        CHECK(pause_here(r));
        if (wanted < 0) return *state = RKLLM_RUN_FINISH, RKNN3_SUCCESS;
        CHECK(show(r, wanted, step ? RKLLM_OUTPUT_CALLBACK_DECODE_PROCESSING
                                   : RKLLM_OUTPUT_CALLBACK_PREFILL_FINISHED));
        CHECK(sample(r, (int)(wanted + r->bias) % (int)net->vocab, &token));
        sleep_until_us(due);
        s->n_decode++;
        if (is_eos(r, token)) return *state = RKLLM_RUN_FINISH, RKNN3_SUCCESS;
        CHECK(pass_on(r, token));
        if (s->stop) return *state = RKLLM_RUN_STOP, RKNN3_SUCCESS;
        *state = RKLLM_RUN_MAX_NEW_TOKEN_REACHED;
        if (r->param.max_new_tokens > 0 && step + 1 >= r->param.max_new_tokens) return RKNN3_SUCCESS;
        if (!grow(s, 1)) return RKNN3_SUCCESS;
        CHECK(embed(r, &token, 1, r->rows));
        last = lroundf(float_of(r->rows[0]));
    }
}

static int generate(run *r, int *state) {
    session *s = r->s;
    if (!r->param.keep_history) s->n_total = 0;
    s->n_prefill = s->n_decode = 0;
    CHECK(read_input(r));
    if (!r->n || r->n > s->param.max_context_len || !grow(s, r->n)) return RKNN3_ERR_INPUT_INVALID;
    s->n_prefill = r->n;
#ifdef LATER
    if (r->param.prefill_only || r->param.disable_sampling)
        return *state = RKLLM_RUN_FINISH, show(r, r->ids[r->n - 1] + 1, RKLLM_OUTPUT_CALLBACK_PREFILL_FINISHED);
#endif
    CHECK(decode(r, state));
    if (r->n_held) CHECK(report(r, r->held, r->n_held, RKLLM_RUN_NORMAL));
    return show(r, r->ids[r->n - 1], RKLLM_OUTPUT_CALLBACK_DECODE_FINISHED);
}

static int perform(run *r) {
    context *c = r->s->owner;
    int state = RKLLM_RUN_ERROR;
    if (atomic_exchange(&c->busy, 1)) {
        live(RACES, 1);
        return RKNN3_ERR_RUN_TASK_FAILED;
    }
    r->rows = calloc((size_t)MAX_TOKENS * c->net->hidden, sizeof *r->rows);
    r->logits = calloc(c->net->vocab, sizeof *r->logits);
    int code = generate(r, &state);
    free(r->rows);
    free(r->logits);
    atomic_store(&c->busy, 0);
    if (r->s->running) r->s->running = 2; /* the caller learns of the end now and may destroy the session */
    report(r, NULL, 0, code ? RKLLM_RUN_ERROR : state);
    return code;
}

static void *background(void *argument) {
    run *r = argument;
    perform(r);
    free(r->inputs);
    free(r);
    return NULL;
}

static void *foreground(void *argument) { return (void *)(intptr_t)perform(argument); }

int start_run(session *s, rknn3_llm_input *inputs, uint32_t n, rknn3_llm_infer_param *param, int wait) {
    void *code = NULL;
    if (!inputs || !n || !s->calls.result_callback) return RKNN3_ERR_ARGUMENT_INVALID;
    run *r = calloc(1, sizeof *r);
    r->s = s;
    r->n_inputs = n;
    r->inputs = memcpy(calloc(n, sizeof *inputs), inputs, n * sizeof *inputs);
    r->calls = s->calls;
    if (param) r->param = *param;
    s->stop = 0;
    if (wait && s->owner->net->on_caller) {
        code = foreground(r);
    } else if (wait) {
        pthread_t thread;
        pthread_create(&thread, NULL, foreground, r);
        pthread_join(thread, &code);
    } else {
        s->running = 1;
        live(LIVE_THREADS, 1);
        pthread_create(&s->thread, NULL, background, r);
        return RKNN3_SUCCESS;
    }
    free(r->inputs);
    free(r);
    return (int)(intptr_t)code;
}
