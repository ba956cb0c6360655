/* What an operator plugin needs of the C API of librknnrt (2.3.2), in one file; instead of
 * rknn_custom_op.h, not beside it. Declarations of rknnlite's own; the layouts are the vendor's. */
/* SPDX-License-Identifier: Apache-2.0. Written by: python -m tools.headers */
#ifndef RKNNLITE_RKNN_OP_H
#define RKNNLITE_RKNN_OP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RKNN_EXPORT __attribute__((visibility("default")))

/* What the functions answer. */
#define RKNN_SUCC 0
#define RKNN_ERR_FAIL (-1)
#define RKNN_ERR_TIMEOUT (-2)
#define RKNN_ERR_DEVICE_UNAVAILABLE (-3)
#define RKNN_ERR_MALLOC_FAIL (-4)
#define RKNN_ERR_PARAM_INVALID (-5)
#define RKNN_ERR_MODEL_INVALID (-6)
#define RKNN_ERR_CTX_INVALID (-7)
#define RKNN_ERR_INPUT_INVALID (-8)
#define RKNN_ERR_OUTPUT_INVALID (-9)
#define RKNN_ERR_DEVICE_UNMATCH (-10)
#define RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL (-11)
#define RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION (-12)
#define RKNN_ERR_TARGET_PLATFORM_UNMATCH (-13)
#define RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE (-14)

#if UINTPTR_MAX > 0xffffffffu
typedef uint64_t rknn_context;
#else
typedef uint32_t rknn_context;
#endif

typedef rknn_context rknn_op_handle;

/* Element types. */
typedef enum _rknn_tensor_type {
    RKNN_TENSOR_FLOAT32 = 0,
    RKNN_TENSOR_FLOAT16 = 1,
    RKNN_TENSOR_INT8 = 2,
    RKNN_TENSOR_UINT8 = 3,
    RKNN_TENSOR_INT16 = 4,
    RKNN_TENSOR_UINT16 = 5,
    RKNN_TENSOR_INT32 = 6,
    RKNN_TENSOR_UINT32 = 7,
    RKNN_TENSOR_INT64 = 8,
    RKNN_TENSOR_BOOL = 9,
    RKNN_TENSOR_INT4 = 10,
    RKNN_TENSOR_BFLOAT16 = 11,
    RKNN_TENSOR_TYPE_MAX = 12
} rknn_tensor_type;

/* How a tensor is quantised. */
typedef enum _rknn_tensor_qnt_type {
    RKNN_TENSOR_QNT_NONE = 0,
    RKNN_TENSOR_QNT_DFP = 1,
    RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC = 2,
    RKNN_TENSOR_QNT_MAX = 3
} rknn_tensor_qnt_type;

/* Order of the dimensions. */
typedef enum _rknn_tensor_format {
    RKNN_TENSOR_NCHW = 0,
    RKNN_TENSOR_NHWC = 1,
    RKNN_TENSOR_NC1HWC2 = 2,
    RKNN_TENSOR_UNDEFINED = 3,
    RKNN_TENSOR_FORMAT_MAX = 4
} rknn_tensor_format;

/* An input or output of a model. */
typedef struct _rknn_tensor_attr {
    uint32_t index; /* set it before rknn_query */
    uint32_t n_dims;
    uint32_t dims[16];
    char name[256];
    uint32_t n_elems;
    uint32_t size; /* bytes without padding */
    rknn_tensor_format fmt;
    rknn_tensor_type type;
    rknn_tensor_qnt_type qnt_type;
    int8_t fl; /* fraction bits of DFP */
    int32_t zp;
    float scale;
    uint32_t w_stride; /* pixels of a row in memory, 0: the width */
    uint32_t size_with_stride; /* bytes with padding */
    uint8_t pass_through; /* 1: rknn_set_io_mem takes the bytes as they are */
    uint32_t h_stride; /* rows of an image in memory, 0: the height; the caller sets it */
} rknn_tensor_attr;

/* Memory of the NPU; data begin at virt_addr + offset. */
typedef struct _rknn_tensor_memory {
    void *virt_addr;
    uint64_t phys_addr;
    int32_t fd;
    int32_t offset;
    uint32_t size; /* bytes */
    uint32_t flags; /* rknn_tensor_mem_flags */
    void *priv_data; /* the library's */
} rknn_tensor_mem;

typedef rknn_context rknn_custom_op_interal_context;

/* Where an operator computes. */
typedef enum _rknn_target_type {
    RKNN_TARGET_TYPE_CPU = 1,
    RKNN_TARGET_TYPE_GPU = 2,
    RKNN_TARGET_TYPE_MAX = 3
} rknn_target_type;

/* OpenCL's objects, for operators of the GPU. */
typedef struct _rknn_gpu_op_context {
    void *cl_context;
    void *cl_command_queue;
    void *cl_kernel;
} rknn_gpu_op_context;

/* What every callback gets. */
typedef struct _rknn_custom_op_context {
    rknn_target_type target;
    rknn_custom_op_interal_context internal_ctx; /* the library's */
    rknn_gpu_op_context gpu_ctx;
    void *priv_data; /* the operator's own */
} rknn_custom_op_context;

/* An input or output of a node. */
typedef struct _rknn_custom_op_tensor {
    rknn_tensor_attr attr;
    rknn_tensor_mem mem;
} rknn_custom_op_tensor;

/* An attribute of a node. */
typedef struct _rknn_custom_op_attr {
    char name[256];
    rknn_tensor_type dtype;
    uint32_t n_elems; /* 0: there is none of that name */
    void *data;
} rknn_custom_op_attr;

/* Optional, once, when the operator is registered. */
typedef int (*rknn_custom_op_init_cb)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs,
                                      uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs);

/* Optional, before every compute. */
typedef int (*rknn_custom_op_prepare_cb)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs,
                                         uint32_t n_inputs, rknn_custom_op_tensor *outputs,
                                         uint32_t n_outputs);

/* Needed: float32 in and out, in NCHW order; int64 where the network has it. */
typedef int (*rknn_custom_op_compute_cb)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs,
                                         uint32_t n_inputs, rknn_custom_op_tensor *outputs,
                                         uint32_t n_outputs);

/* For later; leave it NULL. */
typedef int (*rknn_custom_op_compute_native_cb)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs,
                                                uint32_t n_inputs, rknn_custom_op_tensor *outputs,
                                                uint32_t n_outputs);

/* Optional, once, when the model's context is destroyed. */
typedef int (*rknn_custom_op_destroy_cb)(rknn_custom_op_context *op_ctx);

typedef int rknn_op_callback(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                             rknn_custom_op_tensor *outputs, uint32_t n_outputs);

/* An operator. */
typedef struct _rknn_custom_op {
    uint32_t version;
    rknn_target_type target;
    char op_type[256];
    char cl_kernel_name[256];
    const char *cl_kernel_source; /* a path where cl_source_size is 0, else the text */
    uint64_t cl_source_size;
    char cl_build_options[256];
    rknn_custom_op_init_cb init;
    rknn_custom_op_prepare_cb prepare;
    rknn_custom_op_compute_cb compute;
    rknn_custom_op_compute_native_cb compute_native;
    rknn_custom_op_destroy_cb destroy;
} rknn_custom_op;

/* What a plugin exports under the name get_rknn_custom_op. */
typedef rknn_custom_op *(*get_custom_op_func)(void);

/* Reads an attribute of the node; for callbacks. */
void rknn_custom_op_get_op_attr(rknn_custom_op_context *op_ctx, const char *attr_name,
                                rknn_custom_op_attr *op_attr);

#ifdef __cplusplus
}
#endif

#endif
