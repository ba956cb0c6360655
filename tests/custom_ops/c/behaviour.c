/* A plugin for cstDualResidual that does what the macros say; without any it does its work well. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rknn_op.h"

#ifndef OP_TYPE
#define OP_TYPE "cstDualResidual"
#endif
#ifndef VERSION
#define VERSION 1
#endif
#ifndef TARGET
#define TARGET RKNN_TARGET_TYPE_CPU
#endif
#ifndef INIT_CODE
#define INIT_CODE 0
#endif
#ifndef COMPUTE_CODE
#define COMPUTE_CODE 0
#endif
#ifndef ATTRIBUTE
#define ATTRIBUTE "alpha"
#endif
#ifndef ATTRIBUTE_TYPE
#define ATTRIBUTE_TYPE RKNN_TENSOR_FLOAT32
#endif
#ifndef FACTOR
#define FACTOR 1
#endif
#ifndef OVERRUN
#define OVERRUN 0
#endif

static float *data(const rknn_custom_op_tensor *tensor)
{
    return (float *)((char *)tensor->mem.virt_addr + tensor->mem.offset);
}

static int op_init(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n_in,
                   rknn_custom_op_tensor *out, uint32_t n_out)
{
    rknn_custom_op_attr attr;
    if (n_in != 2 || n_out != 2 || in[0].attr.fmt != RKNN_TENSOR_NCHW || in[0].mem.fd < 0)
        return RKNN_ERR_FAIL;
    rknn_custom_op_get_op_attr(ctx, ATTRIBUTE, &attr);
    if (attr.n_elems != 1 || attr.dtype != ATTRIBUTE_TYPE)
        return RKNN_ERR_PARAM_INVALID;
    ctx->priv_data = malloc(sizeof(float));
    *(float *)ctx->priv_data = *(float *)attr.data;
    return INIT_CODE;
}

static int op_prepare(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n_in,
                      rknn_custom_op_tensor *out, uint32_t n_out)
{
    return ctx->priv_data == NULL ? RKNN_ERR_FAIL : RKNN_SUCC;
}

static int op_compute(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n_in,
                      rknn_custom_op_tensor *out, uint32_t n_out)
{
    const float alpha = *(float *)ctx->priv_data;
    for (uint32_t i = 0; i < in[0].attr.n_elems; i++) {
        data(&out[0])[i] = FACTOR * (data(&in[0])[i] * alpha - data(&in[1])[i]);
        data(&out[1])[i] = data(&in[1])[i] * alpha - data(&in[0])[i];
    }
#ifdef CRASH
    raise(SIGSEGV);
#endif
#ifdef HANG
    if (write(2, "hangs\n", 6) == 6)
        for (;;)
            sleep(1);
#endif
#ifdef EXIT
    _exit(3);
#endif
    memset((char *)data(&out[1]) + out[1].attr.size, 0, OVERRUN);
    return COMPUTE_CODE;
}

static int op_destroy(rknn_custom_op_context *ctx)
{
    free(ctx->priv_data);
    return 0;
}

static rknn_custom_op op = {
    .version = VERSION,
    .target = TARGET,
    .op_type = OP_TYPE,
    .init = op_init,
    .prepare = op_prepare,
#ifndef NO_COMPUTE
    .compute = op_compute,
#endif
    .destroy = op_destroy,
};

#ifndef ENTRY
#define ENTRY get_rknn_custom_op
#endif
RKNN_EXPORT rknn_custom_op *ENTRY(void)
{
#ifdef ANSWER_NULL
    return 0;
#else
    return &op;
#endif
}
