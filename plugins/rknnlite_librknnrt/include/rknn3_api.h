/* The C API of librknn3_api (1.0.0). Declarations of rknnlite's own; the layouts are the vendor's. */
/* SPDX-License-Identifier: Apache-2.0. Written by: python -m tools.headers */
#ifndef RKNNLITE_RKNN3_API_H
#define RKNNLITE_RKNN3_API_H

#include <stdbool.h>
#include <stdint.h>
#include "float16.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the functions answer. */
#define RKNN3_SUCCESS 0
#define RKNN3_ERR_FAIL (-1)
#define RKNN3_ERR_ARGUMENT_INVALID (-2)
#define RKNN3_ERR_MODEL_INVALID (-3)
#define RKNN3_ERR_CTX_INVALID (-4)
#define RKNN3_ERR_RUN_TASK_FAILED (-5)
#define RKNN3_ERR_OUT_OF_MEMORY (-6)
#define RKNN3_ERR_TIMEOUT (-7)
#define RKNN3_ERR_INPUT_INVALID (-8)
#define RKNN3_ERR_OUTPUT_INVALID (-9)
#define RKNN3_ERR_DEVICE_UNAVAILABLE (-10)
#define RKNN3_ERR_DEVICE_UNMATCH (-11)
#define RKNN3_ERR_TARGET_PLATFORM_UNMATCH (-12)
#define RKNN3_ERR_COMMUNICATION (-13)
#define RKNN3_ERR_MEM_SYNC_FAILED (-14)
#define RKNN3_WARN_NPU_CORE_UNUSED (-100)

/* Limits. */
#define RKNN3_MAX_DIMS 16
#define RKNN3_MAX_STRIDE_DIMS 17
#define RKNN3_MAX_NAME_LEN 256
#define RKNN3_MAX_DYNAMIC_SHAPE_NUM 512
#define RKNN3_MAX_LORA_NUM 128
#define RKNN3_MAX_SPECIAL_BOS_ID_NUM 64
#define RKNN3_MAX_SPECIAL_EOS_ID_NUM 64
#define RKNN3_MAX_DEVS 64
#define RKNN3_MAX_DEV_LEN 64
#define RKNN3_MAX_NPU_NODE_NUM 128

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

/* For rknn3_create_mem. */
typedef enum _rknn3_mem_alloc_flags {
    RKNN3_FLAG_MEMORY_FLAGS_DEFAULT = 0,
    RKNN3_FLAG_MEMORY_CACHEABLE = 1,
    RKNN3_FLAG_MEMORY_NON_CACHEABLE = 2
} rknn3_mem_alloc_flags;

/* Directions of rknn3_mem_sync. */
typedef enum _rknn3_mem_sync_mode {
    RKNN3_MEMORY_SYNC_TO_DEVICE = 1,
    RKNN3_MEMORY_SYNC_FROM_DEVICE = 2,
    RKNN3_MEMORY_SYNC_BIDIRECTIONAL = 3
} rknn3_mem_sync_mode;

/* Cores that a model may use. */
__extension__ typedef enum _rknn3_core_mask {
    RKNN3_NPU_CORE_AUTO = 0,
    RKNN3_NPU_CORE_0 = 1,
    RKNN3_NPU_CORE_1 = 2,
    RKNN3_NPU_CORE_2 = 4,
    RKNN3_NPU_CORE_3 = 8,
    RKNN3_NPU_CORE_4 = 16,
    RKNN3_NPU_CORE_5 = 32,
    RKNN3_NPU_CORE_6 = 64,
    RKNN3_NPU_CORE_7 = 128,
    RKNN3_NPU_CORE_ALL = 4294967295
} rknn3_core_mask;

/* Colour formats. */
typedef enum _rknn3_im_fmt {
    RKNN3_IM_FMT_RGB888 = 0,
    RKNN3_IM_FMT_BGR888 = 1,
    RKNN3_IM_FMT_GRAY8 = 2,
    RKNN3_IM_FMT_YCbCr_420_SP = 3,
    RKNN3_IM_FMT_YCrCb_420_SP = 4,
    RKNN3_IM_FMT_YCbCr_422_SP = 5,
    RKNN3_IM_FMT_YCrCb_422_SP = 6,
    RKNN3_IM_FMT_UNKNOWN = 65535
} rknn3_im_fmt;

/* Image operations. */
typedef enum _rknn3_im_proc_flag {
    RKNN3_IM_PROC_FLAG_NONE = 0,
    RKNN3_IM_PROC_FLAG_CROP = 1,
    RKNN3_IM_PROC_FLAG_RESIZE = 2,
    RKNN3_IM_PROC_FLAG_FILL = 32,
    RKNN3_IM_PROC_FLAG_COLOR_SPACE_CONVERT = 64,
    RKNN3_IM_PROC_FLAG_DECODE = 128,
    RKNN3_IM_PROC_FLAG_ENCODE = 256
} rknn3_im_proc_flag;

/* What happens when the KV cache is full. */
typedef enum _rknn3_kvcache_policy {
    RKNN3_KVCACHE_POLICY_DEFAULT = 0,
    RKNN3_KVCACHE_POLICY_RECURRENT = 1,
    RKNN3_KVCACHE_POLICY_NORMAL = 2
} rknn3_kvcache_policy;

/* How much of the KV cache is dropped. */
typedef enum _rknn3_kvcache_clear_policy {
    RKNN3_KVCACHE_CLEAR_ALL = 0,
    RKNN3_KVCACHE_KEEP_SYSTEM_PROMPT = 1
} rknn3_kvcache_clear_policy;

/* Element types of the KV cache. */
typedef enum _rknn3_kvcache_dtype {
    RKNN3_KVCACHE_DTYPE_UNDEFINED = 0,
    RKNN3_KVCACHE_DTYPE_INT4_TO_F16 = 1,
    RKNN3_KVCACHE_DTYPE_INT4_TO_F8 = 2,
    RKNN3_KVCACHE_DTYPE_INT8_TO_F16 = 3,
    RKNN3_KVCACHE_DTYPE_FLOAT4_TO_F16 = 4,
    RKNN3_KVCACHE_DTYPE_FLOAT4_TO_F8 = 5,
    RKNN3_KVCACHE_DTYPE_FLOAT8_TO_F16 = 6,
    RKNN3_KVCACHE_DTYPE_FLOAT8_TO_F8 = 7,
    RKNN3_KVCACHE_DTYPE_FLOAT16 = 8
} rknn3_kvcache_dtype;

/* How the KV cache is kept. */
typedef enum _rknn3_kvcache_store_method {
    RKNN3_KVCACHE_STORE_METHOD_UNDEFINED = 0,
    RKNN3_KVCACHE_STORE_METHOD_NORMAL = 1,
    RKNN3_KVCACHE_STORE_METHOD_GROUP_QUANT = 2
} rknn3_kvcache_store_method;

/* Which member of an input counts. */
typedef enum _rknn3_llm_input_type {
    RKNN3_LLM_INPUT_PROMPT = 0,
    RKNN3_LLM_INPUT_TOKEN = 1,
    RKNN3_LLM_INPUT_EMBED = 2,
    RKNN3_LLM_INPUT_MULTIMODAL = 3,
    RKNN3_LLM_INPUT_AUX = 4,
    RKNN3_LLM_INPUT_MAX = 5
} rknn3_llm_input_type;

/* What a language model does. */
typedef enum _rknn3_llm_task_type {
    RKNN3_LLM_TASK_GENERATE = 0,
    RKNN3_LLM_TASK_EMBEDDING = 1
} rknn3_llm_task_type;

/* Where a run is. */
typedef enum _LLMCallState {
    RKLLM_RUN_NORMAL = 0,
    RKLLM_RUN_WAITING = 1,
    RKLLM_RUN_FINISH = 2,
    RKLLM_RUN_STOP = 3,
    RKLLM_RUN_MAX_NEW_TOKEN_REACHED = 4,
    RKLLM_RUN_ERROR = 5
} LLMCallState;

/* Where in a run the output callback is called. */
typedef enum _LLMOutputCallbackState {
    RKLLM_OUTPUT_CALLBACK_PREFILL_PROCESSING = 0,
    RKLLM_OUTPUT_CALLBACK_PREFILL_FINISHED = 1,
    RKLLM_OUTPUT_CALLBACK_DECODE_PROCESSING = 2,
    RKLLM_OUTPUT_CALLBACK_DECODE_FINISHED = 3
} LLMOutputCallbackState;

static inline const char *rknn3_get_type_string(rknn3_tensor_type value)
{
    switch (value) {
    case RKNN3_TENSOR_FLOAT32: return "FP32";
    case RKNN3_TENSOR_FLOAT16: return "FP16";
    case RKNN3_TENSOR_INT8: return "INT8";
    case RKNN3_TENSOR_UINT8: return "UINT8";
    case RKNN3_TENSOR_INT16: return "INT16";
    case RKNN3_TENSOR_UINT16: return "UINT16";
    case RKNN3_TENSOR_INT32: return "INT32";
    case RKNN3_TENSOR_UINT32: return "UINT32";
    case RKNN3_TENSOR_INT64: return "INT64";
    case RKNN3_TENSOR_BOOL: return "BOOL";
    case RKNN3_TENSOR_INT4: return "INT4";
    default: return "UNKNOW";
    }
}

static inline const char *rknn3_get_qnt_type_string(rknn3_tensor_qnt_type value)
{
    switch (value) {
    case RKNN3_TENSOR_QNT_NONE: return "NONE";
    case RKNN3_TENSOR_PER_LAYER_SYMMETRIC: return "PER_LAYER_SYMMETRIC";
    case RKNN3_TENSOR_PER_LAYER_ASYMMETRIC: return "PER_LAYER_ASYMMETRIC";
    case RKNN3_TENSOR_PER_CHANNEL_SYMMETRIC: return "PER_CHANNEL_SYMMETRIC";
    case RKNN3_TENSOR_PER_CHANNEL_ASYMMETRIC: return "PER_CHANNEL_ASYMMETRIC";
    case RKNN3_TENSOR_PER_GROUP_SYMMETRIC: return "PER_GROUP_SYMMETRIC";
    case RKNN3_TENSOR_PER_GROUP_ASYMMETRIC: return "PER_GROUP_ASYMMETRIC";
    default: return "UNKNOWN";
    }
}

static inline const char *rknn3_get_layout_string(rknn3_tensor_layout value)
{
    switch (value) {
    case RKNN3_TENSOR_UNDEFINED: return "UNDEFINED";
    case RKNN3_TENSOR_NCHW: return "NCHW";
    case RKNN3_TENSOR_NHWC: return "NHWC";
    case RKNN3_TENSOR_NC1HWC2: return "NC1HWC2";
    case RKNN3_TENSOR_CHWN: return "CHWN";
    case RKNN3_TENSOR_HWIO: return "HWIO";
    case RKNN3_TENSOR_OIHW: return "OIHW";
    case RKNN3_TENSOR_O1I1HWI2O2: return "O1I1HWI2O2";
    default: return "UNKNOW";
    }
}

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

/* RKNN3_QUERY_SDK_VERSION. */
typedef struct _rknn3_sdk_version {
    char api_version[256];
    char drv_version[256];
} rknn3_sdk_version;

/* RKNN3_QUERY_CORE_MEM_SIZE, one per core: bytes. */
typedef struct _rknn3_core_mem_size {
    int32_t core_id;
    uint64_t weight_size;
    uint64_t internal_size;
    uint8_t reserved[32];
} rknn3_core_mem_size;

typedef struct _rknn3_custom_string {
    char string[1024];
} rknn3_custom_string;

typedef struct _rknn3_im_rect {
    int x;
    int y;
    int width;
    int height;
} rknn3_im_rect;

typedef struct _rknn3_im_metadata {
    uint64_t peer_im_mem_addr;
} rknn3_im_metadata;

/* An image. */
typedef struct _rknn3_im_mem {
    int width;
    int height;
    int stride; /* bytes */
    rknn3_im_fmt format;
    bool sync_to_host;
    rknn3_tensor_mem *data_mem;
    rknn3_im_metadata metadata;
} rknn3_im_mem;

/* For rknn3_model_init. */
typedef struct _rknn3_config {
    int32_t priority;
    uint32_t run_timeout; /* milliseconds, 0: none */
    uint32_t run_core_mask;
    uint8_t user_mem_weight;
    uint8_t user_mem_internal;
    uint8_t user_sram;
    uint8_t reserved[128];
} rknn3_config;

/* RKNN3_QUERY_ALLOCATION_INFO, one per core. */
typedef struct _rknn3_allocation_info {
    int32_t core_id;
    rknn3_tensor_mem command_mem;
    rknn3_tensor_mem weight_mem;
    rknn3_tensor_mem internal_mem;
    rknn3_tensor_mem kvcache_mem;
    uint8_t reserved[128];
} rknn3_allocation_info;

/* RKNN3_QUERY_DYNAMIC_SHAPE_INFO, one per shape. */
typedef struct _rknn3_shape_info {
    int32_t shape_id;
    uint32_t n_inputs;
    rknn3_tensor_attr *input_attrs; /* the caller's array */
    uint32_t n_outputs;
    rknn3_tensor_attr *output_attrs; /* the caller's array */
    uint8_t is_default;
    uint8_t reserved[31];
} rknn3_shape_info;

/* RKNN3_QUERY_DYNAMIC_SHAPE_CONFIG. */
typedef struct _rknn3_shape_config {
    uint32_t n_shapes;
    int32_t current_shape_id; /* -1: none */
} rknn3_shape_config;

/* Extras of rknn3_init. */
typedef struct _rknn3_init_extend {
    char *device_id; /* NULL: the only device */
    uint8_t reserved[128];
} rknn3_init_extend;

/* Bytes. */
typedef struct _rknn3_node_mem_info {
    uint64_t total;
    uint64_t free;
} rknn3_node_mem_info;

/* Bytes. */
typedef struct _rknn3_dev_mem_info {
    uint32_t node_num;
    uint64_t sys_total;
    uint64_t sys_free;
    rknn3_node_mem_info node_mem_info[128];
} rknn3_dev_mem_info;

typedef struct _rknn3_device {
    char id[64];
    char type[64];
    rknn3_dev_mem_info mem_info;
} rknn3_device;

/* What rknn3_find_devices finds. */
typedef struct _rknn3_devices {
    uint32_t n_devices;
    rknn3_device devices[64];
} rknn3_devices;

typedef void rknn3_session;

typedef rknn3_tensor rknn3_aux_tensor;

/* RKNN3_QUERY_LLM_CONFIG. */
typedef struct _rknn3_llm_config {
    char *chat_template;
    uint32_t vocab_size;
    uint32_t embedding_dim;
    uint32_t max_ctx_len;
    uint32_t max_position_embeddings;
    rknn3_kvcache_store_method kvcache_store_method;
    rknn3_kvcache_dtype kvcache_dtype;
    uint32_t kvcache_group_size;
    uint32_t kvcache_residual_depth;
    char *model_type;
    rknn3_llm_task_type task_type;
    uint8_t reserved[128];
} rknn3_llm_config;

typedef struct _rknn3_vocab_info {
    int vocab_size;
    int special_bos_id[64];
    int special_eos_id[64];
    int n_special_bos_id;
    int n_special_eos_id;
    int linefeed_id;
    bool skip_special_token;
    bool ignore_eos_token;
    uint8_t reserved[64];
} rknn3_vocab_info;

typedef struct _rknn3_llm_extend_param {
    uint8_t reserved[128];
} rknn3_llm_extend_param;

typedef struct _rknn3_sampling_params {
    int32_t top_k;
    float top_p;
    float temperature;
    float repeat_penalty;
    float frequency_penalty;
    float presence_penalty;
} rknn3_sampling_params;

/* One per output of logits. */
typedef struct _rknn3_llm_param {
    char *logits_name; /* NULL where there is one */
    int32_t max_context_len;
    rknn3_sampling_params sampling_param;
    rknn3_vocab_info vocab_info;
    rknn3_llm_extend_param extend_param;
} rknn3_llm_param;

typedef struct _rknn3_lora {
    char lora_name[256];
    float scale;
} rknn3_lora;

typedef struct _rknn3_kvcache_recurrent {
    int64_t n_keep;
    int64_t n_keep_aligned;
} rknn3_kvcache_recurrent;

typedef struct _rknn3_kvcache_policy_param {
    rknn3_kvcache_recurrent recurrent;
    uint8_t reserved[64];
} rknn3_kvcache_policy_param;

typedef struct _rknn3_llm_image {
    float16 *image_embed;
    uint64_t n_image_tokens;
    uint64_t n_image;
    const char *image_start;
    const char *image_end;
    const char *image_content;
    uint64_t image_width;
    uint64_t image_height;
} rknn3_llm_image;

typedef struct _rknn3_llm_audio {
    float16 *audio_embed;
    uint64_t n_audio_tokens;
    uint64_t n_audio;
    const char *audio_start;
    const char *audio_end;
    const char *audio_content;
} rknn3_llm_audio;

typedef struct _rknn3_llm_video {
    float16 *video_embed;
    uint64_t n_frame_tokens;
    uint64_t n_frame_per_video;
    uint64_t n_video;
    const char *video_start;
    const char *video_end;
    const char *video_content;
    uint64_t frame_width;
    uint64_t frame_height;
} rknn3_llm_video;

typedef struct _rknn3_llm_multimodal_tensor {
    const char *name;
    const char *prompt; /* counts before tokens */
    int32_t *tokens;
    uint64_t n_tokens;
    bool enable_thinking;
    rknn3_llm_image image;
    rknn3_llm_audio audio;
    rknn3_llm_video video;
} rknn3_llm_multimodal_tensor;

typedef struct _rknn3_llm_tensor {
    const char *name;
    const char *prompt;
    float16 *embed; /* n_tokens rows */
    int32_t *tokens;
    uint64_t n_tokens;
    bool enable_thinking;
} rknn3_llm_tensor;

typedef struct _rknn3_llm_input {
    const char *role; /* user or tool */
    rknn3_llm_input_type input_type;
    __extension__ union {
        rknn3_llm_tensor llm_input;
        rknn3_llm_multimodal_tensor multimodal_input;
        rknn3_tensor aux_input;
    };
} rknn3_llm_input;

typedef struct _rknn3_llm_infer_param {
    int keep_history; /* 1: keep it */
    int32_t max_new_tokens;
    uint8_t reserved[128];
} rknn3_llm_infer_param;

typedef struct _RKLLMResult {
    int *token_ids;
    int num_tokens;
} RKLLMResult;

/* 0 goes on. */
typedef int (*LLMResultCallback)(void *userdata, RKLLMResult *result, LLMCallState state);

/* The token's number, or a negative error. */
typedef int (*LLMSamplingCallback)(void *userdata, float16 *logits, char *logits_name);

/* How many tokens it wrote, or a negative error. */
typedef int (*LLMTokenizerCallback)(void *userdata, const char *text, int32_t text_len, int32_t *tokens,
                                    int32_t n_tokens_max);

/* Fills num_tokens rows of float16; len is the number of bytes. */
typedef int (*LLMGetEmbedCallback)(void *userdata, int32_t *tokens, uint64_t num_tokens, void *embed,
                                   uint64_t len);

/* 0 goes on. */
typedef int (*LLMOutputCallback)(void *userdata, rknn3_tensor *output_tensors, uint32_t n_output_tensors,
                                 LLMOutputCallbackState state);

typedef struct _RKLLMCallback {
    LLMResultCallback result_callback;
    void *result_userdata;
    LLMSamplingCallback sampling_callback;
    void *sampling_userdata;
    LLMTokenizerCallback tokenizer_callback;
    void *tokenizer_userdata;
    LLMGetEmbedCallback embed_callback;
    void *embed_userdata;
    LLMOutputCallback output_callback;
    void *output_userdata;
    rknn3_tensor *output_tensors; /* the caller's, to be filled */
    uint32_t n_output_tensors;
} RKLLMCallback;

typedef struct _RKLLMRunState {
    uint64_t n_total_tokens;
    uint64_t n_max_tokens;
    uint64_t n_decode_tokens;
    uint64_t n_prefill_tokens;
    rknn3_kvcache_policy kvcache_policy;
    int32_t n_loras_enabled;
    rknn3_lora *loras_enabled;
} RKLLMRunState;

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

/* An empty context; NULL: on the only device. */
int rknn3_init(rknn3_context *context, rknn3_init_extend *init_extend);

/* weight_path may be NULL. */
int rknn3_load_model_from_path(rknn3_context context, const char *model_path, const char *weight_path);

int rknn3_load_model_from_data(rknn3_context context, const void *model_data, uint64_t model_size,
                               const void *weight_data, uint64_t weight_size);

int rknn3_model_init(rknn3_context context, rknn3_config *config);

int rknn3_dup_context(rknn3_context context_in, rknn3_context *context_out);

int rknn3_destroy(rknn3_context context);

/* Fills the structure of the command; size is its sizeof. */
int rknn3_query(rknn3_context context, rknn3_query_cmd cmd, void *info, uint64_t size);

int rknn3_run(rknn3_context context, const rknn3_tensor inputs[], uint32_t n_inputs, rknn3_tensor outputs[],
              uint32_t n_outputs);

/* Then rknn3_wait. */
int rknn3_run_async(rknn3_context context, const rknn3_tensor inputs[], uint32_t n_inputs,
                    rknn3_tensor outputs[], uint32_t n_outputs);

int rknn3_wait(rknn3_context context);

/* NULL when that fails, here and below. */
rknn3_tensor_mem *rknn3_create_mem_from_phys(rknn3_context context, uint64_t phys_addr, void *virt_addr,
                                             uint64_t size);

rknn3_tensor_mem *rknn3_create_mem_from_fd(rknn3_context context, int32_t fd, void *virt_addr, uint64_t size,
                                           uint64_t offset);

rknn3_tensor_mem *rknn3_create_mem(rknn3_context context, uint64_t size, int32_t core_id,
                                   rknn3_mem_alloc_flags flags);

int rknn3_destroy_mem(rknn3_context context, rknn3_tensor_mem *mem);

int rknn3_mem_sync(rknn3_context context, rknn3_tensor_mem *mem, rknn3_mem_sync_mode mode);

int rknn3_set_shape(rknn3_context context, int32_t shape_id);

int rknn3_set_kvcache_mem(rknn3_context context, rknn3_tensor_mem *mem[], int *npu_core_indices, int n_core);

int rknn3_set_internal_mem(rknn3_context context, rknn3_tensor_mem *mem[], uint32_t n_core);

/* Every layer's output as .npy. */
int rknn3_dump_features(rknn3_context context, const rknn3_tensor inputs[], uint32_t n_inputs,
                        rknn3_tensor outputs[], uint32_t n_outputs, const char *dump_dir);

int rknn3_find_devices(rknn3_devices *pdevs);

int rknn3_profile_ops(rknn3_context context, const rknn3_tensor inputs[], uint32_t n_inputs,
                      rknn3_tensor outputs[], uint32_t n_outputs, uint32_t log_level);

int rknn3_profile_mem(rknn3_context context);

/* A plugin for the coprocessor. */
int rknn3_register_custom_ops_plugins(rknn3_context ctx, const char *plugin_path, int64_t size);

int rknn3_im_mem_create(rknn3_context context, int32_t width, int32_t height, rknn3_im_fmt format,
                        int32_t size, int32_t core_id, rknn3_mem_alloc_flags flags, rknn3_im_mem *im_mem);

int rknn3_im_mem_destroy(rknn3_context context, rknn3_im_mem *im_mem);

int rknn3_im_cvt_color(rknn3_context context, rknn3_im_mem *src, rknn3_im_mem *dst);

/* NULL when that fails. */
rknn3_session *rknn3_session_init(rknn3_context context, rknn3_llm_param *params, int n_params);

int rknn3_session_enable_lora(rknn3_session *session, rknn3_lora *lora);

int rknn3_session_disable_lora(rknn3_session *session, rknn3_lora *lora);

int rknn3_session_query_lora(rknn3_session *session, rknn3_lora **lora, int *n_lora);

int rknn3_session_set_kvcache_policy(rknn3_session *session, rknn3_kvcache_policy policy,
                                     rknn3_kvcache_policy_param *param);

int rknn3_session_clear_kvcache(rknn3_session *session, rknn3_kvcache_clear_policy clear);

int rknn3_session_load_kvcache(rknn3_session *session, const char *kvcache_path, int64_t size);

int rknn3_session_save_kvcache(rknn3_session *session, char *kvcache_path);

int rknn3_session_query_state(rknn3_session *session, RKLLMRunState *state);

int rknn3_session_set_chat_template(rknn3_session *session, const char *system_prompt,
                                    const char *prompt_prefix, const char *prompt_postfix);

/* The functions must live as long as the session. */
int rknn3_session_set_callback(rknn3_session *session, RKLLMCallback *callback);

int rknn3_session_run(rknn3_session *session, rknn3_llm_input inputs[], uint32_t n_inputs,
                      rknn3_llm_infer_param *param);

int rknn3_session_run_async(rknn3_session *session, rknn3_llm_input inputs[], uint32_t n_inputs,
                            rknn3_llm_infer_param *param);

int rknn3_session_stop(rknn3_session *session);

/* Before rknn3_destroy. */
int rknn3_session_destroy(rknn3_session *session);

/* JSON. */
int rknn3_session_set_function_tools(rknn3_session *session, const char *tools);

int rknn3_session_set_llm_param(rknn3_session *session, rknn3_llm_param *params, int n_params);

#ifdef __cplusplus
}
#endif

#endif
