/* Model files and tokens. A model of the double looks like a genuine one from outside: four masked bytes, version 3, two
   counts, the toolkit's version at the end. Between lies the text "RKLLM DOUBLE 1" with lines of a word and a value:

     op echo       answers what the user said; show: the whole prompt as the model sees it; count: "1 2 3 ...", no end of its
                   own; sampling: the values that are in force; say TEXT: that
     template none the library cannot parse the model's template

   and numbers: vocab, hidden, limit (of the context), cores, size_mb, tokenizer and embed (0: the caller has to), and more. */
#include <stdlib.h>
#include <string.h>

#define MARK "RKLLM DOUBLE 1\n"
#define TOOLKIT "rkllm-toolkit version: "

static void setting(network *net, const char *name, const char *value) {
    const struct { const char *name; int *at; } numbers[] = {
        {"vocab", &net->vocab}, {"hidden", &net->hidden}, {"limit", &net->limit}, {"cores", &net->cores},
        {"size_mb", &net->size_mb}, {"tokenizer", &net->tokenizer}, {"embed", &net->embed},
        {"full_attention", &net->full_attention}, {"prefill_us", &net->prefill_us}, {"token_us", &net->token_us},
        {"layers", &net->layers}, {"kv_heads", &net->kv_heads}, {"head_size", &net->head_size},
    };
    const struct { const char *name; char *at; size_t size; } texts[] = {
        {"op", net->op, sizeof net->op}, {"say", net->say, sizeof net->say}, {"dtype", net->dtype, sizeof net->dtype},
        {"template", net->template, sizeof net->template}, {"platform", net->platform, sizeof net->platform},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(name, numbers[i].name)) *numbers[i].at = atoi(value);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(name, texts[i].name)) snprintf(texts[i].at, texts[i].size, "%s", value);
}

static char *content(const char *path, size_t *size) {
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *size = ftell(file);
    rewind(file);
    char *text = calloc(1, *size + 1);
    *size = fread(text, 1, *size, file);
    fclose(file);
    return text;
}

static int is_known(const char *op) {
    const char *ops[] = {"echo", "show", "count", "sampling", "say"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(op, ops[i])) return 1;
    say('E', "the double knows no op %s", op);
    return 0;
}

/* Whether it is a model of the double, with an op that it knows. */
int read_model(network *net, const char *path) {
    size_t size = 0;
    char *text = content(path, &size), *rest = NULL;
    *net = (network){.op = "echo", .template = "auto", .platform = "RK3588", .dtype = "W8A8", .toolkit = "unknown",
                     .vocab = VOCAB, .hidden = 8, .limit = 4096, .cores = 3, .size_mb = 100, .tokenizer = 1, .embed = 1,
                     .full_attention = 1, .layers = 2, .kv_heads = 1, .head_size = 4};
    char *from = size > 24 ? memmem(text, size, MARK, strlen(MARK)) : NULL;
    if (from) {
        char *end = memmem(from, size - (from - text), TOOLKIT, strlen(TOOLKIT));
        if (end) {
            snprintf(net->toolkit, sizeof net->toolkit, "%s", end + strlen(TOOLKIT));
            *end = 0;
        }
        for (char *line = strtok_r(from + strlen(MARK), "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
            char *value = strchr(line, ' ');
            if (!value) continue;
            *value = 0;
            setting(net, line, value + 1);
        }
    }
    free(text);
    return from != NULL && is_known(net->op);
}

void push(tokens *to, int32_t id) {
    if (to->n == to->room) {
        to->room = to->room ? 2 * to->room : 256;
        to->ids = realloc(to->ids, to->room * sizeof *to->ids);
    }
    to->ids[to->n++] = id;
}

void push_text(tokens *to, const char *text) {
    for (const unsigned char *c = (const void *)(text ? text : ""); *c; c++) push(to, *c);
}

void drop(tokens *which) {
    free(which->ids);
    *which = (tokens){0};
}
