/* Models of the double: a text that says what the model is, see parse_line. */
#include "double3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[] = "RKNX DOUBLE 1"; /* RKNX: what files for the coprocessor start with */

static int index_of(const char *word, const char *const *words, int count) {
    for (int i = 0; word && i < count; i++)
        if (!strcmp(word, words[i])) return i;
    return -1;
}

static int type_of(const char *word) {
    static const char *const words[] = {"float32", "float16", "int8",  "uint8",  "int16", "uint16",
                                        "int32",   "uint32",  "int64", "uint64", "bool",  "int4"};
    return index_of(word, words, 12);
}

static int layout_of(const char *word) {
    static const char *const words[] = {"undefined", "nchw", "nhwc", "nc1hwc2", "chwn"};
    return index_of(word, words, 5);
}

static char *next(char **rest) { return strtok_r(NULL, " \t", rest); }

static int parse_dims(uint32_t *dims, uint32_t rank, char **rest) {
    for (uint32_t i = 0; i < rank; i++) {
        char *word = next(rest);
        if (!word) return 0;
        dims[i] = atoi(word);
    }
    return 1;
}

/* input|output|post NAME TYPE LAYOUT RANK DIMS... [SCALE ZERO_POINT] [core K] */
static int parse_tensor(tensor *t, char **rest) {
    char *name = next(rest), *type = next(rest), *layout = next(rest), *rank = next(rest), *word;
    if (!rank || type_of(type) < 0 || layout_of(layout) < 0 || atoi(rank) < 1 || atoi(rank) > 16) return 0;
    memset(t, 0, sizeof *t);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->type = type_of(type);
    t->layout = layout_of(layout);
    t->rank = atoi(rank);
    t->scale = 1;
    if (!parse_dims(t->dims, t->rank, rest)) return 0;
    while ((word = next(rest))) {
        char *value = next(rest);
        if (!value) return 0;
        if (!strcmp(word, "core")) {
            t->core = atoi(value);
        } else {
            t->quantised = 1;
            t->scale = atof(word);
            t->zp = atoi(value);
        }
    }
    return 1;
}

/* shape DIMS-OF-INPUTS... DIMS-OF-OUTPUTS... */
static int parse_shape(model *net, char **rest) {
    uint32_t k = net->n_shapes++;
    for (uint32_t i = 0; i < net->n_in; i++)
        if (!parse_dims(net->in_dims[k][i], net->in[i].rank, rest)) return 0;
    for (uint32_t i = 0; i < net->n_out; i++)
        if (!parse_dims(net->out_dims[k][i], net->out[i].rank, rest)) return 0;
    return 1;
}

static int parse_number(model *net, const char *key, const char *word) {
    struct {
        const char *key;
        uint32_t *to;
    } numbers[] = {{"cores", &net->cores},     {"weight", &net->weight}, {"internal", &net->internal},
                   {"latency", &net->latency_us}, {"vocab", &net->vocab},   {"hidden", &net->hidden},
                   {"context", &net->context}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(key, numbers[i].key)) return *numbers[i].to = atoi(word), 1;
    return 0;
}

/* cores, weight, internal (bytes), latency (us), vocab, hidden, context: numbers
   op identity | op affine A B | op fail CODE     generate count | generate echo     eos ID
   utf8: tokens below 256 are bytes               thread caller: callbacks come on the caller's thread
   stubborn: go on whatever the result callback returns */
static int parse_line(model *net, char *line) {
    char *rest = NULL, *key = strtok_r(line, " \t", &rest), *word;
    if (!key || *key == '#') return 1;
    if (!strcmp(key, "input")) return net->n_in < MAX_IO && parse_tensor(&net->in[net->n_in++], &rest);
    if (!strcmp(key, "output")) return net->n_out < MAX_IO && parse_tensor(&net->out[net->n_out++], &rest);
    if (!strcmp(key, "post")) return net->n_post < MAX_IO && parse_tensor(&net->post[net->n_post++], &rest);
    if (!strcmp(key, "shape")) return net->n_shapes < MAX_SHAPES && parse_shape(net, &rest);
    if (!strcmp(key, "template")) return snprintf(net->chat_template, 256, "%s", rest ? rest : ""), 1;
    if (!strcmp(key, "string")) return snprintf(net->string, 256, "%s", rest ? rest : ""), 1;
    if (!strcmp(key, "utf8")) return net->utf8 = 1;
    if (!strcmp(key, "stubborn")) return net->stubborn = 1;
    if (!(word = next(&rest))) return 0;
    if (!strcmp(key, "generate")) return net->echo = !strcmp(word, "echo"), 1;
    if (!strcmp(key, "eos")) return net->eos = atoi(word), 1;
    if (!strcmp(key, "thread")) return net->on_caller = !strcmp(word, "caller"), 1;
    if (!strcmp(key, "op")) {
        snprintf(net->op, sizeof net->op, "%s", word);
        net->a = (word = next(&rest)) ? atof(word) : 1;
        net->b = (word = next(&rest)) ? atof(word) : 0;
        return 1;
    }
    return parse_number(net, key, word);
}

model *parse_model(const char *text, size_t size) {
    if (size < sizeof magic || memcmp(text, magic, sizeof magic - 1)) return NULL;
    model *net = calloc(1, sizeof *net);
    char *copy = strndup(text + sizeof magic, size - sizeof magic), *rest = NULL;
    int good = 1;
    net->users = 1;
    net->cores = 1;
    net->a = 1;
    net->eos = -1;
    strcpy(net->op, "identity");
    for (char *line = strtok_r(copy, "\n", &rest); line && good; line = strtok_r(NULL, "\n", &rest))
        good = parse_line(net, line);
    free(copy);
    if (good && net->n_in && net->n_out && net->cores >= 1 && net->cores <= MAX_CORES) return net;
    free(net);
    return NULL;
}

void free_model(model *net) {
    if (net && atomic_fetch_sub(&net->users, 1) == 1) free(net);
}

char *slurp(const char *path, size_t *size) {
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    char *data = length >= 0 ? calloc(1, length + 1) : NULL;
    *size = data ? fread(data, 1, length, file) : 0;
    fclose(file);
    return data;
}
