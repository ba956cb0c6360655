/* A GPU plugin of the careless kind: imports every tensor at every run and never releases anything. The kernel
 * source is compiled in. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <string.h>

#include "rknn_op.h"

#ifndef KERNEL
#define KERNEL "dual"
#endif
#ifndef MORE
#define MORE 0
#endif
#ifndef BODY
#define BODY "l[i] = x[i] * SCALE - y[i]; r[i] = y[i] * SCALE - x[i];"
#endif

static const char source[] =
    "__kernel void dual(__global const float *x, __global const float *y, __global float *l, __global float *r)"
    "{ int i = get_global_id(0); " BODY " }";

static int compute(rknn_custom_op_context *ctx, rknn_custom_op_tensor *in, uint32_t n_in,
                   rknn_custom_op_tensor *out, uint32_t n_out)
{
    const cl_import_properties_arm type[] = {CL_IMPORT_TYPE_ARM, CL_IMPORT_TYPE_DMA_BUF_ARM, 0};
    const rknn_custom_op_tensor *tensors[4] = {&in[0], &in[1], &out[0], &out[1]};
    const size_t count = in[0].attr.n_elems;
    cl_kernel kernel = ctx->gpu_ctx.cl_kernel;
    cl_int error;

    for (cl_uint i = 0; i < 4; i++) {
        int fd = tensors[i]->mem.fd;
        cl_mem buffer = clImportMemoryARM(ctx->gpu_ctx.cl_context, CL_MEM_READ_WRITE, type, &fd,
                                          tensors[i]->mem.size + MORE, &error);
        if (error)
            return error;
        if (clSetKernelArg(kernel, i, sizeof buffer, &buffer))
            return -1;
    }
    if (clEnqueueNDRangeKernel(ctx->gpu_ctx.cl_command_queue, kernel, 1, NULL, &count, NULL, 0, NULL, NULL))
        return -1;
    return clFinish(ctx->gpu_ctx.cl_command_queue) ? -1 : 0;
}

static rknn_custom_op op = {
    .version = 1,
    .target = RKNN_TARGET_TYPE_GPU,
    .op_type = "cstDualResidual",
    .cl_kernel_name = KERNEL,
    .cl_kernel_source = source,
    .cl_source_size = sizeof source - 1,
    .cl_build_options = "-DSCALE=0.5f",
    .compute = compute,
};

RKNN_EXPORT rknn_custom_op *get_rknn_custom_op(void)
{
    return &op;
}
