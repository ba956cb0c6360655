/* What a post-process plugin needs of the C ABI of librknn3_api 1.0.0, in declarations of our own. */
#ifndef RKNN3_OP_H
#define RKNN3_OP_H
#include <stdint.h>

enum { RKNN3_QUERY_IN_OUT_NUM = 0, RKNN3_QUERY_INPUT_ATTR = 1, RKNN3_QUERY_OUTPUT_ATTR = 2 };
enum { RKNN3_TENSOR_FLOAT32 = 0, RKNN3_TENSOR_FLOAT16, RKNN3_TENSOR_INT8, RKNN3_TENSOR_UINT8, RKNN3_TENSOR_INT16,
       RKNN3_TENSOR_UINT16, RKNN3_TENSOR_INT32, RKNN3_TENSOR_UINT32, RKNN3_TENSOR_INT64 };
enum { RKNN3_TENSOR_UNDEFINED = 0, RKNN3_TENSOR_NCHW, RKNN3_TENSOR_NHWC };
enum { RKNN3_OP_PLUGIN_TYPE_POSTPROCESS = 0, RKNN3_OP_TARGET_TYPE_CPU = 1 };

typedef struct { uint32_t n_input, n_output; } rknn3_input_output_num;
typedef struct { float scale; int32_t zero_point; } rknn3_quant_info;

typedef struct {
    uint32_t index;
    char name[256];
    uint32_t n_dims, shape[16];
    uint64_t aligned_size;
    uint32_t n_stride;
    uint64_t stride[17];
    uint32_t n_elems;
    int32_t dtype, layout, qnt_type;
    rknn3_quant_info qnt_info;
    int32_t core_id;
} rknn3_tensor_attr;

typedef struct {
    void *virt_addr;
    uint64_t phys_addr;
    int32_t fd;
    uint64_t buffer_id, offset, size, flags;
    int32_t core_id;
    void *priv_data;
    int32_t mem_type;
} rknn3_tensor_mem;

typedef struct { rknn3_tensor_mem *mem; rknn3_tensor_attr *attr; } rknn3_tensor;
typedef struct { uint64_t rknn_ctx; void *priv_data, *user_data; } rknn3_custom_op_context;

typedef int rknn3_io_callback(rknn3_custom_op_context *ctx, rknn3_tensor *inputs, uint32_t n_inputs,
                              rknn3_tensor *outputs, uint32_t n_outputs);

typedef struct {
    const char *op_type;
    int32_t plugin_type, target;
    uint32_t version;
    const char *author, *description;
    int (*init)(rknn3_custom_op_context *ctx);
    rknn3_io_callback *prepare, *compute;
    int (*deinit)(rknn3_custom_op_context *ctx);
    int (*get_output_num)(rknn3_custom_op_context *ctx);
    int (*get_attrs)(rknn3_custom_op_context *ctx, rknn3_tensor_attr *inputs, uint32_t n_inputs,
                     rknn3_tensor_attr *outputs, uint32_t n_outputs);
} rknn3_custom_op;

/* The runtime supplies these to the plugin. */
int rknn3_query(uint64_t context, int command, void *info, uint64_t size);

#endif
