/* ArgMax over the channels on the GPU, written as the vendor's demo is: the kernel takes every tensor for float,
 * the indices too. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include "rknn_op.h"

static const char source[] =
    "__kernel void argmax(__global const float *x, __global float *y, int channels, int plane)"
    "{ int i = get_global_id(0), best = 0;"
    "  for (int c = 1; c < channels; c++) if (x[c * plane + i] > x[best * plane + i]) best = c;"
    "  y[i] = best; }";

static cl_mem take_in(rknn_custom_op_context *ctx, const rknn_custom_op_tensor *tensor)
{
    const cl_import_properties_arm type[] = {CL_IMPORT_TYPE_ARM, CL_IMPORT_TYPE_DMA_BUF_ARM, 0};
    int fd = tensor->mem.fd;
    return clImportMemoryARM(ctx->gpu_ctx.cl_context, CL_MEM_READ_WRITE, type, &fd, tensor->mem.size, NULL);
}

static int compute(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n_in,
                   rknn_custom_op_tensor *out, uint32_t n_out)
{
    const cl_int channels = in[0].attr.dims[1], plane = in[0].attr.dims[2] * in[0].attr.dims[3];
    const size_t count = plane;
    cl_kernel kernel = ctx->gpu_ctx.cl_kernel;
    cl_mem x = take_in(ctx, &in[0]), y = take_in(ctx, &out[0]);
    cl_int error = out[0].attr.type != RKNN_TENSOR_FLOAT32;

    error |= clSetKernelArg(kernel, 0, sizeof x, &x);
    error |= clSetKernelArg(kernel, 1, sizeof y, &y);
    error |= clSetKernelArg(kernel, 2, sizeof channels, &channels);
    error |= clSetKernelArg(kernel, 3, sizeof plane, &plane);
    error |= clEnqueueNDRangeKernel(ctx->gpu_ctx.cl_command_queue, kernel, 1, NULL, &count, NULL, 0, NULL, NULL);
    return error | clFinish(ctx->gpu_ctx.cl_command_queue) ? -1 : 0;
}

static rknn_custom_op op = {
    .version = 1,
    .target = RKNN_TARGET_TYPE_GPU,
    .op_type = "ArgMax",
    .cl_kernel_name = "argmax",
    .cl_kernel_source = source,
    .cl_source_size = sizeof source - 1,
    .compute = compute,
};

RKNN_EXPORT rknn_custom_op *get_rknn_custom_op(void)
{
    return &op;
}
