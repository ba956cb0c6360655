/* The operator as a compiled GPU plugin: it takes the runtime's tensors into OpenCL and launches the kernel of
 * dual_residual.cl, which lies beside the library.
 *
 *     cc -shared -fPIC -O2 -o librkcst_dual_residual_gpu.so librkcst_dual_residual_gpu.c -lOpenCL
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <stdlib.h>

#include "rknn_op.h"

typedef struct {
    cl_mem buffers[4]; /* x, y, left, right */
    float alpha;
} dual_state;

static cl_mem take_in(rknn_custom_op_context *ctx, const rknn_custom_op_tensor *tensor, cl_mem_flags flags)
{
    const cl_import_properties_arm dma_buf[] = {CL_IMPORT_TYPE_ARM, CL_IMPORT_TYPE_DMA_BUF_ARM, 0};
    int fd = tensor->mem.fd;
    cl_int error = CL_SUCCESS;
    cl_mem buffer = clImportMemoryARM(ctx->gpu_ctx.cl_context, flags, dma_buf, &fd,
                                      tensor->mem.offset + tensor->mem.size, &error);
    return error == CL_SUCCESS ? buffer : NULL;
}

static int dual_destroy(rknn_custom_op_context *ctx)
{
    dual_state *state = ctx->priv_data;
    for (int i = 0; state != NULL && i < 4; i++)
        if (state->buffers[i] != NULL)
            clReleaseMemObject(state->buffers[i]);
    free(state);
    ctx->priv_data = NULL;
    return RKNN_SUCC;
}

static int dual_init(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n_in,
                     rknn_custom_op_tensor *out, uint32_t n_out)
{
    rknn_custom_op_attr attr;
    dual_state *state;

    if (n_in != 2 || n_out != 2)
        return RKNN_ERR_PARAM_INVALID;
    rknn_custom_op_get_op_attr(ctx, "alpha", &attr);
    if (attr.n_elems != 1 || attr.dtype != RKNN_TENSOR_FLOAT32)
        return RKNN_ERR_PARAM_INVALID;
    ctx->priv_data = state = calloc(1, sizeof *state);
    if (state == NULL)
        return RKNN_ERR_MALLOC_FAIL;
    state->alpha = *(const float *)attr.data;
    for (int i = 0; i < 4; i++) {
        state->buffers[i] = i < 2 ? take_in(ctx, &in[i], CL_MEM_READ_ONLY) : take_in(ctx, &out[i - 2], CL_MEM_WRITE_ONLY);
        if (state->buffers[i] == NULL) {
            dual_destroy(ctx);
            return RKNN_ERR_FAIL;
        }
    }
    return RKNN_SUCC;
}

static int dual_compute(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n_in,
                        rknn_custom_op_tensor *out, uint32_t n_out)
{
    dual_state *state = ctx->priv_data;
    cl_kernel kernel = ctx->gpu_ctx.cl_kernel;
    cl_command_queue queue = ctx->gpu_ctx.cl_command_queue;
    const rknn_custom_op_tensor *tensors[4] = {&in[0], &in[1], &out[0], &out[1]};
    const size_t count = in[0].attr.n_elems;
    cl_int error = CL_SUCCESS;

    for (cl_uint i = 0; i < 4; i++) {
        const cl_int at = tensors[i]->mem.offset / (int)sizeof(float);
        error |= clSetKernelArg(kernel, 2 * i, sizeof(cl_mem), &state->buffers[i]);
        error |= clSetKernelArg(kernel, 2 * i + 1, sizeof at, &at);
    }
    error |= clSetKernelArg(kernel, 8, sizeof(float), &state->alpha);
    if (error == CL_SUCCESS)
        error = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &count, NULL, 0, NULL, NULL);
    if (error == CL_SUCCESS)
        error = clFinish(queue);
    return error == CL_SUCCESS ? RKNN_SUCC : RKNN_ERR_FAIL;
}

static rknn_custom_op dual = {
    .version = 1,
    .target = RKNN_TARGET_TYPE_GPU,
    .op_type = "cstDualResidual",
    .cl_kernel_name = "dual_residual",
    .cl_kernel_source = "dual_residual.cl", /* cl_source_size 0: the name of a file */
    .init = dual_init,
    .compute = dual_compute,
    .destroy = dual_destroy,
};

RKNN_EXPORT rknn_custom_op *get_rknn_custom_op(void)
{
    return &dual;
}
