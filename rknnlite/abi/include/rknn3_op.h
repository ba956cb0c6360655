/* What a post-process plugin needs of the C API of librknn3_api (1.0.0), in one file; instead of
 * rknn3_api.h, not beside it. Declarations of rknnlite's own; the layouts are the vendor's. */
/* SPDX-License-Identifier: Apache-2.0. Written by: python -m tools.headers */
#ifndef RKNNLITE_RKNN3_OP_H
#define RKNNLITE_RKNN3_OP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if UINTPTR_MAX > 0xffffffffu
typedef uint64_t rknn3_context;
#else
typedef uint32_t rknn3_context;
#endif

/* What rknn3_query is asked. */
typedef enum _rknn3_query_cmd {
    RKNN3_QUERY_IN_OUT_NUM = 0,
    RKNN3_QUERY_INPUT_ATTR = 1,
    RKNN3_QUERY_OUTPUT_ATTR = 2,
    RKNN3_QUERY_SDK_VERSION = 5,
    RKNN3_QUERY_CORE_MEM_SIZE = 6,
    RKNN3_QUERY_NATIVE_INPUT_ATTR = 8,
    RKNN3_QUERY_NATIVE_OUTPUT_ATTR = 9,
    RKNN3_QUERY_DEVICE_MEM_INFO = 12,
    RKNN3_QUERY_CORE_NUMBER = 13,
    RKNN3_QUERY_ALLOCATION_INFO = 14,
    RKNN3_QUERY_DYNAMIC_SHAPE_CONFIG = 15,
    RKNN3_QUERY_DYNAMIC_SHAPE_INFO = 16,
    RKNN3_QUERY_LLM_CONFIG = 17,
    RKNN3_QUERY_POSTPROCESS_IN_OUT_NUM = 18,
    RKNN3_QUERY_POSTPROCESS_OUTPUT_ATTR = 19,
    RKNN3_QUERY_POSTPROCESS_DYNAMIC_SHAPE_INFO = 20,
    RKNN3_QUERY_CMD_MAX = 21
} rknn3_query_cmd;

/* Element types. */
typedef enum _rknn3_tensor_type {
    RKNN3_TENSOR_FLOAT32 = 0,
    RKNN3_TENSOR_FLOAT16 = 1,
    RKNN3_TENSOR_INT8 = 2,
    RKNN3_TENSOR_UINT8 = 3,
    RKNN3_TENSOR_INT16 = 4,
    RKNN3_TENSOR_UINT16 = 5,
    RKNN3_TENSOR_INT32 = 6,
    RKNN3_TENSOR_UINT32 = 7,
    RKNN3_TENSOR_INT64 = 8,
    RKNN3_TENSOR_UINT64 = 9,
    RKNN3_TENSOR_BOOL = 10,
    RKNN3_TENSOR_INT4 = 11,
    RKNN3_TENSOR_TYPE_MAX = 12
} rknn3_tensor_type;

/* How a tensor is quantised. */
typedef enum _rknn3_tensor_qnt_type {
    RKNN3_TENSOR_QNT_NONE = 0,
    RKNN3_TENSOR_PER_LAYER_SYMMETRIC = 1,
    RKNN3_TENSOR_PER_LAYER_ASYMMETRIC = 2,
    RKNN3_TENSOR_PER_CHANNEL_SYMMETRIC = 3,
    RKNN3_TENSOR_PER_CHANNEL_ASYMMETRIC = 4,
    RKNN3_TENSOR_PER_GROUP_SYMMETRIC = 5,
    RKNN3_TENSOR_PER_GROUP_ASYMMETRIC = 6,
    RKNN3_TENSOR_QNT_MAX = 7
} rknn3_tensor_qnt_type;

/* Order of the dimensions. */
typedef enum _rknn3_tensor_layout {
    RKNN3_TENSOR_UNDEFINED = 0,
    RKNN3_TENSOR_NCHW = 1,
    RKNN3_TENSOR_NHWC = 2,
    RKNN3_TENSOR_NC1HWC2 = 3,
    RKNN3_TENSOR_CHWN = 4,
    RKNN3_TENSOR_HWIO = 5,
    RKNN3_TENSOR_OIHW = 6,
    RKNN3_TENSOR_O1I1HWI2O2 = 7,
    RKNN3_TENSOR_LAYOUT_MAX = 8
} rknn3_tensor_layout;

/* Where memory lies. */
typedef enum _rknn3_mem_type {
    RKNN3_MEMORY_TYPE_NPU_DRAM = 0,
    RKNN3_MEMORY_TYPE_EXT_DDR = 1
} rknn3_mem_type;

/* Where a plugin computes. */
typedef enum _rknn3_op_target_type {
    RKNN3_OP_TARGET_TYPE_CPU = 1,
    RKNN3_OP_TARGET_TYPE_MAX = 2
} rknn3_op_target_type;

/* What a plugin is. */
typedef enum _rknn3_op_plugin_type {
    RKNN3_OP_PLUGIN_TYPE_POSTPROCESS = 0,
    RKNN3_OP_PLUGIN_TYPE_CUSTOM_OP = 1,
    RKNN3_OP_PLUGIN_TYPE_MAX = 2
} rknn3_op_plugin_type;

/* RKNN3_QUERY_IN_OUT_NUM. */
typedef struct _rknn3_input_output_num {
    uint32_t n_input;
    uint32_t n_output;
} rknn3_input_output_num;

typedef struct _rknn3_quant_info {
    float scale;
    int32_t zero_point;
} rknn3_quant_info;

/* An input or output. */
typedef struct _rknn3_tensor_attr {
    uint32_t index; /* set it before rknn3_query */
    char name[256];
    uint32_t n_dims;
    uint32_t shape[16];
    uint64_t aligned_size; /* bytes to allocate */
    uint32_t n_stride;
    uint64_t stride[17];
    uint32_t n_elems;
    rknn3_tensor_type dtype;
    rknn3_tensor_layout layout;
    rknn3_tensor_qnt_type qnt_type;
    rknn3_quant_info qnt_info;
    int32_t core_id; /* where rknn3_create_mem puts it */
} rknn3_tensor_attr;

typedef struct _rknn3_tensor_memory {
    void *virt_addr;
    uint64_t phys_addr;
    int32_t fd;
    uint64_t buffer_id;
    uint64_t offset;
    uint64_t size;
    uint64_t flags;
    int32_t core_id;
    void *priv_data;
    rknn3_mem_type mem_type;
} rknn3_tensor_mem;

/* Memory, and what lies in it. */
typedef struct _rknn3_tensor {
    rknn3_tensor_mem *mem;
    rknn3_tensor_attr *attr;
} rknn3_tensor;

/* What every callback gets. */
typedef struct _rknn3_custom_op_context {
    rknn3_context rknn_ctx;
    void *priv_data; /* the library's */
    void *user_data; /* the plugin's own */
} rknn3_custom_op_context;

/* Optional. */
typedef int (*rknn3_custom_op_init_cb)(rknn3_custom_op_context *op_ctx);

/* prepare is optional, compute is needed. */
typedef int (*rknn3_custom_op_io_cb)(rknn3_custom_op_context *op_ctx, rknn3_tensor *inputs, uint32_t n_inputs,
                                     rknn3_tensor *outputs, uint32_t n_outputs);

/* Optional. */
typedef int (*rknn3_custom_op_deinit_cb)(rknn3_custom_op_context *op_ctx);

/* The number of outputs, for post-processing. */
typedef int (*rknn3_custom_op_get_output_num_cb)(rknn3_custom_op_context *op_ctx);

/* Fills the attributes of the outputs, for post-processing. */
typedef int (*rknn3_custom_op_get_attrs_cb)(rknn3_custom_op_context *op_ctx, rknn3_tensor_attr *input_attrs,
                                            uint32_t n_inputs, rknn3_tensor_attr *output_attrs,
                                            uint32_t n_outputs);

/* A plugin's operator. */
typedef struct _rknn3_custom_op {
    const char *op_type;
    rknn3_op_plugin_type plugin_type;
    rknn3_op_target_type target;
    uint32_t version;
    const char *author;
    const char *description;
    rknn3_custom_op_init_cb init;
    rknn3_custom_op_io_cb prepare;
    rknn3_custom_op_io_cb compute;
    rknn3_custom_op_deinit_cb deinit;
    rknn3_custom_op_get_output_num_cb get_output_num;
    rknn3_custom_op_get_attrs_cb get_attrs;
} rknn3_custom_op;

/* What a plugin exports under the name rknn3_register_custom_ops_plugin; NULL past the last operator. */
typedef rknn3_custom_op *(*rknn3_register_custom_op_func)(int op_index);

/* Fills the structure of the command; size is its sizeof. */
int rknn3_query(rknn3_context context, rknn3_query_cmd cmd, void *info, uint64_t size);

#ifdef __cplusplus
}
#endif

#endif
