/* gpu_op MODEL FOLDER: an operator of the program's own that computes by a kernel of OpenCL. With two arguments more,
 * KERNEL CODE, only what registering it with that kernel answers. */
#define CL_TARGET_OPENCL_VERSION 120
#include "check.h"
#include "rknn_custom_op.h"

#include <CL/cl.h>
#include <CL/cl_ext.h>

static int begun, runs, ended;

static int op_init(rknn_custom_op_context *context, rknn_custom_op_tensor *in, uint32_t n_in, rknn_custom_op_tensor *out,
                   uint32_t n_out)
{
    CHECK(n_in == 2 && n_out == 2 && context->target == RKNN_TARGET_TYPE_GPU);
    CHECK(context->gpu_ctx.cl_context && context->gpu_ctx.cl_command_queue && context->gpu_ctx.cl_kernel);
    CHECK(in[0].attr.type == RKNN_TENSOR_FLOAT32 && out[1].attr.type == RKNN_TENSOR_FLOAT32 && in[1].mem.fd >= 0);
    begun++;
    return 0;
}

static cl_mem imported(rknn_custom_op_context *context, rknn_custom_op_tensor *tensor)
{
    const cl_import_properties_arm how[] = {CL_IMPORT_TYPE_ARM, CL_IMPORT_TYPE_DMA_BUF_ARM, 0};
    cl_int error = 1;
    cl_mem buffer = clImportMemoryARM((cl_context)context->gpu_ctx.cl_context, CL_MEM_READ_WRITE, how, &tensor->mem.fd,
                                      tensor->mem.size, &error);
    CHECK(buffer && error == CL_SUCCESS);
    return buffer;
}

static int op_compute(rknn_custom_op_context *context, rknn_custom_op_tensor *in, uint32_t n_in, rknn_custom_op_tensor *out,
                      uint32_t n_out)
{
    cl_kernel kernel = (cl_kernel)context->gpu_ctx.cl_kernel;
    cl_command_queue queue = (cl_command_queue)context->gpu_ctx.cl_command_queue;
    size_t items = in[0].attr.n_elems;
    rknn_custom_op_attr alpha;
    rknn_custom_op_get_op_attr(context, "alpha", &alpha);
    CHECK(alpha.n_elems == 1);
    for (cl_uint i = 0; i < n_in + n_out; i++) { /* never given back, as in many a program */
        cl_mem buffer = imported(context, i < n_in ? &in[i] : &out[i - n_in]);
        CHECK(!clSetKernelArg(kernel, i, sizeof buffer, &buffer));
    }
    CHECK(!clSetKernelArg(kernel, 4, sizeof(float), alpha.data));
    CHECK(!clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL));
    CHECK(!clFinish(queue));
    runs++;
    return 0;
}

static int op_destroy(rknn_custom_op_context *context)
{
    CHECK(context->gpu_ctx.cl_kernel);
    ended++;
    return 0;
}

static char source[] = "__kernel void both(__global const float *x, __global const float *y, __global float *l,\n"
                       "                   __global float *r, float alpha)\n"
                       "{\n"
                       "    int i = get_global_id(0);\n"
                       "    float a = x[i], b = y[i];\n"
                       "    l[i] = a * alpha - b;\n"
                       "    r[i] = b * alpha - a;\n"
                       "}\n";

static rknn_custom_op operator_of(char *text, size_t size, const char *kernel)
{
    rknn_custom_op op;
    memset(&op, 0, sizeof op);
    op.version = 1;
    op.target = RKNN_TARGET_TYPE_GPU;
    strcpy(op.op_type, "cstDualResidual");
    strcpy(op.cl_kernel_name, kernel);
    op.cl_kernel_source = text;
    op.cl_source_size = size;
    op.init = op_init;
    op.compute = op_compute;
    op.destroy = op_destroy;
    return op;
}

static void infer(rknn_context context, const char *folder)
{
    static const char *const golden[] = {"out0.f32", "out1.f32"};
    give_images(context, folder);
    OK(rknn_run(context, NULL));
    same_outputs(context, folder, golden);
}

int main(int argc, char **argv)
{
    char file[512];
    rknn_context context = 0;
    CHECK(argc == 3 || argc == 5);
    OK(rknn_init(&context, argv[1], 0, RKNN_FLAG_EXECUTE_FALLBACK_PRIOR_DEVICE_GPU, NULL));
    if (argc == 5) {
        rknn_custom_op op = operator_of(source, strlen(source), argv[3]);
        CODE(atoi(argv[4]), rknn_register_custom_ops(context, &op, 1));
        OK(rknn_destroy(context));
        return 0;
    }
    snprintf(file, sizeof file, "%s/both.cl", argv[2]);
    FILE *written = fopen(file, "w");
    CHECK(written && fputs(source, written) >= 0 && !fclose(written));
    for (int from_file = 0; from_file < 2; from_file++) {
        if (from_file)
            OK(rknn_init(&context, argv[1], 0, 0, NULL));
        rknn_custom_op op = from_file ? operator_of(file, 0, "both") : operator_of(source, strlen(source), "both");
        OK(rknn_register_custom_ops(context, &op, 1));
        for (int i = 0; i < 3; i++)
            infer(context, argv[2]);
        OK(rknn_destroy(context));
        CHECK(begun == from_file + 1 && runs == 3 * begun && ended == begun);
    }
    int fd = -1;
    cl_int error = 0;
    const cl_import_properties_arm how[] = {CL_IMPORT_TYPE_ARM, CL_IMPORT_TYPE_DMA_BUF_ARM, 0};
    CHECK(!clImportMemoryARM(NULL, CL_MEM_READ_WRITE, how, &fd, 16, &error) && error != CL_SUCCESS);
    return 0;
}
