/* The operator in C: a plugin library for every backend.
 *
 *     cc -shared -fPIC -O2 -I"$(rknnlite new-plugin --print-include)" -o librkcst_dual_residual.so librkcst_dual_residual.c
 *
 * The runtime calls init once, compute at every run, destroy once. Tensors are float32, NCHW; their data begin
 * at mem.virt_addr + mem.offset.
 */
#include <stdint.h>
#include <stdlib.h>

#include "rknn_op.h"

static int dual_init(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n_in,
                     rknn_custom_op_tensor *out, uint32_t n_out)
{
    rknn_custom_op_attr attr;
    float *alpha;

    if (n_in != 2 || n_out != 2 || in[0].attr.n_elems != in[1].attr.n_elems)
        return RKNN_ERR_PARAM_INVALID;
    rknn_custom_op_get_op_attr(ctx, "alpha", &attr);
    if (attr.n_elems != 1 || attr.dtype != RKNN_TENSOR_FLOAT32)
        return RKNN_ERR_PARAM_INVALID;
    alpha = malloc(sizeof *alpha);
    if (alpha == NULL)
        return RKNN_ERR_MALLOC_FAIL;
    *alpha = *(const float *)attr.data;
    ctx->priv_data = alpha;
    return RKNN_SUCC;
}

static float *data(const rknn_custom_op_tensor *tensor)
{
    return (float *)((char *)tensor->mem.virt_addr + tensor->mem.offset);
}

static int dual_compute(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n_in,
                        rknn_custom_op_tensor *out, uint32_t n_out)
{
    const float alpha = *(const float *)ctx->priv_data;
    const float *x = data(&in[0]), *y = data(&in[1]);
    float *left = data(&out[0]), *right = data(&out[1]);

    for (uint32_t i = 0; i < in[0].attr.n_elems; i++) {
        left[i] = x[i] * alpha - y[i];
        right[i] = y[i] * alpha - x[i];
    }
    return RKNN_SUCC;
}

static int dual_destroy(rknn_custom_op_context *ctx)
{
    free(ctx->priv_data);
    ctx->priv_data = NULL;
    return RKNN_SUCC;
}

static rknn_custom_op dual = {
    .version = 1,
    .target = RKNN_TARGET_TYPE_CPU,
    .op_type = "cstDualResidual",
    .init = dual_init,
    .compute = dual_compute,
    .destroy = dual_destroy,
};

RKNN_EXPORT rknn_custom_op *get_rknn_custom_op(void)
{
    return &dual;
}
