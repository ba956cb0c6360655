/* Running: out[i] = a * in[i mod n] + b in logical order, quantised as the tensors say; or a custom op. */
#include "double.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static double input_value(const tensor *t, const placing *p, size_t i) {
    if (!p->data) return 0;
    double raw = get_element(p->type, p->data, where(t, p, i, 1));
    return real_of(t, p->pass_through ? raw : quantise(t, raw));
}

static int zero_copy(const context *c) { return c->bound_in[0] != NULL; }

static const placing *input_place(const context *c, uint32_t i) {
    return zero_copy(c) ? &c->place_in[i] : &c->in[i];
}

/* A real number goes to the NPU's own buffer, and to the bound one as its attribute asks. */
static void put_output(context *c, uint32_t index, const tensor *t, size_t i, double real) {
    placing own = {.type = t->type, .fmt = t->native ? RKNN_TENSOR_NC1HWC2 : RKNN_TENSOR_NCHW};
    double stored = quantise(t, real);
    if (!c->bound_out[index]) {
        put_element(t->type, c->out[c->current][index], where(t, &own, i, 0), stored);
        return;
    }
    const placing *p = &c->place_out[index];
    put_element(p->type, p->data, where(t, p, i, 0), p->pass_through ? stored : real_of(t, stored));
}

static void affine(context *c) {
    for (uint32_t k = 0; k < c->net->n_out; k++) {
        uint32_t source = k < c->net->n_in ? k : 0;
        tensor in = input_of(c, source), out = output_of(c, k);
        size_t count = elements(&out), given = elements(&in);
        for (size_t i = 0; i < count; i++)
            put_output(c, k, &out, i, c->net->a * input_value(&in, input_place(c, source), i % given) + c->net->b);
    }
}

static int custom(context *c) {
    if (c->op_skipped) return affine(c), RKNN_SUCC;
    if (!c->op) return RKNN_ERR_FAIL;
    for (uint32_t k = 0; k < c->net->n_in; k++) {
        tensor t = input_of(c, k);
        float *to = c->op_in[k].mem.virt_addr;
        for (size_t i = 0; i < elements(&t); i++) to[i] = input_value(&t, input_place(c, k), i);
    }
    if (run_custom(c)) return RKNN_ERR_FAIL;
    for (uint32_t k = 0; k < c->net->n_out; k++) {
        tensor t = output_of(c, k);
        const float *from = c->op_out[k].mem.virt_addr;
        for (size_t i = 0; i < elements(&t); i++) put_output(c, k, &t, i, from[i]);
    }
    return RKNN_SUCC;
}

static int compute(context *c) {
    if (!strcmp(c->net->op, "none") || !strcmp(c->net->op, "idle")) return RKNN_SUCC;
    if (!strcmp(c->net->op, "affine")) return affine(c), RKNN_SUCC;
    return custom(c);
}

static int lacks_memory(const context *c) {
    if ((c->flags & RKNN_FLAG_MEM_ALLOC_OUTSIDE) && (!c->weight || !c->internal)) return 1;
    return (c->flags & RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE) && !c->internal;
}

EXPORT int rknn_run(rknn_context ctx, rknn_run_extend *extend) {
    int code = enter(ID_rknn_run);
    if (code) return code;
    context *c = (context *)(uintptr_t)ctx;
    if (!known(c, KIND_CONTEXT)) return RKNN_ERR_CTX_INVALID;
    if (lacks_memory(c)) return RKNN_ERR_FAIL;
    if (atomic_exchange(&c->busy, 1)) live(RACES, 1);
    int64_t started = now_us();
    if (c->flags & RKNN_FLAG_ASYNC_MASK) c->current ^= 1;
    code = compute(c);
    c->ready_at_us = started + c->net->latency_us + extra_latency_us;
    if (!(extend && extend->non_block) && !(c->flags & RKNN_FLAG_ASYNC_MASK)) sleep_until_us(c->ready_at_us);
    if (extend) extend->frame_id = c->frame;
    c->frame++;
    c->has_run = 1;
    c->duration_us = now_us() - started + 1;
    atomic_store(&c->busy, 0);
    return code;
}

EXPORT int rknn_wait(rknn_context ctx, rknn_run_extend *extend) {
    int code = enter(ID_rknn_wait);
    if (code) return code;
    context *c = (context *)(uintptr_t)ctx;
    if (!known(c, KIND_CONTEXT)) return RKNN_ERR_CTX_INVALID;
    int64_t limit = extend && extend->timeout_ms > 0 ? now_us() + 1000 * (int64_t)extend->timeout_ms : INT64_MAX;
    if (limit < c->ready_at_us) {
        sleep_until_us(limit);
        return RKNN_ERR_TIMEOUT;
    }
    sleep_until_us(c->ready_at_us);
    return RKNN_SUCC;
}
