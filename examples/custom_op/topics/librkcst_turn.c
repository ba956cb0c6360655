/* cstTurn: what shapes.py does. The shapes of a run are those of its tensors; nothing is kept from init. */
#include <stdint.h>

#include "rknn_op.h"

static float *data(const rknn_custom_op_tensor *tensor)
{
    return (float *)((char *)tensor->mem.virt_addr + tensor->mem.offset);
}

static int op_compute(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n_in,
                      rknn_custom_op_tensor *out, uint32_t n_out)
{
    const uint32_t *dims = in[0].attr.dims, height = dims[2], width = dims[3];
    const float *x = data(&in[0]);
    float *y = data(&out[0]);

    (void)ctx, (void)n_in, (void)n_out;
    if (out[0].attr.dims[2] != width || out[0].attr.dims[3] != height)
        return RKNN_ERR_PARAM_INVALID;
    for (uint32_t plane = 0; plane < dims[0] * dims[1]; plane++, x += height * width, y += height * width)
        for (uint32_t row = 0; row < height; row++)
            for (uint32_t column = 0; column < width; column++)
                y[column * height + row] = x[row * width + column];
    return RKNN_SUCC;
}

static rknn_custom_op op = {
    .version = 1,
    .target = RKNN_TARGET_TYPE_CPU,
    .op_type = "cstTurn",
    .compute = op_compute,
};

RKNN_EXPORT rknn_custom_op *get_rknn_custom_op(void)
{
    return &op;
}
