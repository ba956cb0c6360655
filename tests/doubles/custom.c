/* Custom operators: one node that takes all inputs and gives all outputs, float32 in NCHW order.

   As observed on runtime 1.6.0: init runs while registering, compute inside rknn_run, destroy inside
   rknn_destroy, prepare never; a second registration replaces the first. */
#include "double.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#ifndef MINI
static rknn_custom_op_tensor *tensors(context *c, int is_input, memory **mems) {
    uint32_t count = is_input ? c->net->n_in : c->net->n_out;
    rknn_custom_op_tensor *list = calloc(count, sizeof *list);
    for (uint32_t i = 0; i < count; i++) {
        tensor t = is_input ? input_of(c, i) : output_of(c, i);
        if (is_input && t.rank == 4) { /* NHWC -> NCHW */
            uint32_t h = t.dims[1], w = t.dims[2], channels = t.dims[3];
            t.dims[1] = channels, t.dims[2] = h, t.dims[3] = w;
        }
        t.type = RKNN_TENSOR_FLOAT32;
        t.quantised = t.native = 0;
        t.scale = 1, t.zp = 0;
        describe(&t, i, 0, RKNN_QUERY_OUTPUT_ATTR, &list[i].attr);
        mems[i] = new_memory(NULL, elements(&t) * 4);
        list[i].mem = mems[i]->mem;
    }
    return list;
}

#endif

static void free_tensors(context *c) {
    for (uint32_t i = 0; i < 2 * MAX_IO; i++)
        if (c->op_mems[i]) free_memory(c->op_mems[i]);
    memset(c->op_mems, 0, sizeof c->op_mems);
    free(c->op_in);
    free(c->op_out);
    c->op_in = c->op_out = NULL;
}

void drop_custom(context *c) {
    if (!c->op) return;
    if (c->op->destroy) c->op->destroy(&c->op_ctx);
    free(c->op);
    c->op = NULL;
    free_tensors(c);
    live(LIVE_OPS, -1);
}

int run_custom(context *c) {
    if (!c->op->compute) return RKNN_ERR_FAIL;
    return c->op->compute(&c->op_ctx, c->op_in, c->net->n_in, c->op_out, c->net->n_out);
}

#ifndef MINI
EXPORT int rknn_register_custom_ops(rknn_context ctx, rknn_custom_op *op, uint32_t count) {
    int code = enter(ID_rknn_register_custom_ops);
    if (code) return code;
    context *c = (context *)(uintptr_t)ctx;
    if (!known(c, KIND_CONTEXT)) return RKNN_ERR_CTX_INVALID;
    if (!op || !count) return RKNN_ERR_PARAM_INVALID;
    last_registered = count;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(op[i].op_type, c->net->op)) continue;
        drop_custom(c);
        c->op = malloc(sizeof *c->op);
        *c->op = op[i];
        memset(&c->op_ctx, 0, sizeof c->op_ctx);
        c->op_ctx.target = op[i].target;
        c->op_ctx.internal_ctx = ctx;
        c->op_in = tensors(c, 1, c->op_mems);
        c->op_out = tensors(c, 0, c->op_mems + MAX_IO);
        live(LIVE_OPS, 1);
        code = op[i].init ? op[i].init(&c->op_ctx, c->op_in, c->net->n_in, c->op_out, c->net->n_out) : 0;
        if (!code) continue;
        c->op_skipped = code == RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE;
        free(c->op); /* init failed: no destroy */
        c->op = NULL;
        free_tensors(c);
        live(LIVE_OPS, -1);
        if (!c->op_skipped) return RKNN_ERR_FAIL;
    }
    return RKNN_SUCC;
}

EXPORT void rknn_custom_op_get_op_attr(rknn_custom_op_context *op_ctx, const char *name, rknn_custom_op_attr *attr) {
    (void)enter(ID_rknn_custom_op_get_op_attr);
    memset(attr, 0, sizeof *attr);
    context *c = (context *)(uintptr_t)op_ctx->internal_ctx;
    known(c, KIND_CONTEXT);
    for (uint32_t i = 0; i < c->net->n_attrs; i++) {
        op_attr *a = &c->net->attrs[i];
        if (strcmp(a->name, name)) continue;
        strcpy(attr->name, name);
        attr->dtype = a->type;
        attr->n_elems = a->count;
        attr->data = a->type == RKNN_TENSOR_UINT8     ? (void *)a->text
                     : a->type == RKNN_TENSOR_FLOAT32 ? (void *)a->floats
                                                      : (void *)a->ints;
    }
}
#endif
