/* cstSteps: what attributes.py does. Attributes are read in init and kept in priv_data. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rknn_op.h"

enum { CHANNELS = 64, STEPS = 8 };

typedef struct {
    int64_t power, origin[2];
    float gain, mean[CHANNELS];
    int wraps, n_steps;
    char steps[STEPS];
} settings;

/* 0 when the node has this many values of that type. */
static int read_attr(rknn_custom_op_context *ctx, const char *name, rknn_tensor_type type, uint32_t count, void *target)
{
    const size_t size = type == RKNN_TENSOR_INT64 ? sizeof(int64_t) : sizeof(float);
    rknn_custom_op_attr attr;

    rknn_custom_op_get_op_attr(ctx, name, &attr);
    if (attr.n_elems != count || attr.dtype != type) /* n_elems is 0 for one that is absent */
        return -1;
    memcpy(target, attr.data, count * size);
    return 0;
}

static int op_init(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n_in,
                   rknn_custom_op_tensor *out, uint32_t n_out)
{
    rknn_custom_op_attr attr;
    settings *mine;

    if (n_in != 2 || n_out != 1 || in[0].attr.n_dims != 4 || in[0].attr.dims[1] > CHANNELS
        || in[1].attr.n_elems != in[0].attr.dims[1] || out[0].attr.n_elems != in[0].attr.n_elems)
        return RKNN_ERR_PARAM_INVALID;
    mine = calloc(1, sizeof *mine);
    if (mine == NULL)
        return RKNN_ERR_MALLOC_FAIL;
    ctx->priv_data = mine;
    if (read_attr(ctx, "power", RKNN_TENSOR_INT64, 1, &mine->power)
        || read_attr(ctx, "gain", RKNN_TENSOR_FLOAT32, 1, &mine->gain)
        || read_attr(ctx, "origin", RKNN_TENSOR_INT64, 2, mine->origin)
        || read_attr(ctx, "mean", RKNN_TENSOR_FLOAT32, in[0].attr.dims[1], mine->mean))
        goto bad;
    rknn_custom_op_get_op_attr(ctx, "mode", &attr); /* a text: its bytes, and a zero byte behind */
    if (attr.n_elems == 0 || attr.dtype != RKNN_TENSOR_UINT8)
        goto bad;
    mine->wraps = strcmp(attr.data, "wrap") == 0;
    rknn_custom_op_get_op_attr(ctx, "steps", &attr); /* several texts: a zero byte between two */
    for (uint32_t at = 0; at < attr.n_elems; at += strlen((char *)attr.data + at) + 1) {
        if (mine->n_steps == STEPS)
            goto bad;
        mine->steps[mine->n_steps++] = ((char *)attr.data)[at];
    }
    return RKNN_SUCC;

bad:
    free(mine);
    ctx->priv_data = NULL;
    return RKNN_ERR_PARAM_INVALID;
}

static float *data(const rknn_custom_op_tensor *tensor)
{
    return (float *)((char *)tensor->mem.virt_addr + tensor->mem.offset);
}

static int op_compute(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n_in,
                      rknn_custom_op_tensor *out, uint32_t n_out)
{
    const settings *mine = ctx->priv_data;
    const float *x = data(&in[0]), *table = data(&in[1]);
    const int64_t height = in[0].attr.dims[2], width = in[0].attr.dims[3];
    float *y = data(&out[0]);

    (void)n_in, (void)n_out;
    for (int64_t i = 0; i < in[0].attr.n_elems; i++) {
        int64_t column = i % width, row = i / width % height, channel = i / (width * height) % in[0].attr.dims[1];
        float value = x[i];

        for (int step = 0; step < mine->n_steps; step++)
            value = mine->steps[step] == 'm'   ? value - mine->mean[channel]
                    : mine->steps[step] == 'p' ? powf(value, mine->power)
                                               : value + table[channel];
        if (mine->wraps) {
            row = ((row + mine->origin[0]) % height + height) % height;
            column = ((column + mine->origin[1]) % width + width) % width;
        }
        y[(i / (width * height) * height + row) * width + column] = value * mine->gain;
    }
    return RKNN_SUCC;
}

static int op_destroy(rknn_custom_op_context *ctx)
{
    free(ctx->priv_data);
    ctx->priv_data = NULL;
    return RKNN_SUCC;
}

static rknn_custom_op op = {
    .version = 1,
    .target = RKNN_TARGET_TYPE_CPU,
    .op_type = "cstSteps",
    .init = op_init,
    .compute = op_compute,
    .destroy = op_destroy,
};

RKNN_EXPORT rknn_custom_op *get_rknn_custom_op(void)
{
    return &op;
}
