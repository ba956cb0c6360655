/* The C API of librknn_api.so, toolkits 1.x (RK1808, RK1806, RV1109, RV1126, RK3399Pro), as rknnlite's library has it.
 *
 * Not the header of librknnrt.so, which has the same name: rknn_init has four arguments here, attributes count their dims from
 * the innermost, memory has other fields.
 */
#ifndef _RKNN_API_H
#define _RKNN_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of rknn_init. */
#define RKNN_FLAG_PRIOR_HIGH 0x00000000
#define RKNN_FLAG_PRIOR_MEDIUM 0x00000001
#define RKNN_FLAG_PRIOR_LOW 0x00000002
#define RKNN_FLAG_ASYNC_MASK 0x00000004        /* rknn_outputs_get answers the frame before */
#define RKNN_FLAG_COLLECT_PERF_MASK 0x00000008 /* for RKNN_QUERY_PERF_DETAIL */
#define RKNN_FLAG_LOAD_MODEL_IN_NPU 0x00000010 /* the model is a path */
#define RKNN_FLAG_PRECOMPILE_MASK 0x00000020   /* without effect */

#define RKNN_SUCC 0
#define RKNN_ERR_FAIL -1
#define RKNN_ERR_TIMEOUT -2
#define RKNN_ERR_DEVICE_UNAVAILABLE -3
#define RKNN_ERR_MALLOC_FAIL -4
#define RKNN_ERR_PARAM_INVALID -5
#define RKNN_ERR_MODEL_INVALID -6
#define RKNN_ERR_CTX_INVALID -7
#define RKNN_ERR_INPUT_INVALID -8
#define RKNN_ERR_OUTPUT_INVALID -9
#define RKNN_ERR_DEVICE_UNMATCH -10
#define RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL -11
#define RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION -12
#define RKNN_ERR_TARGET_PLATFORM_UNMATCH -13
#define RKNN_ERR_NON_PRE_COMPILED_MODEL_ON_MINI_DRIVER -14

#define RKNN_MAX_DIMS 16
#define RKNN_MAX_NAME_LEN 256

#ifdef __arm__
typedef uint32_t rknn_context;
#else
typedef uint64_t rknn_context;
#endif

typedef enum _rknn_query_cmd {
    RKNN_QUERY_IN_OUT_NUM = 0,  /* rknn_input_output_num */
    RKNN_QUERY_INPUT_ATTR = 1,  /* rknn_tensor_attr; set index first */
    RKNN_QUERY_OUTPUT_ATTR = 2, /* likewise */
    RKNN_QUERY_PERF_DETAIL = 3, /* rknn_perf_detail */
    RKNN_QUERY_PERF_RUN = 4,    /* rknn_perf_run */
    RKNN_QUERY_SDK_VERSION = 5, /* rknn_sdk_version */
    RKNN_QUERY_PRE_COMPILE = 6, /* RKNN_ERR_PARAM_INVALID here */
    RKNN_QUERY_CMD_MAX
} rknn_query_cmd;

typedef enum _rknn_tensor_type {
    RKNN_TENSOR_FLOAT32 = 0,
    RKNN_TENSOR_FLOAT16 = 1,
    RKNN_TENSOR_INT8 = 2,
    RKNN_TENSOR_UINT8 = 3,
    RKNN_TENSOR_INT16 = 4,
    RKNN_TENSOR_TYPE_MAX
} rknn_tensor_type;

typedef enum _rknn_tensor_qnt_type {
    RKNN_TENSOR_QNT_NONE = 0,
    RKNN_TENSOR_QNT_DFP = 1,               /* value = stored / 2^fl */
    RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC = 2, /* value = (stored - zp) * scale */
    RKNN_TENSOR_QNT_MAX
} rknn_tensor_qnt_type;

typedef enum _rknn_tensor_format {
    RKNN_TENSOR_NCHW = 0,
    RKNN_TENSOR_NHWC = 1,
    RKNN_TENSOR_FORMAT_MAX
} rknn_tensor_format;

typedef struct _rknn_input_output_num {
    uint32_t n_input;
    uint32_t n_output;
} rknn_input_output_num;

typedef struct _rknn_tensor_attr {
    uint32_t index;
    uint32_t n_dims;
    uint32_t dims[RKNN_MAX_DIMS]; /* innermost first */
    char name[RKNN_MAX_NAME_LEN];
    uint32_t n_elems;
    uint32_t size; /* bytes */
    rknn_tensor_format fmt;
    rknn_tensor_type type;
    rknn_tensor_qnt_type qnt_type;
    int8_t fl;   /* of RKNN_TENSOR_QNT_DFP */
    uint32_t zp; /* of RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC, and scale */
    float scale;
} rknn_tensor_attr;

typedef struct _rknn_perf_detail {
    char *perf_data; /* a table as text, the library's */
    uint64_t data_len;
} rknn_perf_detail;

typedef struct _rknn_perf_run {
    int64_t run_duration; /* microseconds */
} rknn_perf_run;

typedef struct _rknn_sdk_version {
    char api_version[256];
    char drv_version[256];
} rknn_sdk_version;

typedef struct _rknn_tensor_memory {
    void *logical_addr;
    uint64_t physical_addr;
    int32_t fd;
    uint32_t size;
    uint32_t handle;
    void *priv_data; /* the library's, and reserved_flag */
    uint64_t reserved_flag;
} rknn_tensor_mem;

typedef struct _rknn_input {
    uint32_t index;
    void *buf;
    uint32_t size;
    uint8_t pass_through; /* the elements are the tensor's own */
    rknn_tensor_type type;
    rknn_tensor_format fmt;
} rknn_input;

typedef struct _rknn_output {
    uint8_t want_float;
    uint8_t is_prealloc; /* buf is the caller's, of size bytes */
    uint32_t index;
    void *buf;
    uint32_t size;
} rknn_output;

typedef struct _rknn_run_extend {
    uint64_t frame_id; /* out */
} rknn_run_extend;

typedef struct _rknn_output_extend {
    uint64_t frame_id; /* out */
} rknn_output_extend;

typedef struct _rknn_precompile {
    void *model_data;
    uint32_t data_len;
} rknn_precompile;

int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flag);
int rknn_destroy(rknn_context context);
int rknn_query(rknn_context context, rknn_query_cmd cmd, void *info, uint32_t size);
int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input inputs[]);
int rknn_run(rknn_context context, rknn_run_extend *extend);
int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output outputs[], rknn_output_extend *extend);
int rknn_outputs_release(rknn_context context, uint32_t n_ouputs, rknn_output outputs[]);

/* The library's own memory of all inputs or outputs, in the form of their attributes. */
int rknn_inputs_map(rknn_context context, uint32_t n_inputs, rknn_tensor_mem mem[]);
int rknn_inputs_sync(rknn_context context, uint32_t n_inputs, rknn_tensor_mem mem[]);
int rknn_inputs_unmap(rknn_context context, uint32_t n_inputs, rknn_tensor_mem mem[]);
int rknn_outputs_map(rknn_context context, uint32_t n_outputs, rknn_tensor_mem mem[]);
int rknn_outputs_sync(rknn_context context, uint32_t n_outputs, rknn_tensor_mem mem[]);
int rknn_outputs_unmap(rknn_context context, uint32_t n_outputs, rknn_tensor_mem mem[]);

/* The same tensor by tensor. */
rknn_tensor_mem *rknn_create_mem(rknn_context ctx, uint64_t size);
int rknn_destroy_mem(rknn_context ctx, rknn_tensor_mem *mem);
int rknn_set_io_mem(rknn_context ctx, rknn_tensor_mem *mem, rknn_tensor_attr *attr);

#ifdef __cplusplus
}
#endif

#endif
