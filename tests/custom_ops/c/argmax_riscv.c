/* A post-process plugin that answers, per pixel, the channel with the largest value, and the largest value as a
 * real number. Misbehaves as the macros say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknn3_op.h"

#ifndef VERSION
#define VERSION 1
#endif
#ifndef PLUGIN_TYPE
#define PLUGIN_TYPE RKNN3_OP_PLUGIN_TYPE_POSTPROCESS
#endif
#ifndef TARGET
#define TARGET RKNN3_OP_TARGET_TYPE_CPU
#endif
#ifndef ATTRS_CODE
#define ATTRS_CODE 0
#endif
#ifndef COMPUTE_CODE
#define COMPUTE_CODE 0
#endif
#ifndef INIT_CODE
#define INIT_CODE 0
#endif
#ifndef OUTPUTS
#define OUTPUTS 2
#endif
#ifndef TYPE
#define TYPE RKNN3_TENSOR_INT32
#endif
#ifndef ATTR_SIZE
#define ATTR_SIZE sizeof(rknn3_tensor_attr)
#endif
#ifndef OVERRUN
#define OVERRUN 0
#endif
#ifndef SIZE
#define SIZE(n) ((n) * 4ull)
#endif

typedef struct {
    int prepared, height;
} state;

static int op_init(rknn3_custom_op_context *ctx)
{
    rknn3_input_output_num num;
    char room[1024];
    rknn3_tensor_attr *attr = (rknn3_tensor_attr *)room;
    state *mine = calloc(1, sizeof *mine);

    printf("chatter of the plugin\n");
    if (rknn3_query(ctx->rknn_ctx, RKNN3_QUERY_IN_OUT_NUM, &num, sizeof num) || num.n_input < 1)
        return -1;
    memset(room, 0, sizeof room);
    if (rknn3_query(ctx->rknn_ctx, RKNN3_QUERY_INPUT_ATTR, attr, ATTR_SIZE))
        return -1;
    mine->height = attr->shape[1];
#ifdef USER_DATA
    ctx->user_data = mine;
#else
    ctx->priv_data = mine;
#endif
    return INIT_CODE;
}

static state *mine(rknn3_custom_op_context *ctx)
{
    return ctx->priv_data ? ctx->priv_data : ctx->user_data;
}

static int op_output_num(rknn3_custom_op_context *ctx)
{
    return OUTPUTS;
}

static int op_attrs(rknn3_custom_op_context *ctx, rknn3_tensor_attr *in, uint32_t n_in, rknn3_tensor_attr *out,
                    uint32_t n_out)
{
    const int types[2] = {TYPE, RKNN3_TENSOR_FLOAT32};
    for (uint32_t i = 0; i < n_out && i < 2; i++) {
        memset(&out[i], 0, sizeof out[i]);
        out[i].index = i;
        strcpy(out[i].name, i ? "value" : "channel");
        out[i].n_dims = 3;
        out[i].shape[0] = in[0].shape[0];
        out[i].shape[1] = in[0].shape[2];
        out[i].shape[2] = in[0].shape[3];
        out[i].n_elems = in[0].n_elems / in[0].shape[1];
        out[i].dtype = types[i];
        out[i].aligned_size = SIZE(out[i].n_elems);
    }
    return ATTRS_CODE;
}

static int op_prepare(rknn3_custom_op_context *ctx, rknn3_tensor *in, uint32_t n_in, rknn3_tensor *out, uint32_t n_out)
{
    mine(ctx)->prepared++;
    return 0;
}

static int op_compute(rknn3_custom_op_context *ctx, rknn3_tensor *in, uint32_t n_in, rknn3_tensor *out, uint32_t n_out)
{
    const rknn3_tensor_attr *attr = in[0].attr;
    const int8_t *x = (int8_t *)in[0].mem->virt_addr + in[0].mem->offset;
    const uint32_t plane = attr->shape[2] * attr->shape[3];

    if (!mine(ctx)->prepared || attr->dtype != RKNN3_TENSOR_INT8 || attr->layout != RKNN3_TENSOR_NCHW)
        return -8;
    for (uint32_t i = 0; i < plane; i++) {
        int best = 0;
        for (uint32_t c = 1; c < attr->shape[1]; c++)
            if (x[c * plane + i] > x[best * plane + i])
                best = c;
        ((int32_t *)out[0].mem->virt_addr)[i] = best;
        ((float *)out[1].mem->virt_addr)[i] = (x[best * plane + i] - attr->qnt_info.zero_point) * attr->qnt_info.scale;
    }
    memset((char *)out[1].mem->virt_addr + out[1].attr->aligned_size, 0, OVERRUN);
#ifdef CRASH
    abort();
#endif
#ifdef WRITE_INPUT
    *(volatile int8_t *)in[0].mem->virt_addr = 1;
#endif
#ifdef HANG
    fprintf(stderr, "hangs\n");
    for (volatile int forever = 1; forever;)
        ;
#endif
    return COMPUTE_CODE;
}

static int op_deinit(rknn3_custom_op_context *ctx)
{
    free(mine(ctx));
    return 0;
}

static rknn3_custom_op op = {
    .op_type = "ArgMaxPost",
    .plugin_type = PLUGIN_TYPE,
    .target = TARGET,
    .version = VERSION,
    .init = op_init,
    .prepare = op_prepare,
#ifndef NO_COMPUTE
    .compute = op_compute,
#endif
    .deinit = op_deinit,
    .get_output_num = op_output_num,
    .get_attrs = op_attrs,
};

#ifdef HIDDEN
static
#endif
rknn3_custom_op *rknn3_register_custom_ops_plugin(int index)
{
    return index == 0 ? &op : 0;
}
