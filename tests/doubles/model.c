/* Models of the double: a text that says what the model is. Files of the genuine format take their
   description from the file that RKNN_DOUBLE_MODEL names. */
#include "double.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[] = "RKDOUBLE";

static int type_of(const char *word) {
    static const char *const words[] = {"float32", "float16", "int8",   "uint8", "int16", "uint16",
                                        "int32",   "uint32",  "int64", "bool"};
    for (int i = 0; i < (int)(sizeof words / sizeof *words); i++)
        if (!strcmp(word, words[i])) return i;
    return -1;
}

static char *next(char **rest) { return strtok_r(NULL, " \t", rest); }

/* input|output NAME TYPE RANK DIMS... [SCALE ZERO_POINT] [native] */
static int parse_tensor(tensor *t, char **rest) {
    char *name = next(rest), *type = next(rest), *rank = next(rest), *word;
    if (!name || !type || !rank || type_of(type) < 0) return 0;
    memset(t, 0, sizeof *t);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->type = type_of(type);
    t->rank = atoi(rank);
    t->scale = 1;
    for (uint32_t i = 0; i < t->rank && i < 16; i++) {
        if (!(word = next(rest))) return 0;
        t->dims[i] = atoi(word);
    }
    while ((word = next(rest))) {
        if (!strcmp(word, "native")) {
            t->native = 1;
        } else {
            t->quantised = 1;
            t->scale = atof(word);
            if (!(word = next(rest))) return 0;
            t->zp = atoi(word);
        }
    }
    return 1;
}

/* shape DIMS-OF-INPUTS... -> DIMS-OF-OUTPUTS... */
static int parse_shape(model *net, char **rest) {
    uint32_t k = net->n_shapes++;
    for (uint32_t i = 0; i < net->n_in; i++)
        for (uint32_t d = 0; d < net->in[i].rank; d++) {
            char *word = next(rest);
            if (!word) return 0;
            net->in_dims[k][i][d] = atoi(word);
        }
    next(rest); /* -> */
    for (uint32_t i = 0; i < net->n_out; i++)
        for (uint32_t d = 0; d < net->out[i].rank; d++) {
            char *word = next(rest);
            if (!word) return 0;
            net->out_dims[k][i][d] = atoi(word);
        }
    return 1;
}

/* attr NAME f32|i64|str VALUES... */
static int parse_attr(op_attr *a, char **rest) {
    char *name = next(rest), *type = next(rest), *word;
    if (!name || !type) return 0;
    memset(a, 0, sizeof *a);
    snprintf(a->name, sizeof a->name, "%s", name);
    if (!strcmp(type, "str")) {
        a->type = RKNN_TENSOR_UINT8;
        if ((word = next(rest))) snprintf(a->text, sizeof a->text, "%s", word);
        a->count = strlen(a->text);
        return 1;
    }
    a->type = strcmp(type, "f32") ? RKNN_TENSOR_INT64 : RKNN_TENSOR_FLOAT32;
    for (; a->count < 16 && (word = next(rest)); a->count++) {
        a->floats[a->count] = atof(word);
        a->ints[a->count] = atoll(word);
    }
    return 1;
}

static int parse_line(model *net, char *line) {
    char *rest = NULL, *key = strtok_r(line, " \t", &rest), *word;
    if (!key || *key == '#' || !strcmp(key, magic)) return 1;
    if (!strcmp(key, "input")) return net->n_in < MAX_IO && parse_tensor(&net->in[net->n_in++], &rest);
    if (!strcmp(key, "output")) return net->n_out < MAX_IO && parse_tensor(&net->out[net->n_out++], &rest);
    if (!strcmp(key, "shape")) return net->n_shapes < MAX_SHAPES && parse_shape(net, &rest);
    if (!strcmp(key, "attr")) return net->n_attrs < MAX_ATTRS && parse_attr(&net->attrs[net->n_attrs++], &rest);
    if (!strcmp(key, "string")) return snprintf(net->custom, sizeof net->custom, "%s", rest ? rest : ""), 1;
    if (!(word = next(&rest))) return 0;
    if (!strcmp(key, "platform")) snprintf(net->platform, sizeof net->platform, "%s", word);
    else if (!strcmp(key, "toolkit")) snprintf(net->toolkit, sizeof net->toolkit, "%s", word);
    else if (!strcmp(key, "weight")) net->weight = atoi(word);
    else if (!strcmp(key, "internal")) net->internal = atoi(word);
    else if (!strcmp(key, "latency")) net->latency_us = atoi(word);
    else if (!strcmp(key, "op")) {
        snprintf(net->op, sizeof net->op, "%s", word);
        net->a = (word = next(&rest)) ? atof(word) : 1;
        net->b = (word = next(&rest)) ? atof(word) : 0;
    } else return 0;
    return 1;
}

model *parse_model(const char *text, size_t size) {
    model *net = calloc(1, sizeof *net);
    char *copy = strndup(text, size), *rest = NULL;
    int good = 1;
    net->users = 1;
    net->a = 1;
    net->weight = net->internal = 4096;
    strcpy(net->op, "affine");
    strcpy(net->platform, "rk3588");
    strcpy(net->toolkit, VERSION);
    for (char *line = strtok_r(copy, "\n", &rest); line && good; line = strtok_r(NULL, "\n", &rest))
        good = parse_line(net, line);
    free(copy);
    if (good && net->n_in && net->n_out) return net;
    free(net);
    return NULL;
}

void free_model(model *net) {
    if (net && atomic_fetch_sub(&net->users, 1) == 1) free(net);
}

static char *slurp(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    char *data = length >= 0 ? calloc(1, length + 1) : NULL;
    *size = data ? fread(data, 1, length, file) : 0;
    fclose(file);
    return data;
}

static int is_genuine(const char *data, size_t size) {
    return size >= 64 && (!memcmp(data, "RKNN", 4) || !memcmp(data, "CYPTRKNN", 8) || !memcmp(data, "RKCE", 4));
}

/* The genuine library parses the JSON behind the payload and dies of an exception when that is cut or no JSON. */
static void check_json(const char *data, size_t size) {
    uint64_t payload, json = 0;
    memcpy(&payload, data + 16, 8);
    if (payload <= size && size - payload >= 72) memcpy(&json, data + 64 + payload, 8);
    if (json && json <= size - payload - 72 && data[72 + payload] == '{') return;
    fprintf(stderr, "terminate called after throwing an instance of 'jsonxx::json_parse_error'\n");
    abort();
}

/* -6 for junk, -1 for a model that is newer than this library. size 0: data is a path. */
int read_model(const void *data, uint32_t size, model **result) {
    size_t length = size;
    char *file = NULL, *text = NULL;
    *result = NULL;
    if (!data) return RKNN_ERR_PARAM_INVALID;
    if (!size && !(data = file = slurp(data, &length))) return RKNN_ERR_MODEL_INVALID;
    if (is_genuine(data, length)) {
        uint64_t container = 6;
        const char *path = getenv("RKNN_DOUBLE_MODEL");
        if (!memcmp(data, "RKNN", 4)) memcpy(&container, (const char *)data + 8, 8);
        if (container > 6) {
            fprintf(stderr, "E RKNN: [00:00:00.000] Invalid RKNN model version %d\n", (int)container);
            free(file);
            return RKNN_ERR_FAIL;
        }
        if (!memcmp(data, "RKNN", 4) && container == 6) check_json(data, length);
        if (path && (text = slurp(path, &length))) *result = parse_model(text, length);
        free(text);
    } else if (length >= 8 && !memcmp(data, magic, 8)) {
        *result = parse_model(data, length);
    }
    free(file);
    if (!*result) return RKNN_ERR_MODEL_INVALID;
    if (atoi((*result)->toolkit) > atoi(VERSION)) {
        fprintf(stderr, "E RKNN: [00:00:00.000] Invalid RKNN model version, toolkit %s\n", (*result)->toolkit);
        free_model(*result);
        *result = NULL;
        return RKNN_ERR_FAIL;
    }
    const char *soc = getenv("RKNN_DOUBLE_SOC");
    if (soc && strcmp(soc, (*result)->platform)) {
        free_model(*result);
        *result = NULL;
        return RKNN_ERR_TARGET_PLATFORM_UNMATCH;
    }
    return RKNN_SUCC;
}
