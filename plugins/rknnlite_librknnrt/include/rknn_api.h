/* The C API of librknnrt (2.3.2): models. Declarations of rknnlite's own; the layouts are the vendor's. */
/* SPDX-License-Identifier: Apache-2.0. Written by: python -m tools.headers */
#ifndef RKNNLITE_RKNN_API_H
#define RKNNLITE_RKNN_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of rknn_init, and the last one of rknn_create_mem2. */
#define RKNN_FLAG_PRIOR_HIGH 0x0
#define RKNN_FLAG_PRIOR_MEDIUM 0x1
#define RKNN_FLAG_PRIOR_LOW 0x2
#define RKNN_FLAG_ASYNC_MASK 0x4
#define RKNN_FLAG_COLLECT_PERF_MASK 0x8
#define RKNN_FLAG_MEM_ALLOC_OUTSIDE 0x10
#define RKNN_FLAG_SHARE_WEIGHT_MEM 0x20
#define RKNN_FLAG_FENCE_IN_OUTSIDE 0x40
#define RKNN_FLAG_FENCE_OUT_OUTSIDE 0x80
#define RKNN_FLAG_COLLECT_MODEL_INFO_ONLY 0x100
#define RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE 0x200
#define RKNN_FLAG_EXECUTE_FALLBACK_PRIOR_DEVICE_GPU 0x400
#define RKNN_FLAG_ENABLE_SRAM 0x800
#define RKNN_FLAG_SHARE_SRAM 0x1000
#define RKNN_FLAG_DISABLE_PROC_HIGH_PRIORITY 0x2000
#define RKNN_FLAG_DISABLE_FLUSH_INPUT_MEM_CACHE 0x4000
#define RKNN_FLAG_DISABLE_FLUSH_OUTPUT_MEM_CACHE 0x8000
#define RKNN_FLAG_MODEL_BUFFER_ZERO_COPY 0x10000
#define RKNN_MEM_FLAG_ALLOC_NO_CONTEXT 0x20000

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

/* Limits. */
#define RKNN_MAX_DIMS 16
#define RKNN_MAX_NUM_CHANNEL 15
#define RKNN_MAX_NAME_LEN 256
#define RKNN_MAX_DYNAMIC_SHAPE_NUM 512

#if UINTPTR_MAX > 0xffffffffu
typedef uint64_t rknn_context;
#else
typedef uint32_t rknn_context;
#endif

/* What rknn_query is asked. */
typedef enum _rknn_query_cmd {
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
    RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR = 10,
    RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR = 11,
    RKNN_QUERY_DEVICE_MEM_INFO = 12,
    RKNN_QUERY_INPUT_DYNAMIC_RANGE = 13,
    RKNN_QUERY_CURRENT_INPUT_ATTR = 14,
    RKNN_QUERY_CURRENT_OUTPUT_ATTR = 15,
    RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR = 16,
    RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR = 17,
    RKNN_QUERY_NATIVE_NC1HWC2_INPUT_ATTR = 8,
    RKNN_QUERY_NATIVE_NC1HWC2_OUTPUT_ATTR = 9,
    RKNN_QUERY_CMD_MAX = 18
} rknn_query_cmd;

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

/* Cores of the NPU that a context may use. */
typedef enum _rknn_core_mask {
    RKNN_NPU_CORE_AUTO = 0,
    RKNN_NPU_CORE_0 = 1,
    RKNN_NPU_CORE_1 = 2,
    RKNN_NPU_CORE_0_1 = 3,
    RKNN_NPU_CORE_2 = 4,
    RKNN_NPU_CORE_0_1_2 = 7,
    RKNN_NPU_CORE_ALL = 65535,
    RKNN_NPU_CORE_UNDEFINED = 65536
} rknn_core_mask;

/* Where memory came from. */
typedef enum _rknn_tensor_mem_flags {
    RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE = 1,
    RKNN_TENSOR_MEMORY_FLAGS_FROM_FD = 2,
    RKNN_TENSOR_MEMORY_FLAGS_FROM_PHYS = 3,
    RKNN_TENSOR_MEMORY_FLAGS_UNKNOWN = 4
} rknn_tensor_mem_flags;

/* For rknn_create_mem2. */
typedef enum _rknn_mem_alloc_flags {
    RKNN_FLAG_MEMORY_FLAGS_DEFAULT = 0,
    RKNN_FLAG_MEMORY_CACHEABLE = 1,
    RKNN_FLAG_MEMORY_NON_CACHEABLE = 2,
    RKNN_FLAG_MEMORY_TRY_ALLOC_SRAM = 4
} rknn_mem_alloc_flags;

/* Directions of rknn_mem_sync. */
typedef enum _rknn_mem_sync_mode {
    RKNN_MEMORY_SYNC_TO_DEVICE = 1,
    RKNN_MEMORY_SYNC_FROM_DEVICE = 2,
    RKNN_MEMORY_SYNC_BIDIRECTIONAL = 3
} rknn_mem_sync_mode;

static inline const char *get_type_string(rknn_tensor_type value)
{
    switch (value) {
    case RKNN_TENSOR_FLOAT32: return "FP32";
    case RKNN_TENSOR_FLOAT16: return "FP16";
    case RKNN_TENSOR_INT8: return "INT8";
    case RKNN_TENSOR_UINT8: return "UINT8";
    case RKNN_TENSOR_INT16: return "INT16";
    case RKNN_TENSOR_UINT16: return "UINT16";
    case RKNN_TENSOR_INT32: return "INT32";
    case RKNN_TENSOR_UINT32: return "UINT32";
    case RKNN_TENSOR_INT64: return "INT64";
    case RKNN_TENSOR_BOOL: return "BOOL";
    case RKNN_TENSOR_INT4: return "INT4";
    case RKNN_TENSOR_BFLOAT16: return "BF16";
    default: return "UNKNOW";
    }
}

static inline const char *get_qnt_type_string(rknn_tensor_qnt_type value)
{
    switch (value) {
    case RKNN_TENSOR_QNT_NONE: return "NONE";
    case RKNN_TENSOR_QNT_DFP: return "DFP";
    case RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC: return "AFFINE";
    default: return "UNKNOW";
    }
}

static inline const char *get_format_string(rknn_tensor_format value)
{
    switch (value) {
    case RKNN_TENSOR_NCHW: return "NCHW";
    case RKNN_TENSOR_NHWC: return "NHWC";
    case RKNN_TENSOR_NC1HWC2: return "NC1HWC2";
    case RKNN_TENSOR_UNDEFINED: return "UNDEFINED";
    default: return "UNKNOW";
    }
}

/* RKNN_QUERY_IN_OUT_NUM. */
typedef struct _rknn_input_output_num {
    uint32_t n_input;
    uint32_t n_output;
} rknn_input_output_num;

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

/* RKNN_QUERY_INPUT_DYNAMIC_RANGE: the shapes that an input may have. */
typedef struct _rknn_input_range {
    uint32_t index; /* set it before rknn_query */
    uint32_t shape_number;
    rknn_tensor_format fmt;
    char name[256];
    uint32_t dyn_range[512][16];
    uint32_t n_dims;
} rknn_input_range;

/* RKNN_QUERY_PERF_DETAIL: a table as text. */
typedef struct _rknn_perf_detail {
    char *perf_data; /* the library's, do not free it */
    uint64_t data_len;
} rknn_perf_detail;

/* RKNN_QUERY_PERF_RUN. */
typedef struct _rknn_perf_run {
    int64_t run_duration; /* microseconds */
} rknn_perf_run;

/* RKNN_QUERY_SDK_VERSION. */
typedef struct _rknn_sdk_version {
    char api_version[256];
    char drv_version[256];
} rknn_sdk_version;

/* RKNN_QUERY_MEM_SIZE: bytes. */
typedef struct _rknn_mem_size {
    uint32_t total_weight_size;
    uint32_t total_internal_size; /* without inputs and outputs */
    uint64_t total_dma_allocated_size;
    uint32_t total_sram_size;
    uint32_t free_sram_size;
    uint32_t reserved[10];
} rknn_mem_size;

/* RKNN_QUERY_CUSTOM_STRING. */
typedef struct _rknn_custom_string {
    char string[1024];
} rknn_custom_string;

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

/* For rknn_inputs_set. */
typedef struct _rknn_input {
    uint32_t index;
    void *buf;
    uint32_t size; /* bytes */
    uint8_t pass_through; /* 1: the bytes go in as they are */
    rknn_tensor_type type;
    rknn_tensor_format fmt;
} rknn_input;

/* For rknn_outputs_get. */
typedef struct _rknn_output {
    uint8_t want_float; /* 1: converted to float32 */
    uint8_t is_prealloc; /* 1: buf and size are the caller's */
    uint32_t index;
    void *buf;
    uint32_t size; /* bytes */
} rknn_output;

/* Extras of rknn_init. */
typedef struct _rknn_init_extend {
    rknn_context ctx; /* whose weights RKNN_FLAG_SHARE_WEIGHT_MEM takes */
    int32_t real_model_offset;
    uint32_t real_model_size;
    int32_t model_buffer_fd;
    uint32_t model_buffer_flags;
    uint8_t reserved[112];
} rknn_init_extend;

/* Extras of rknn_run and rknn_wait. */
typedef struct _rknn_run_extend {
    uint64_t frame_id; /* out */
    int32_t non_block; /* 0: wait for the result */
    int32_t timeout_ms; /* milliseconds */
    int32_t fence_fd;
} rknn_run_extend;

/* Extras of rknn_outputs_get. */
typedef struct _rknn_output_extend {
    uint64_t frame_id; /* out */
} rknn_output_extend;

/* Opens a model in memory, or with size 0 the file whose path model points to. extend may be NULL. */
int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flag, rknn_init_extend *extend);

/* A second context of the same model; the weights are shared. */
int rknn_dup_context(rknn_context *context_in, rknn_context *context_out);

/* Closes a context; destroy its memory first. */
int rknn_destroy(rknn_context context);

/* Fills the structure of the command; size is its sizeof. */
int rknn_query(rknn_context context, rknn_query_cmd cmd, void *info, uint32_t size);

/* Copies the inputs in, converted unless pass_through is 1. */
int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input inputs[]);

/* How many cores share the frames of a batch. */
int rknn_set_batch_core_num(rknn_context context, int core_num);

int rknn_set_core_mask(rknn_context context, rknn_core_mask core_mask);

/* One frame; extend may be NULL. */
int rknn_run(rknn_context context, rknn_run_extend *extend);

/* Waits for a run that did not block. */
int rknn_wait(rknn_context context, rknn_run_extend *extend);

/* The results of the last frame; give them back with rknn_outputs_release. extend may be NULL. */
int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output outputs[],
                     rknn_output_extend *extend);

int rknn_outputs_release(rknn_context context, uint32_t n_ouputs, rknn_output outputs[]);

/* The caller's memory by its physical address; NULL when that fails, here and below. */
rknn_tensor_mem *rknn_create_mem_from_phys(rknn_context ctx, uint64_t phys_addr, void *virt_addr,
                                           uint32_t size);

/* The caller's memory by its descriptor; virt_addr is where the descriptor's memory begins. */
rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context ctx, int32_t fd, void *virt_addr, uint32_t size,
                                         int32_t offset);

rknn_tensor_mem *rknn_create_mem_from_mb_blk(rknn_context ctx, void *mb_blk, int32_t offset);

rknn_tensor_mem *rknn_create_mem(rknn_context ctx, uint32_t size);

/* With rknn_mem_alloc_flags; ctx may be 0 with RKNN_MEM_FLAG_ALLOC_NO_CONTEXT. */
rknn_tensor_mem *rknn_create_mem2(rknn_context ctx, uint64_t size, uint64_t alloc_flags);

int rknn_destroy_mem(rknn_context ctx, rknn_tensor_mem *mem);

int rknn_set_weight_mem(rknn_context ctx, rknn_tensor_mem *mem);

int rknn_set_internal_mem(rknn_context ctx, rknn_tensor_mem *mem);

/* Binds memory to an input or output, once for all runs. */
int rknn_set_io_mem(rknn_context ctx, rknn_tensor_mem *mem, rknn_tensor_attr *attr);

/* Old; use rknn_set_input_shapes. */
int rknn_set_input_shape(rknn_context ctx, rknn_tensor_attr *attr);

/* Chooses one of the shapes of a model with dynamic shapes, for all inputs. */
int rknn_set_input_shapes(rknn_context ctx, uint32_t n_inputs, rknn_tensor_attr attr[]);

int rknn_mem_sync(rknn_context context, rknn_tensor_mem *mem, rknn_mem_sync_mode mode);

#ifdef __cplusplus
}
#endif

#endif
