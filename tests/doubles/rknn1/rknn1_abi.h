/* The C ABI of librknn_api as far as tests need it, own text: numbers and layouts are facts of version 1.7. With HOST
   it is the flavour that talks to an NPU behind USB or PCIe. */
#ifndef RKNN1_ABI_H
#define RKNN1_ABI_H

#include <stdint.h>

#if defined(__arm__) && !defined(HOST)
typedef uint32_t rknn_context;
#else
typedef uint64_t rknn_context;
#endif

enum { FLAG_ASYNC = 4, FLAG_COLLECT_PERF = 8, FLAG_LOAD_MODEL_IN_NPU = 16, FLAG_PRECOMPILE = 32 };
enum { QUERY_IN_OUT_NUM, QUERY_INPUT_ATTR, QUERY_OUTPUT_ATTR, QUERY_PERF_DETAIL, QUERY_PERF_RUN, QUERY_SDK_VERSION,
       QUERY_PRE_COMPILE };
enum { NCHW, NHWC };
enum { FLOAT32, FLOAT16, INT8, UINT8, INT16 };
enum { QNT_NONE, QNT_DFP, QNT_AFFINE };

typedef struct {
    uint32_t n_input, n_output;
} rknn_input_output_num;

typedef struct {
    uint32_t index, n_dims, dims[16]; /* the innermost first */
    char name[256];
    uint32_t n_elems, size;
    int32_t fmt, type, qnt_type;
    int8_t fl;
    uint32_t zp;
    float scale;
} rknn_tensor_attr;

typedef struct {
    char *perf_data;
    uint64_t data_len;
} rknn_perf_detail;

typedef struct {
    int64_t run_duration;
} rknn_perf_run;

typedef struct {
    char api_version[256], drv_version[256];
} rknn_sdk_version;

typedef struct {
    void *logical_addr;
    uint64_t physical_addr;
    int32_t fd;
    uint32_t size, handle;
    void *priv_data;
    uint64_t reserved_flag;
} rknn_tensor_mem;

typedef struct {
    uint32_t index;
    void *buf;
    uint32_t size;
    uint8_t pass_through;
    int32_t type, fmt;
} rknn_input;

typedef struct {
    uint8_t want_float, is_prealloc;
    uint32_t index;
    void *buf;
    uint32_t size;
} rknn_output;

typedef struct {
    uint64_t frame_id;
} rknn_run_extend;

typedef struct {
    uint64_t frame_id;
} rknn_output_extend;

typedef struct {
    void *model_data;
    uint32_t data_len;
} rknn_precompile;

typedef struct {
    uint32_t n_devices;
    char types[256][64], ids[256][64];
} rknn_devices_id;

typedef struct {
    char *device_id;
} rknn_init_extend;

#endif
