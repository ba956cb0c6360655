/* The C API of librknnrt (2.3.2): operators of a program's own. Declarations of rknnlite's own; the
 * layouts are the vendor's. */
/* SPDX-License-Identifier: Apache-2.0. Written by: python -m tools.headers */
#ifndef RKNNLITE_RKNN_CUSTOM_OP_H
#define RKNNLITE_RKNN_CUSTOM_OP_H

#include "rknn_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits. */
#define RKNN_CUSTOM_OP_MAX_STR_LEN 64
#define RKNN_CUSTOM_OP_MAX_VALUE_LEN 32

#define RKNN_CUSTOM_OP_EXPORT __attribute__((visibility("default")))

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

/* An operator. */
typedef struct _rknn_custom_op {
    uint32_t version;
    rknn_target_type target;
    char op_type[256];
    char cl_kernel_name[256];
    char *cl_kernel_source; /* a path where cl_source_size is 0, else the text */
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

/* After rknn_init and before the first rknn_run. */
int rknn_register_custom_ops(rknn_context ctx, rknn_custom_op *op, uint32_t custom_op_num);

/* Reads an attribute of the node; for callbacks. */
void rknn_custom_op_get_op_attr(rknn_custom_op_context *op_ctx, const char *attr_name,
                                rknn_custom_op_attr *op_attr);

#ifdef __cplusplus
}
#endif

#endif
