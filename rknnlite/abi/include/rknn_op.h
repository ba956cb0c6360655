/* What an operator plugin needs of the vendor's C ABI (headers 2.3.2), in declarations of our own.
 *
 * With the vendor's SDK at hand include its rknn_custom_op.h instead; the layouts are the same.
 */
#ifndef RKNN_OP_H
#define RKNN_OP_H

#include <stdint.h>

#define RKNN_EXPORT __attribute__((visibility("default")))

enum { RKNN_SUCC = 0, RKNN_ERR_FAIL = -1, RKNN_ERR_MALLOC_FAIL = -4, RKNN_ERR_PARAM_INVALID = -5,
       RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE = -14 };
enum { RKNN_TARGET_TYPE_CPU = 1, RKNN_TARGET_TYPE_GPU = 2 };
enum { RKNN_TENSOR_FLOAT32 = 0, RKNN_TENSOR_FLOAT16, RKNN_TENSOR_INT8, RKNN_TENSOR_UINT8, RKNN_TENSOR_INT16,
       RKNN_TENSOR_UINT16, RKNN_TENSOR_INT32, RKNN_TENSOR_UINT32, RKNN_TENSOR_INT64, RKNN_TENSOR_BOOL };
enum { RKNN_TENSOR_NCHW = 0, RKNN_TENSOR_NHWC, RKNN_TENSOR_NC1HWC2, RKNN_TENSOR_UNDEFINED };

#if UINTPTR_MAX > 0xffffffffu
typedef uint64_t rknn_op_handle;
#else
typedef uint32_t rknn_op_handle;
#endif

typedef struct {
    uint32_t index, n_dims, dims[16];
    char name[256];
    uint32_t n_elems, size;
    int32_t fmt, type, qnt_type;
    int8_t fl;
    int32_t zp;
    float scale;
    uint32_t w_stride, size_with_stride;
    uint8_t pass_through;
    uint32_t h_stride;
} rknn_tensor_attr;

typedef struct {
    void *virt_addr;
    uint64_t phys_addr;
    int32_t fd, offset;
    uint32_t size, flags;
    void *priv_data;
} rknn_tensor_mem;

typedef struct {
    void *cl_context, *cl_command_queue, *cl_kernel;
} rknn_gpu_op_context;

typedef struct {
    int32_t target;
    rknn_op_handle internal_ctx;
    rknn_gpu_op_context gpu_ctx;
    void *priv_data;
} rknn_custom_op_context;

typedef struct {
    rknn_tensor_attr attr;
    rknn_tensor_mem mem;
} rknn_custom_op_tensor;

typedef struct {
    char name[256];
    int32_t dtype;
    uint32_t n_elems;
    void *data;
} rknn_custom_op_attr;

typedef int rknn_op_callback(rknn_custom_op_context *ctx, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                             rknn_custom_op_tensor *outputs, uint32_t n_outputs);

typedef struct {
    uint32_t version;
    int32_t target;
    char op_type[256], cl_kernel_name[256];
    const char *cl_kernel_source;
    uint64_t cl_source_size;
    char cl_build_options[256];
    rknn_op_callback *init, *prepare, *compute, *compute_native;
    int (*destroy)(rknn_custom_op_context *ctx);
} rknn_custom_op;

/* Read one attribute of the node; n_elems is 0 when there is none of that name. */
void rknn_custom_op_get_op_attr(rknn_custom_op_context *ctx, const char *name, rknn_custom_op_attr *attr);

#endif
