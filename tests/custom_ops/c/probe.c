/* cstProbe: checks every kind of attribute in init, then x * 1.0003 + 0.3 and i + 1 on int64. */
#include <string.h>

#include "rknn_op.h"

static int attribute(rknn_custom_op_context *ctx, const char *name, int dtype, uint32_t count, const void *value,
                     uint32_t size)
{
    rknn_custom_op_attr attr;
    rknn_custom_op_get_op_attr(ctx, name, &attr);
    return attr.dtype == dtype && attr.n_elems == count && strcmp(attr.name, name) == 0
        && memcmp(attr.data, value, size) == 0;
}

static int op_init(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n_in,
                   rknn_custom_op_tensor *out, uint32_t n_out)
{
    const float alpha = 0.25f, floats[2] = {0.5f, -1.25f};
    const int64_t n = -7, ints[3] = {1, -2, 3};
    rknn_custom_op_attr absent;

    rknn_custom_op_get_op_attr(ctx, "absent", &absent);
    if (absent.n_elems != 0)
        return -1;
    if (!attribute(ctx, "alpha", RKNN_TENSOR_FLOAT32, 1, &alpha, sizeof alpha)
        || !attribute(ctx, "floats", RKNN_TENSOR_FLOAT32, 2, floats, sizeof floats)
        || !attribute(ctx, "n", RKNN_TENSOR_INT64, 1, &n, sizeof n)
        || !attribute(ctx, "ints", RKNN_TENSOR_INT64, 3, ints, sizeof ints)
        || !attribute(ctx, "s", RKNN_TENSOR_UINT8, 4, "word", 5))
        return -5;
    if (in[0].attr.type != RKNN_TENSOR_FLOAT32 || in[0].attr.fmt != RKNN_TENSOR_NCHW || in[0].attr.n_dims != 4
        || in[1].attr.type != RKNN_TENSOR_INT64 || in[1].attr.fmt != RKNN_TENSOR_UNDEFINED
        || in[1].attr.dims[1] != 8 || in[1].attr.size != 64 || in[1].mem.size < 64
        || strcmp(in[1].attr.name, "i") || out[1].attr.index != 1)
        return -8;
    return 0;
}

static int op_compute(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n_in,
                      rknn_custom_op_tensor *out, uint32_t n_out)
{
    const float *x = in[0].mem.virt_addr;
    const int64_t *i = in[1].mem.virt_addr;
    for (uint32_t k = 0; k < in[0].attr.n_elems; k++)
        ((float *)out[0].mem.virt_addr)[k] = x[k] * 1.0003f + 0.3f;
    for (uint32_t k = 0; k < in[1].attr.n_elems; k++)
        ((int64_t *)out[1].mem.virt_addr)[k] = i[k] + 1;
    return 0;
}

static rknn_custom_op op = {.version = 1, .target = 1, .op_type = "cstProbe", .init = op_init, .compute = op_compute};

RKNN_EXPORT rknn_custom_op *get_rknn_custom_op(void)
{
    return &op;
}
