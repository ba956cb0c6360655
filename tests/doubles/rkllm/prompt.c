/* From inputs to the tokens that the model sees, and to those that it answers. */
#include <stdlib.h>
#include <string.h>

#define SYSTEM "You are a double."

#ifdef HAS_RKLLMInput

enum { IMAGE_MARK = 1, VIDEO_MARK = 2 }; /* characters in a rendered text that stand for one row of an embedding */

typedef struct {
    const char *tag, *start, *end, *content;
    const float *rows;
    size_t items, each;
    char mark;
} medium;

/* Every tag becomes start, a mark for each row, end; NULL when there are not as many tags as items. */
static char *expand(char *text, const medium *m) {
    char *out, *from = text, *at;
    size_t size, found = 0;
    FILE *file = open_memstream(&out, &size);
    for (; (at = strstr(from, m->tag)); from = at + strlen(m->tag), found++) {
        fwrite(from, 1, at - from, file);
        fputs(m->start ? m->start : "", file);
        for (size_t i = 0; i < m->each; i++) fputc(m->mark, file);
        fputs(m->end ? m->end : "", file);
    }
    fputs(from, file);
    fclose(file);
    free(text);
    if (found == m->items) return out;
    say('E', "the prompt has %zu %s, the input %zu", found, m->tag, m->items);
    free(out);
    return NULL;
}

static int tokenize(handle *h, tokens *to, const char *text) {
#ifdef HAS_LLMTokenizerCallback
    if (!h->net.tokenizer) {
        int32_t length = strlen(text), room = length + 8, *ids = calloc(room, sizeof *ids);
        int n = h->calls->tokenizer_callback
                    ? h->calls->tokenizer_callback(h->calls->tokenizer_userdata, text, length, ids, room)
                    : -1;
        for (int i = 0; i < n && i < room; i++) push(to, ids[i]);
        free(ids);
        return n > 0 && n <= room ? 0 : -1;
    }
#endif
    (void)h;
    push_text(to, text);
    return 0;
}

/* Text between marks is tokenised, marks are tokens of their own. */
static int push_rendered(handle *h, tokens *to, char *text) {
    int code = 0;
    while (*text && !code) {
        size_t length = strcspn(text, "\1\2");
        char after = text[length];
        text[length] = 0;
        if (length) code = tokenize(h, to, text);
        if (after) push(to, after == IMAGE_MARK ? IMAGE : VIDEO);
        text += length + !!after;
    }
    return code;
}

#ifdef HAS_rkllm_set_chat_template
static int templated(const handle *h) {
    if (!h->own_template && !strcmp(h->net.template, "none"))
        say('W', "Chat template auto-parsing failed: please configure it via rkllm_set_chat_template");
    return h->own_template || strcmp(h->net.template, "none");
}

static void render(handle *h, FILE *out, const char *text, const RKLLMInput *in, int first) {
    const char *role = "user", *tag = NULL;
    int thinking = 1;
#ifdef HAS_RKLLMInput_role
    role = in->role && !strcmp(in->role, "tool") ? "tool" : "user";
    tag = *role == 't' ? h->tag : NULL;
    thinking = in->enable_thinking;
#endif
    (void)in;
    if (h->own_template) {
        if (first) fputs(h->system, out), h->n_system = ftell(out);
        fprintf(out, "%s%s%s", h->prefix, text, h->postfix);
        return;
    }
    if (first) {
        fprintf(out, "<|system|>%s", h->tools && h->system ? h->system : SYSTEM);
        if (h->tools) fprintf(out, "<tools>%s</tools>", h->tools);
        h->n_system = ftell(out);
    }
    fprintf(out, "<|%s|>", role);
    if (tag) fprintf(out, "<%s>", tag);
    fputs(text, out);
    if (tag) fprintf(out, "</%s>", tag);
    fprintf(out, "<|assistant|>%s", thinking ? "" : "<|nothink|>");
}
#endif

/* The turn as the model gets it; the first one has the system prompt before it. */
static char *rendered(handle *h, const stream *s, const char *text, const RKLLMInput *in) {
    char *made;
    size_t size;
    FILE *out = open_memstream(&made, &size);
#ifdef HAS_rkllm_set_chat_template
    if (templated(h))
        render(h, out, text, in, s->cache.n == 0);
    else
#endif
        fputs(text, out);
    (void)h, (void)s, (void)in;
    fclose(out);
    return made;
}

static int check_medium(const handle *h, const medium *m) {
    FILE *out = begin_record("embedding");
    if (m->rows && m->items && m->each && m->content) {
        record_text(out, "tag", m->tag);
        record_text(out, "start", m->start);
        record_text(out, "end", m->end);
        record_text(out, "content", m->content);
        record_bytes(out, "floats", m->rows, m->items * m->each * h->net.hidden * sizeof(float));
        end_record(out);
        return 0;
    }
    end_record(out);
    say('E', "The n_image/n_image_token of multimodal_input is not set");
    return -1;
}

static int media_of(const handle *h, const RKLLMMultiModalInput *m, medium found[2]) {
    int n = 0;
#ifdef HAS_RKLLMMultiModalInput_image
    (void)h;
    if (m->image.image_embed || !m->video.video_embed)
        found[n++] = (medium){"<image>", m->image.image_start, m->image.image_end, m->image.image_content,
                              m->image.image_embed, m->image.n_image, m->image.n_image_tokens, IMAGE_MARK};
    if (m->video.video_embed)
        found[n++] = (medium){"<video>", m->video.video_start, m->video.video_end, m->video.video_content,
                              m->video.video_embed, m->video.n_video,
                              m->video.n_frame_per_video * m->video.n_frame_tokens, VIDEO_MARK};
#else
    size_t items = 1;
#ifdef HAS_RKLLMMultiModalInput_n_image
    items = m->n_image;
#endif
    found[n++] = (medium){"<image>", h->param.img_start, h->param.img_end, h->param.img_content,
                          m->image_embed, items, m->n_image_tokens, IMAGE_MARK};
#endif
    return n;
}

static int push_multimodal(handle *h, stream *s, const RKLLMInput *in) {
    medium found[2];
    const RKLLMMultiModalInput *m = &in->u.multimodal_input;
    if (!m->prompt) return -1;
    char *text = rendered(h, s, m->prompt, in);
    int n = media_of(h, m, found), code = 0;
    for (int i = 0; i < n && text && !code; i++) {
        code = check_medium(h, &found[i]);
        if (!code) text = expand(text, &found[i]);
    }
    if (text && !code) code = push_rendered(h, &s->prompt, text);
    if (!text) code = -1;
    free(text);
    return code;
}

static int push_embeddings(handle *h, tokens *to, const RKLLMEmbedInput *in) {
    FILE *out = begin_record("embedding");
    if (!in->embed || !in->n_tokens) return end_record(out), -1;
    record_bytes(out, "floats", in->embed, in->n_tokens * h->net.hidden * sizeof(float));
    end_record(out);
    for (size_t i = 0; i < in->n_tokens; i++) push(to, (int32_t)in->embed[i * h->net.hidden]);
    return 0;
}

static int push_ids(tokens *to, const RKLLMTokenInput *in) {
    FILE *out = begin_record("ids");
    if (!in->input_ids || !in->n_tokens) return end_record(out), -1;
    record_bytes(out, "ids", in->input_ids, in->n_tokens * sizeof *in->input_ids);
    end_record(out);
    for (size_t i = 0; i < in->n_tokens; i++) push(to, in->input_ids[i]);
    return 0;
}

int build_prompt(handle *h, stream *s, int index, INPUT_ARGUMENTS) {
    const RKLLMInput *in = &inputs[index];
    char *text;
    int code = -1;
    (void)infer;
    s->prompt.n = s->answer.n = s->at = s->part[0] = 0;
    switch (in->input_type) {
    case RKLLMInputType_PROMPT:
        if (!in->u.prompt_input) return -1;
        text = rendered(h, s, in->u.prompt_input, in);
        code = push_rendered(h, &s->prompt, text);
        free(text);
        break;
    case RKLLMInputType_TOKEN: code = push_ids(&s->prompt, &in->u.token_input); break;
    case RKLLMInputType_EMBED: code = push_embeddings(h, &s->prompt, &in->u.embed_input); break;
    case RKLLMInputType_MULTIMODAL: code = push_multimodal(h, s, in); break;
    }
    return s->prompt.n ? code : -1;
}

/* What the user said, without the template. */
static void push_said(const handle *h, const stream *s, tokens *to, const RKLLMInput *in) {
    if (!h->net.tokenizer)
        for (int i = 0; i < s->prompt.n; i++) push(to, s->prompt.ids[i]);
    else if (in->input_type == RKLLMInputType_PROMPT)
        push_text(to, in->u.prompt_input);
    else if (in->input_type == RKLLMInputType_MULTIMODAL)
        push_text(to, in->u.multimodal_input.prompt);
    else
        for (int i = 0; i < s->prompt.n; i++) push(to, s->prompt.ids[i]);
}

#else /* a prompt is a text */

int build_prompt(handle *h, stream *s, int index, INPUT_ARGUMENTS) {
    (void)h, (void)index;
    s->prompt.n = s->answer.n = s->at = s->part[0] = 0;
    push_text(&s->prompt, inputs);
    return s->prompt.n ? 0 : -1;
}

#endif

/* The caller's embeddings of tokens, where the model has none. */
int embed_by_caller(handle *h, int32_t *ids, int n) {
#ifdef HAS_LLMGetEmbedCallback
    if (!h->net.embed && n) {
        size_t size = (size_t)n * h->net.hidden * sizeof(float);
        float *rows = calloc(1, size);
        int code = h->calls->embed_callback
                       ? h->calls->embed_callback(h->calls->embed_userdata, ids, n, rows, size)
                       : -1;
        FILE *out = begin_record("embedded");
        record_bytes(out, "floats", rows, size);
        end_record(out);
        free(rows);
        return code ? -1 : 0;
    }
#endif
    (void)h, (void)ids, (void)n;
    return 0;
}

static void push_seen(const stream *s, tokens *to) {
    for (int i = 0; i < s->cache.n; i++) push(to, s->cache.ids[i]);
    for (int i = 0; i < s->prompt.n; i++) push(to, s->prompt.ids[i]);
}

static void push_sampling(const handle *h, tokens *to, INPUT_ARGUMENTS) {
    char text[256];
    const RKLLMParam *p = &h->param;
#define WRITE(p)                                                                                             \
    snprintf(text, sizeof text, "top_k=%d top_p=%g temperature=%g repeat_penalty=%g frequency_penalty=%g "    \
             "presence_penalty=%g mirostat=%d mirostat_tau=%g mirostat_eta=%g",                               \
             p->top_k, p->top_p, p->temperature, p->repeat_penalty, p->frequency_penalty,                     \
             p->presence_penalty, p->mirostat, p->mirostat_tau, p->mirostat_eta)
    WRITE(p);
#ifdef HAS_RKLLMInferParam_sampling_params
    const RKLLMSamplingParam *own = infer->sampling_params;
    if (own) WRITE(own);
#elif defined HAS_RKLLMInput
    (void)infer;
#endif
    (void)inputs;
    push_text(to, text);
}

#ifdef HAS_RKLLMLoraParam
static void push_lora(const handle *h, tokens *to, const RKLLMInferParam *infer) {
    char text[128];
    for (int i = 0; i < h->n_loras && infer->lora_params; i++)
        if (!strcmp(h->loras[i].name, infer->lora_params->lora_adapter_name)) {
            snprintf(text, sizeof text, "(%s %g) ", h->loras[i].name, h->loras[i].scale);
            push_text(to, text);
        }
}
#endif

static int drivers_garbage(void) {
    int a = 0, b = 9, c = 8;
    sscanf(modes.driver, "%d.%d.%d", &a, &b, &c);
    return a * 10000 + b * 100 + c < 907;
}

/* All that the model would answer, at most limit tokens. */
void build_answer(handle *h, stream *s, int index, int limit, INPUT_ARGUMENTS) {
    const char *op = h->net.op;
    int endless = modes.endless;
    tokens *to = &s->answer;
    (void)index;
#ifdef HAS_RKLLMLoraParam
    push_lora(h, to, infer);
#endif
#ifdef HAS_RKLLMParam_ignore_eos_token
    endless |= h->param.ignore_eos_token;
#endif
    if (drivers_garbage()) {
        say('E', "matmul(w8a8) run failed");
        for (int i = 0; i < limit; i++) push(to, '!');
    } else if (!strcmp(op, "count")) {
        char text[16];
        for (int i = 1; to->n < limit; i++) {
            snprintf(text, sizeof text, "%d ", i);
            push_text(to, text);
        }
    } else if (!strcmp(op, "show")) {
        push_seen(s, to);
    } else if (!strcmp(op, "say")) {
        push_text(to, h->net.say);
    } else if (!strcmp(op, "sampling")) {
#ifdef HAS_RKLLMInput
        push_sampling(h, to, inputs, infer);
    } else {
        push_said(h, s, to, &inputs[index]);
#else
        push_sampling(h, to, inputs);
    } else {
        push_text(to, inputs);
#endif
    }
    while (endless && to->n < limit) push(to, '.');
    if (to->n > limit) to->n = limit;
}
