/* Running a network: out[i] = a * in[i mod n] + b in logical order; profile and dump beside it. */
#include "double3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check(const rknn3_tensor *t, const tensor *want) {
    if (!t->mem || !t->attr || !known(t->mem, KIND_MEMORY)) return RKNN3_ERR_ARGUMENT_INVALID;
    rknn3_tensor_attr attr;
    describe(want, t->attr->index, 0, &attr);
    if (t->attr->dtype != attr.dtype || t->attr->layout != attr.layout || t->attr->n_dims != attr.n_dims ||
        memcmp(t->attr->shape, attr.shape, sizeof attr.shape))
        return RKNN3_ERR_INPUT_INVALID;
    if (t->mem->size < attr.aligned_size) return RKNN3_ERR_INPUT_INVALID;
    return t->mem->core_id == attr.core_id ? RKNN3_SUCCESS : RKNN3_ERR_ARGUMENT_INVALID;
}

static int lacks_internal(const context *c) {
    for (uint32_t i = 0; c->user_internal && i < c->net->cores; i++)
        if (!known(c->internal[i], KIND_MEMORY)) return 1;
    return 0;
}

static int compute(context *c, const rknn3_tensor *in, uint32_t n_in, rknn3_tensor *out, uint32_t n_out) {
    if (!c->ready) return RKNN3_ERR_CTX_INVALID;
    if (!in || n_in != c->net->n_in) return RKNN3_ERR_INPUT_INVALID;
    if (!out || n_out != output_count(c)) return RKNN3_ERR_OUTPUT_INVALID;
    if (lacks_internal(c)) return RKNN3_ERR_RUN_TASK_FAILED;
    if (!strcmp(c->net->op, "fail")) return (int)c->net->a;
    for (uint32_t k = 0; k < n_in; k++) {
        tensor t = input_of(c, k);
        int code = check(&in[k], &t);
        if (code) return code;
    }
    for (uint32_t k = 0; k < n_out; k++) {
        tensor to = output_of(c, k);
        uint32_t source = k < n_in ? k : 0;
        tensor from = input_of(c, source);
        int code = check(&out[k], &to);
        if (code) return code == RKNN3_ERR_INPUT_INVALID ? RKNN3_ERR_OUTPUT_INVALID : code;
        const unsigned char *data = ((memory *)in[source].mem)->device;
        unsigned char *result = ((memory *)out[k].mem)->device;
        size_t given = elements(&from);
        for (size_t i = 0; i < elements(&to); i++) {
            double value = c->net->a * read_real(&from, data, i % given) + c->net->b;
            write_real(&to, result, i, c->post ? -value : value);
        }
    }
    return RKNN3_SUCCESS;
}

static int timed(context *c, const rknn3_tensor *in, uint32_t n_in, rknn3_tensor *out, uint32_t n_out) {
    if (atomic_exchange(&c->busy, 1)) live(RACES, 1);
    int64_t start = now_us(), wanted = c->net->latency_us + extra_latency_us, limit = 1000 * (int64_t)c->timeout_ms;
    int late = limit && wanted > limit;
    int code = late ? RKNN3_ERR_TIMEOUT : compute(c, in, n_in, out, n_out);
    sleep_until_us(start + (late ? limit : wanted));
    atomic_store(&c->busy, 0);
    return code;
}

EXPORT int rknn3_run(rknn3_context ctx, const rknn3_tensor in[], uint32_t n_in, rknn3_tensor out[], uint32_t n_out) {
    int code = enter(ID_rknn3_run);
    context *c = context_of(ctx);
    if (code) return code;
    return c && c->net ? timed(c, in, n_in, out, n_out) : RKNN3_ERR_CTX_INVALID;
}

#ifndef LATER
typedef struct {
    context *c;
    const rknn3_tensor *in;
    rknn3_tensor *out;
    uint32_t n_in, n_out;
} job;

static void *work(void *argument) {
    job *j = argument;
    j->c->code = timed(j->c, j->in, j->n_in, j->out, j->n_out);
    free(j);
    return NULL;
}

EXPORT int rknn3_run_async(rknn3_context ctx, const rknn3_tensor in[], uint32_t n_in, rknn3_tensor out[],
                           uint32_t n_out) {
    int code = enter(ID_rknn3_run_async);
    context *c = context_of(ctx);
    if (code) return code;
    if (!c || !c->net) return RKNN3_ERR_CTX_INVALID;
    if (c->running) return RKNN3_ERR_RUN_TASK_FAILED;
    job *j = malloc(sizeof *j);
    *j = (job){c, in, out, n_in, n_out};
    c->running = 1;
    live(LIVE_THREADS, 1);
    pthread_create(&c->thread, NULL, work, j);
    return RKNN3_SUCCESS;
}

EXPORT int rknn3_wait(rknn3_context ctx) {
    int code = enter(ID_rknn3_wait);
    context *c = context_of(ctx);
    if (!c || !c->running) return RKNN3_ERR_CTX_INVALID;
    pthread_join(c->thread, NULL);
    live(LIVE_THREADS, -1);
    c->running = 0;
    return code ? code : c->code;
}
#endif

/* -- insight ---------------------------------------------------------------------------------------------- */

EXPORT int rknn3_profile_ops(rknn3_context ctx, const rknn3_tensor in[], uint32_t n_in, rknn3_tensor out[],
                             uint32_t n_out, uint32_t level) {
    int code = enter(ID_rknn3_profile_ops);
    context *c = context_of(ctx);
    if (code) return code;
    if (!c || !c->net || level > 2) return RKNN3_ERR_ARGUMENT_INVALID;
    return timed(c, in, n_in, out, n_out);
}

EXPORT int rknn3_profile_mem(rknn3_context ctx) {
    int code = enter(ID_rknn3_profile_mem);
    context *c = context_of(ctx);
    return code ? code : c && c->ready ? RKNN3_SUCCESS : RKNN3_ERR_CTX_INVALID;
}

/* One .npy of float32 per input. */
static int write_npy(const char *folder, const tensor *t, const unsigned char *data) {
    char path[1024], header[118], shape[64];
    snprintf(path, sizeof path, "%s/%s.npy", folder, t->name);
    FILE *file = fopen(path, "wb");
    if (!file) return RKNN3_ERR_FAIL;
    snprintf(shape, sizeof shape, "(%zu,)", elements(t));
    snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", shape);
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file);
    fprintf(file, "%-117s\n", header);
    for (size_t i = 0; i < elements(t); i++) {
        float value = read_real(t, data, i);
        fwrite(&value, sizeof value, 1, file);
    }
    return fclose(file) ? RKNN3_ERR_FAIL : RKNN3_SUCCESS;
}

static int dump(rknn3_context ctx, const rknn3_tensor *in, uint32_t n_in, const char *folder) {
    int code = enter(ID_rknn3_dump_features);
    context *c = context_of(ctx);
    if (code) return code;
    if (!c || !c->net || !folder || n_in != c->net->n_in) return RKNN3_ERR_ARGUMENT_INVALID;
    for (uint32_t i = 0; i < n_in && !code; i++) {
        tensor t = input_of(c, i);
        code = write_npy(folder, &t, ((memory *)in[i].mem)->device);
    }
    return code;
}

#ifdef LATER
EXPORT int rknn3_dump_features(rknn3_context ctx, const rknn3_tensor in[], uint32_t n_in, rknn3_tensor out[],
                               uint32_t n_out, const char *folder, uint32_t core_mask, const char *selector) {
    (void)out, (void)n_out, (void)core_mask;
    return selector && !*selector ? RKNN3_ERR_ARGUMENT_INVALID : dump(ctx, in, n_in, folder);
}
#else
EXPORT int rknn3_dump_features(rknn3_context ctx, const rknn3_tensor in[], uint32_t n_in, rknn3_tensor out[],
                               uint32_t n_out, const char *folder) {
    (void)out, (void)n_out;
    return dump(ctx, in, n_in, folder);
}
#endif
