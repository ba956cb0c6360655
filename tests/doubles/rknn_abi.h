/* The C ABI of librknnrt 2.3.2 as far as the test double serves it: names, values and types as facts.

   Generated from a table of measured facts; layouts are checked against the ctypes declarations of the
   plugin by tests/rknnrt/test_abi.py. */
#ifndef RKNN_ABI_H
#define RKNN_ABI_H

#include <stdint.h>

#if defined(__arm__)
typedef uint32_t rknn_context;
#else
typedef uint64_t rknn_context;
#endif
typedef rknn_context rknn_matmul_ctx;
typedef rknn_context rknn_custom_op_interal_context;

#define RKNN_FLAG_PRIOR_HIGH 0
#define RKNN_FLAG_PRIOR_MEDIUM 1
#define RKNN_FLAG_PRIOR_LOW 2
#define RKNN_FLAG_ASYNC_MASK 4
#define RKNN_FLAG_COLLECT_PERF_MASK 8
#define RKNN_FLAG_MEM_ALLOC_OUTSIDE 16
#define RKNN_FLAG_SHARE_WEIGHT_MEM 32
#define RKNN_FLAG_FENCE_IN_OUTSIDE 64
#define RKNN_FLAG_FENCE_OUT_OUTSIDE 128
#define RKNN_FLAG_COLLECT_MODEL_INFO_ONLY 256
#define RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE 512
#define RKNN_FLAG_EXECUTE_FALLBACK_PRIOR_DEVICE_GPU 1024
#define RKNN_FLAG_ENABLE_SRAM 2048
#define RKNN_FLAG_SHARE_SRAM 4096
#define RKNN_FLAG_DISABLE_PROC_HIGH_PRIORITY 8192
#define RKNN_FLAG_DISABLE_FLUSH_INPUT_MEM_CACHE 16384
#define RKNN_FLAG_DISABLE_FLUSH_OUTPUT_MEM_CACHE 32768
#define RKNN_FLAG_MODEL_BUFFER_ZERO_COPY 0x10000
#define RKNN_MEM_FLAG_ALLOC_NO_CONTEXT 0x20000
#define RKNN_MAX_DIMS 16
#define RKNN_MAX_NUM_CHANNEL 15
#define RKNN_MAX_NAME_LEN 256
#define RKNN_MAX_DYNAMIC_SHAPE_NUM 512
#define RKNN_CUSTOM_OP_MAX_STR_LEN 64
#define RKNN_CUSTOM_OP_MAX_VALUE_LEN 32

enum {
    RKNN_SUCC = 0,
    RKNN_ERR_FAIL = -1,
    RKNN_ERR_TIMEOUT = -2,
    RKNN_ERR_DEVICE_UNAVAILABLE = -3,
    RKNN_ERR_MALLOC_FAIL = -4,
    RKNN_ERR_PARAM_INVALID = -5,
    RKNN_ERR_MODEL_INVALID = -6,
    RKNN_ERR_CTX_INVALID = -7,
    RKNN_ERR_INPUT_INVALID = -8,
    RKNN_ERR_OUTPUT_INVALID = -9,
    RKNN_ERR_DEVICE_UNMATCH = -10,
    RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL = -11,
    RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION = -12,
    RKNN_ERR_TARGET_PLATFORM_UNMATCH = -13,
    RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE = -14,
};

typedef enum {
    RKNN_QUERY_IN_OUT_NUM = 0,
    RKNN_QUERY_INPUT_ATTR = 1,
    RKNN_QUERY_OUTPUT_ATTR = 2,
    RKNN_QUERY_PERF_DETAIL = 3,
    RKNN_QUERY_PERF_RUN = 4,
    RKNN_QUERY_SDK_VERSION = 5,
    RKNN_QUERY_MEM_SIZE = 6,
    RKNN_QUERY_CUSTOM_STRING = 7,
    RKNN_QUERY_NATIVE_INPUT_ATTR = 8,
    RKNN_QUERY_NATIVE_OUTPUT_ATTR = 9,
    RKNN_QUERY_NATIVE_NC1HWC2_INPUT_ATTR = 8,
    RKNN_QUERY_NATIVE_NC1HWC2_OUTPUT_ATTR = 9,
    RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR = 10,
    RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR = 11,
    RKNN_QUERY_DEVICE_MEM_INFO = 12,
    RKNN_QUERY_INPUT_DYNAMIC_RANGE = 13,
    RKNN_QUERY_CURRENT_INPUT_ATTR = 14,
    RKNN_QUERY_CURRENT_OUTPUT_ATTR = 15,
    RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR = 16,
    RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR = 17,
    RKNN_QUERY_CMD_MAX = 18,
} rknn_query_cmd;

typedef enum {
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
    RKNN_TENSOR_TYPE_MAX = 12,
} rknn_tensor_type;

typedef enum {
    RKNN_TENSOR_QNT_NONE = 0,
    RKNN_TENSOR_QNT_DFP = 1,
    RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC = 2,
    RKNN_TENSOR_QNT_MAX = 3,
} rknn_tensor_qnt_type;

typedef enum {
    RKNN_TENSOR_NCHW = 0,
    RKNN_TENSOR_NHWC = 1,
    RKNN_TENSOR_NC1HWC2 = 2,
    RKNN_TENSOR_UNDEFINED = 3,
    RKNN_TENSOR_FORMAT_MAX = 4,
} rknn_tensor_format;

typedef enum {
    RKNN_NPU_CORE_AUTO = 0,
    RKNN_NPU_CORE_0 = 1,
    RKNN_NPU_CORE_1 = 2,
    RKNN_NPU_CORE_2 = 4,
    RKNN_NPU_CORE_0_1 = 3,
    RKNN_NPU_CORE_0_1_2 = 7,
    RKNN_NPU_CORE_ALL = 65535,
    RKNN_NPU_CORE_UNDEFINED = 65536,
} rknn_core_mask;

typedef enum {
    RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE = 1,
    RKNN_TENSOR_MEMORY_FLAGS_FROM_FD = 2,
    RKNN_TENSOR_MEMORY_FLAGS_FROM_PHYS = 3,
    RKNN_TENSOR_MEMORY_FLAGS_UNKNOWN = 4,
} rknn_tensor_mem_flags;

typedef enum {
    RKNN_FLAG_MEMORY_FLAGS_DEFAULT = 0,
    RKNN_FLAG_MEMORY_CACHEABLE = 1,
    RKNN_FLAG_MEMORY_NON_CACHEABLE = 2,
    RKNN_FLAG_MEMORY_TRY_ALLOC_SRAM = 4,
} rknn_mem_alloc_flags;

typedef enum {
    RKNN_MEMORY_SYNC_TO_DEVICE = 1,
    RKNN_MEMORY_SYNC_FROM_DEVICE = 2,
    RKNN_MEMORY_SYNC_BIDIRECTIONAL = 3,
} rknn_mem_sync_mode;

typedef enum {
    RKNN_TARGET_TYPE_CPU = 1,
    RKNN_TARGET_TYPE_GPU = 2,
    RKNN_TARGET_TYPE_MAX = 3,
} rknn_target_type;

typedef struct {
    uint32_t n_input;
    uint32_t n_output;
} rknn_input_output_num;

typedef struct {
    uint32_t index;
    uint32_t n_dims;
    uint32_t dims[16];
    char name[256];
    uint32_t n_elems;
    uint32_t size;
    rknn_tensor_format fmt;
    rknn_tensor_type type;
    rknn_tensor_qnt_type qnt_type;
    int8_t fl;
    int32_t zp;
    float scale;
    uint32_t w_stride;
    uint32_t size_with_stride;
    uint8_t pass_through;
    uint32_t h_stride;
} rknn_tensor_attr;

typedef struct {
    uint32_t index;
    uint32_t shape_number;
    rknn_tensor_format fmt;
    char name[256];
    uint32_t dyn_range[512][16];
    uint32_t n_dims;
} rknn_input_range;

typedef struct {
    char *perf_data;
    uint64_t data_len;
} rknn_perf_detail;

typedef struct {
    int64_t run_duration;
} rknn_perf_run;

typedef struct {
    char api_version[256];
    char drv_version[256];
} rknn_sdk_version;

typedef struct {
    uint32_t total_weight_size;
    uint32_t total_internal_size;
    uint64_t total_dma_allocated_size;
    uint32_t total_sram_size;
    uint32_t free_sram_size;
    uint32_t reserved[10];
} rknn_mem_size;

typedef struct {
    char string[1024];
} rknn_custom_string;

typedef struct {
    void *virt_addr;
    uint64_t phys_addr;
    int32_t fd;
    int32_t offset;
    uint32_t size;
    uint32_t flags;
    void *priv_data;
} rknn_tensor_mem;

typedef struct {
    uint32_t index;
    void *buf;
    uint32_t size;
    uint8_t pass_through;
    rknn_tensor_type type;
    rknn_tensor_format fmt;
} rknn_input;

typedef struct {
    uint8_t want_float;
    uint8_t is_prealloc;
    uint32_t index;
    void *buf;
    uint32_t size;
} rknn_output;

typedef struct {
    rknn_context ctx;
    int32_t real_model_offset;
    uint32_t real_model_size;
    int32_t model_buffer_fd;
    uint32_t model_buffer_flags;
    uint8_t reserved[112];
} rknn_init_extend;

typedef struct {
    uint64_t frame_id;
    int32_t non_block;
    int32_t timeout_ms;
    int32_t fence_fd;
} rknn_run_extend;

typedef struct {
    uint64_t frame_id;
} rknn_output_extend;

typedef struct {
    void *cl_context;
    void *cl_command_queue;
    void *cl_kernel;
} rknn_gpu_op_context;

typedef struct {
    rknn_target_type target;
    rknn_custom_op_interal_context internal_ctx;
    rknn_gpu_op_context gpu_ctx;
    void *priv_data;
} rknn_custom_op_context;

typedef struct {
    rknn_tensor_attr attr;
    rknn_tensor_mem mem;
} rknn_custom_op_tensor;

typedef struct {
    char name[256];
    rknn_tensor_type dtype;
    uint32_t n_elems;
    void *data;
} rknn_custom_op_attr;

typedef int (*rknn_custom_op_init_cb)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs, uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs);
typedef int (*rknn_custom_op_prepare_cb)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs, uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs);
typedef int (*rknn_custom_op_compute_cb)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs, uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs);
typedef int (*rknn_custom_op_compute_native_cb)(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs, uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs);
typedef int (*rknn_custom_op_destroy_cb)(rknn_custom_op_context *op_ctx);

typedef struct {
    uint32_t version;
    rknn_target_type target;
    char op_type[256];
    char cl_kernel_name[256];
    char *cl_kernel_source;
    uint64_t cl_source_size;
    char cl_build_options[256];
    rknn_custom_op_init_cb init;
    rknn_custom_op_prepare_cb prepare;
    rknn_custom_op_compute_cb compute;
    rknn_custom_op_compute_native_cb compute_native;
    rknn_custom_op_destroy_cb destroy;
} rknn_custom_op;

int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flag, rknn_init_extend *extend);
int rknn_dup_context(rknn_context *context_in, rknn_context *context_out);
int rknn_destroy(rknn_context context);
int rknn_query(rknn_context context, rknn_query_cmd cmd, void *info, uint32_t size);
int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input inputs[]);
int rknn_set_batch_core_num(rknn_context context, int core_num);
int rknn_set_core_mask(rknn_context context, rknn_core_mask core_mask);
int rknn_run(rknn_context context, rknn_run_extend *extend);
int rknn_wait(rknn_context context, rknn_run_extend *extend);
int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output outputs[], rknn_output_extend
    *extend);
int rknn_outputs_release(rknn_context context, uint32_t n_outputs, rknn_output outputs[]);
rknn_tensor_mem *rknn_create_mem_from_phys(rknn_context ctx, uint64_t phys_addr, void *virt_addr, uint32_t
    size);
rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context ctx, int32_t fd, void *virt_addr, uint32_t size,
    int32_t offset);
rknn_tensor_mem *rknn_create_mem_from_mb_blk(rknn_context ctx, void *mb_blk, int32_t offset);
rknn_tensor_mem *rknn_create_mem(rknn_context ctx, uint32_t size);
rknn_tensor_mem *rknn_create_mem2(rknn_context ctx, uint64_t size, uint64_t alloc_flags);
int rknn_destroy_mem(rknn_context ctx, rknn_tensor_mem *mem);
int rknn_set_weight_mem(rknn_context ctx, rknn_tensor_mem *mem);
int rknn_set_internal_mem(rknn_context ctx, rknn_tensor_mem *mem);
int rknn_set_io_mem(rknn_context ctx, rknn_tensor_mem *mem, rknn_tensor_attr *attr);
int rknn_set_input_shape(rknn_context ctx, rknn_tensor_attr *attr);
int rknn_set_input_shapes(rknn_context ctx, uint32_t n_inputs, rknn_tensor_attr attr[]);
int rknn_mem_sync(rknn_context context, rknn_tensor_mem *mem, rknn_mem_sync_mode mode);
int rknn_register_custom_ops(rknn_context ctx, rknn_custom_op *op, uint32_t custom_op_num);
void rknn_custom_op_get_op_attr(rknn_custom_op_context *op_ctx, const char *attr_name, rknn_custom_op_attr
    *op_attr);

#endif
