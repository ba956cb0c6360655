/* C API of librknn3_api for the test double: names, numbers and member order as the manual states them.
   Without LATER it is revision 1.0.0, with LATER the one of runtime 1.0.4 and after. */
#ifndef RKNN3_ABI_H
#define RKNN3_ABI_H

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t rknn3_context;
typedef void rknn3_session;
typedef uint16_t float16;

#define RKNN3_MAX_DIMS 16
#define RKNN3_MAX_STRIDE_DIMS 17
#define RKNN3_MAX_NAME_LEN 256
#define RKNN3_MAX_DYNAMIC_SHAPE_NUM 512
#ifdef LATER
#define RKNN3_MAX_LORA_NUM 32
#define RKNN3_MAX_KVCACHE_LEN_GROUPS 16
#define RKNN3_MAX_ATTENTION_TYPE_NUM 3
#else
#define RKNN3_MAX_LORA_NUM 128
#endif
#define RKNN3_MAX_SPECIAL_BOS_ID_NUM 64
#define RKNN3_MAX_SPECIAL_EOS_ID_NUM 64
#define RKNN3_MAX_DEVS 64
#define RKNN3_MAX_DEV_LEN 64
#define RKNN3_MAX_NPU_NODE_NUM 128

enum {
    RKNN3_SUCCESS = 0,
    RKNN3_ERR_FAIL = -1,
    RKNN3_ERR_ARGUMENT_INVALID = -2,
    RKNN3_ERR_MODEL_INVALID = -3,
    RKNN3_ERR_CTX_INVALID = -4,
    RKNN3_ERR_RUN_TASK_FAILED = -5,
    RKNN3_ERR_OUT_OF_MEMORY = -6,
    RKNN3_ERR_TIMEOUT = -7,
    RKNN3_ERR_INPUT_INVALID = -8,
    RKNN3_ERR_OUTPUT_INVALID = -9,
    RKNN3_ERR_DEVICE_UNAVAILABLE = -10,
    RKNN3_ERR_DEVICE_UNMATCH = -11,
    RKNN3_ERR_TARGET_PLATFORM_UNMATCH = -12,
    RKNN3_ERR_COMMUNICATION = -13,
    RKNN3_ERR_MEM_SYNC_FAILED = -14,
    RKNN3_WARN_NPU_CORE_UNUSED = -100,
    RKNN3_ERR_KEY_INVALID = -15,
    RKNN3_ERR_DECRYPT_FAILED = -16,
    RKNN3_ERR_WEIGHT_LOAD_NOT_PREPARED = -17,
    RKNN3_ERR_INCOMPATIBLE_VERSION = -18,
};

typedef enum {
    RKNN3_QUERY_IN_OUT_NUM = 0, RKNN3_QUERY_INPUT_ATTR = 1, RKNN3_QUERY_OUTPUT_ATTR = 2,
    RKNN3_QUERY_SDK_VERSION = 5, RKNN3_QUERY_CORE_MEM_SIZE = 6, RKNN3_QUERY_NATIVE_INPUT_ATTR = 8,
    RKNN3_QUERY_NATIVE_OUTPUT_ATTR = 9, RKNN3_QUERY_DEVICE_MEM_INFO = 12, RKNN3_QUERY_CORE_NUMBER = 13,
    RKNN3_QUERY_ALLOCATION_INFO = 14, RKNN3_QUERY_DYNAMIC_SHAPE_CONFIG = 15,
    RKNN3_QUERY_DYNAMIC_SHAPE_INFO = 16, RKNN3_QUERY_LLM_CONFIG = 17,
    RKNN3_QUERY_POSTPROCESS_IN_OUT_NUM = 18, RKNN3_QUERY_POSTPROCESS_OUTPUT_ATTR = 19,
    RKNN3_QUERY_POSTPROCESS_DYNAMIC_SHAPE_INFO = 20, RKNN3_QUERY_CMD_MAX = 21,
} rknn3_query_cmd;

typedef enum {
    RKNN3_TENSOR_FLOAT32 = 0, RKNN3_TENSOR_FLOAT16 = 1, RKNN3_TENSOR_INT8 = 2, RKNN3_TENSOR_UINT8 = 3,
    RKNN3_TENSOR_INT16 = 4, RKNN3_TENSOR_UINT16 = 5, RKNN3_TENSOR_INT32 = 6, RKNN3_TENSOR_UINT32 = 7,
    RKNN3_TENSOR_INT64 = 8, RKNN3_TENSOR_UINT64 = 9, RKNN3_TENSOR_BOOL = 10, RKNN3_TENSOR_INT4 = 11,
    RKNN3_TENSOR_TYPE_MAX = 12,
} rknn3_tensor_type;

typedef enum {
    RKNN3_TENSOR_QNT_NONE = 0, RKNN3_TENSOR_PER_LAYER_SYMMETRIC = 1, RKNN3_TENSOR_PER_LAYER_ASYMMETRIC = 2,
    RKNN3_TENSOR_PER_CHANNEL_SYMMETRIC = 3, RKNN3_TENSOR_PER_CHANNEL_ASYMMETRIC = 4,
    RKNN3_TENSOR_PER_GROUP_SYMMETRIC = 5, RKNN3_TENSOR_PER_GROUP_ASYMMETRIC = 6, RKNN3_TENSOR_QNT_MAX = 7,
} rknn3_tensor_qnt_type;

typedef enum {
    RKNN3_TENSOR_UNDEFINED = 0, RKNN3_TENSOR_NCHW = 1, RKNN3_TENSOR_NHWC = 2, RKNN3_TENSOR_NC1HWC2 = 3,
    RKNN3_TENSOR_CHWN = 4, RKNN3_TENSOR_HWIO = 5, RKNN3_TENSOR_OIHW = 6, RKNN3_TENSOR_O1I1HWI2O2 = 7,
    RKNN3_TENSOR_LAYOUT_MAX = 8,
} rknn3_tensor_layout;

typedef enum {
    RKNN3_FLAG_MEMORY_FLAGS_DEFAULT = 0, RKNN3_FLAG_MEMORY_CACHEABLE = 1,
    RKNN3_FLAG_MEMORY_NON_CACHEABLE = 2,
} rknn3_mem_alloc_flags;

typedef enum {
    RKNN3_MEMORY_SYNC_TO_DEVICE = 1, RKNN3_MEMORY_SYNC_FROM_DEVICE = 2, RKNN3_MEMORY_SYNC_BIDIRECTIONAL = 3,
} rknn3_mem_sync_mode;

typedef enum {
    RKNN3_NPU_CORE_AUTO = 0, RKNN3_NPU_CORE_0 = 1, RKNN3_NPU_CORE_1 = 2, RKNN3_NPU_CORE_2 = 4,
    RKNN3_NPU_CORE_3 = 8, RKNN3_NPU_CORE_4 = 16, RKNN3_NPU_CORE_5 = 32, RKNN3_NPU_CORE_6 = 64,
    RKNN3_NPU_CORE_7 = 128, RKNN3_NPU_CORE_ALL = 0xffffffff,
} rknn3_core_mask;

typedef enum {
    RKNN3_KVCACHE_POLICY_DEFAULT = 0, RKNN3_KVCACHE_POLICY_RECURRENT = 1, RKNN3_KVCACHE_POLICY_NORMAL = 2,
} rknn3_kvcache_policy;

typedef enum {
    RKNN3_KVCACHE_CLEAR_ALL = 0, RKNN3_KVCACHE_KEEP_SYSTEM_PROMPT = 1,
} rknn3_kvcache_clear_policy;

typedef enum {
    RKNN3_LLM_INPUT_PROMPT = 0, RKNN3_LLM_INPUT_TOKEN = 1, RKNN3_LLM_INPUT_EMBED = 2,
    RKNN3_LLM_INPUT_MULTIMODAL = 3, RKNN3_LLM_INPUT_AUX = 4, RKNN3_LLM_INPUT_MAX = 5,
} rknn3_llm_input_type;

typedef enum {
    RKLLM_RUN_NORMAL = 0, RKLLM_RUN_WAITING = 1, RKLLM_RUN_FINISH = 2, RKLLM_RUN_STOP = 3,
    RKLLM_RUN_MAX_NEW_TOKEN_REACHED = 4, RKLLM_RUN_ERROR = 5,
} LLMCallState;

typedef enum {
    RKNN3_MEMORY_TYPE_NPU_DRAM = 0, RKNN3_MEMORY_TYPE_EXT_DDR = 1,
} rknn3_mem_type;

typedef enum {
    RKNN3_KVCACHE_DTYPE_UNDEFINED = 0, RKNN3_KVCACHE_DTYPE_INT4_TO_F16 = 1,
    RKNN3_KVCACHE_DTYPE_INT4_TO_F8 = 2, RKNN3_KVCACHE_DTYPE_INT8_TO_F16 = 3,
    RKNN3_KVCACHE_DTYPE_FLOAT4_TO_F16 = 4, RKNN3_KVCACHE_DTYPE_FLOAT4_TO_F8 = 5,
    RKNN3_KVCACHE_DTYPE_FLOAT8_TO_F16 = 6, RKNN3_KVCACHE_DTYPE_FLOAT8_TO_F8 = 7,
    RKNN3_KVCACHE_DTYPE_FLOAT16 = 8,
} rknn3_kvcache_dtype;

typedef enum {
    RKNN3_KVCACHE_STORE_METHOD_UNDEFINED = 0, RKNN3_KVCACHE_STORE_METHOD_NORMAL = 1,
    RKNN3_KVCACHE_STORE_METHOD_GROUP_QUANT = 2,
} rknn3_kvcache_store_method;

typedef enum {
    RKNN3_IM_FMT_RGB888 = 0, RKNN3_IM_FMT_BGR888 = 1, RKNN3_IM_FMT_GRAY8 = 2, RKNN3_IM_FMT_YCbCr_420_SP = 3,
    RKNN3_IM_FMT_YCrCb_420_SP = 4, RKNN3_IM_FMT_YCbCr_422_SP = 5, RKNN3_IM_FMT_YCrCb_422_SP = 6,
    RKNN3_IM_FMT_UNKNOWN = 65535,
} rknn3_im_fmt;

typedef enum {
    RKNN3_LLM_TASK_GENERATE = 0, RKNN3_LLM_TASK_EMBEDDING = 1,
} rknn3_llm_task_type;

typedef enum {
    RKLLM_OUTPUT_CALLBACK_PREFILL_PROCESSING = 0, RKLLM_OUTPUT_CALLBACK_PREFILL_FINISHED = 1,
    RKLLM_OUTPUT_CALLBACK_DECODE_PROCESSING = 2, RKLLM_OUTPUT_CALLBACK_DECODE_FINISHED = 3,
} LLMOutputCallbackState;

typedef enum {
    RKNN3_IM_PROC_FLAG_NONE = 0, RKNN3_IM_PROC_FLAG_CROP = 1, RKNN3_IM_PROC_FLAG_RESIZE = 2,
    RKNN3_IM_PROC_FLAG_FILL = 32, RKNN3_IM_PROC_FLAG_COLOR_SPACE_CONVERT = 64,
    RKNN3_IM_PROC_FLAG_DECODE = 128, RKNN3_IM_PROC_FLAG_ENCODE = 256,
} rknn3_im_proc_flag;

typedef enum {
    RKNN3_OP_TARGET_TYPE_CPU = 1, RKNN3_OP_TARGET_TYPE_MAX = 2,
} rknn3_op_target_type;

typedef enum {
    RKNN3_OP_PLUGIN_TYPE_POSTPROCESS = 0, RKNN3_OP_PLUGIN_TYPE_CUSTOM_OP = 1, RKNN3_OP_PLUGIN_TYPE_MAX = 2,
} rknn3_op_plugin_type;

/* Numbers that the later revision adds. */
enum {
    RKNN3_QUERY_CUSTOM_STRING = 7, RKNN3_QUERY_LORA_NUM = 21, RKNN3_QUERY_LORA_INFO = 22,
    RKNN3_QUERY_KVCACHE_LEN_GROUP_INFO = 23, RKLLM_RUN_PAUSE = 6, RKLLM_RUN_RESUME = 7,
};

typedef struct {
    uint32_t n_input;
    uint32_t n_output;
} rknn3_input_output_num;

typedef struct {
    float scale;
    int32_t zero_point;
} rknn3_quant_info;

#ifdef LATER
typedef struct {
    uint32_t index;
    char name[256];
    uint32_t n_dims;
    uint32_t shape[16];
    uint64_t aligned_size;
    uint32_t n_stride;
    uint64_t stride[17];
    uint32_t n_elems;
    rknn3_tensor_type dtype;
    rknn3_tensor_layout layout;
    rknn3_tensor_qnt_type qnt_type;
    rknn3_quant_info qnt_info;
    uint32_t n_orig_dims;
    uint32_t orig_shape[16];
    rknn3_tensor_layout orig_layout;
    int32_t core_id;
} rknn3_tensor_attr;

#else
typedef struct {
    uint32_t index;
    char name[256];
    uint32_t n_dims;
    uint32_t shape[16];
    uint64_t aligned_size;
    uint32_t n_stride;
    uint64_t stride[17];
    uint32_t n_elems;
    rknn3_tensor_type dtype;
    rknn3_tensor_layout layout;
    rknn3_tensor_qnt_type qnt_type;
    rknn3_quant_info qnt_info;
    int32_t core_id;
} rknn3_tensor_attr;
#endif

typedef struct {
    char api_version[256];
    char drv_version[256];
} rknn3_sdk_version;

typedef struct {
    int32_t core_id;
    uint64_t weight_size;
    uint64_t internal_size;
    uint8_t reserved[32];
} rknn3_core_mem_size;

typedef struct {
    char string[1024];
} rknn3_custom_string;

typedef struct {
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

typedef struct {
    int x;
    int y;
    int width;
    int height;
} rknn3_im_rect;

typedef struct {
    uint64_t peer_im_mem_addr;
} rknn3_im_metadata;

typedef struct {
    int width;
    int height;
    int stride;
    rknn3_im_fmt format;
    bool sync_to_host;
    rknn3_tensor_mem *data_mem;
    rknn3_im_metadata metadata;
} rknn3_im_mem;

typedef struct {
    int32_t priority;
    uint32_t run_timeout;
    uint32_t run_core_mask;
    uint8_t user_mem_weight;
    uint8_t user_mem_internal;
    uint8_t user_sram;
    uint8_t reserved[128];
} rknn3_config;

typedef struct {
    rknn3_tensor_mem *mem;
    rknn3_tensor_attr *attr;
} rknn3_tensor;

typedef struct {
    int32_t core_id;
    rknn3_tensor_mem command_mem;
    rknn3_tensor_mem weight_mem;
    rknn3_tensor_mem internal_mem;
    rknn3_tensor_mem kvcache_mem;
    uint8_t reserved[128];
} rknn3_allocation_info;

typedef struct {
    int32_t shape_id;
    uint32_t n_inputs;
    rknn3_tensor_attr *input_attrs;
    uint32_t n_outputs;
    rknn3_tensor_attr *output_attrs;
    uint8_t is_default;
    uint8_t reserved[31];
} rknn3_shape_info;

typedef struct {
    uint32_t n_shapes;
    int32_t current_shape_id;
} rknn3_shape_config;

#ifdef LATER
typedef enum { RKNN3_ATTENTION_TYPE_FULL_ATTENTION, RKNN3_ATTENTION_TYPE_SLIDING_ATTENTION,
               RKNN3_ATTENTION_TYPE_LINEAR_ATTENTION } rknn3_attention_type;

typedef struct {
    rknn3_attention_type attention_type;
    uint32_t n_kvcache_buffer_lens;
    int32_t kvcache_buffer_lens[16];
} rknn3_attention_kvcache_lens;

typedef struct {
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
    uint8_t rope_cache_host_storage;
    uint32_t n_attention_kvcache_lens;
    rknn3_attention_kvcache_lens attention_kvcache_lens[3];
    uint8_t reserved[127];
} rknn3_llm_config;

#else
typedef struct {
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
#endif

typedef struct {
    char *device_id;
    uint8_t reserved[128];
} rknn3_init_extend;

typedef struct {
    uint64_t total;
    uint64_t free;
} rknn3_node_mem_info;

typedef struct {
    uint32_t node_num;
    uint64_t sys_total;
    uint64_t sys_free;
    rknn3_node_mem_info node_mem_info[128];
} rknn3_dev_mem_info;

typedef struct {
    char id[64];
    char type[64];
    rknn3_dev_mem_info mem_info;
} rknn3_device;

typedef struct {
    uint32_t n_devices;
    rknn3_device devices[64];
} rknn3_devices;

typedef struct {
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

typedef struct {
    uint8_t reserved[128];
} rknn3_llm_extend_param;

typedef struct {
    int32_t top_k;
    float top_p;
    float temperature;
    float repeat_penalty;
    float frequency_penalty;
    float presence_penalty;
} rknn3_sampling_params;

typedef struct {
    char *logits_name;
    int32_t max_context_len;
    rknn3_sampling_params sampling_param;
    rknn3_vocab_info vocab_info;
    rknn3_llm_extend_param extend_param;
} rknn3_llm_param;

typedef struct {
    char lora_name[256];
    float scale;
} rknn3_lora;

typedef struct {
    int64_t n_keep;
    int64_t n_keep_aligned;
} rknn3_kvcache_recurrent;

#ifdef LATER
typedef struct {
    int64_t checkpoint_start_pos;
    int64_t checkpoint_interval;
    int64_t max_checkpoint_count;
    bool checkpoint_tail_overwrite;
} rknn3_kvcache_save_checkpoint;

typedef struct {
    rknn3_kvcache_recurrent recurrent;
    rknn3_kvcache_save_checkpoint save_checkpoint;
    uint8_t reserved[64];
} rknn3_kvcache_policy_param;

#else
typedef struct {
    rknn3_kvcache_recurrent recurrent;
    uint8_t reserved[64];
} rknn3_kvcache_policy_param;
#endif

typedef struct {
    float16 *image_embed;
    uint64_t n_image_tokens;
    uint64_t n_image;
    const char *image_start;
    const char *image_end;
    const char *image_content;
    uint64_t image_width;
    uint64_t image_height;
} rknn3_llm_image;

typedef struct {
    float16 *audio_embed;
    uint64_t n_audio_tokens;
    uint64_t n_audio;
    const char *audio_start;
    const char *audio_end;
    const char *audio_content;
} rknn3_llm_audio;

typedef struct {
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

typedef struct {
    const char *name;
    const char *prompt;
    int32_t *tokens;
    uint64_t n_tokens;
    bool enable_thinking;
    rknn3_llm_image image;
    rknn3_llm_audio audio;
    rknn3_llm_video video;
} rknn3_llm_multimodal_tensor;

typedef struct {
    const char *name;
    const char *prompt;
    float16 *embed;
    int32_t *tokens;
    uint64_t n_tokens;
    bool enable_thinking;
} rknn3_llm_tensor;

typedef struct {
    const char *role;
    rknn3_llm_input_type input_type;
    union {
        rknn3_llm_tensor llm_input;
        rknn3_llm_multimodal_tensor multimodal_input;
        rknn3_tensor aux_input;
    };
} rknn3_llm_input;

#ifdef LATER
typedef struct {
    int keep_history;
    int32_t max_new_tokens;
    bool prefill_only;
    bool disable_sampling;
    uint8_t reserved[128];
} rknn3_llm_infer_param;

#else
typedef struct {
    int keep_history;
    int32_t max_new_tokens;
    uint8_t reserved[128];
} rknn3_llm_infer_param;
#endif

typedef struct {
    int *token_ids;
    int num_tokens;
} RKLLMResult;

typedef int (*LLMResultCallback)(void*userdata, RKLLMResult*result, LLMCallState state);
typedef int (*LLMSamplingCallback)(void*userdata, float16*logits, char*logits_name);
typedef int (*LLMTokenizerCallback)(void*userdata, const char*text, int32_t text_len, int32_t*tokens, int32_t n_tokens_max);
typedef int (*LLMGetEmbedCallback)(void*userdata, int32_t*tokens, uint64_t num_tokens, void*embed, uint64_t len);
typedef int (*LLMOutputCallback)(void*userdata, rknn3_tensor*output_tensors, uint32_t n_output_tensors, LLMOutputCallbackState state);

#ifdef LATER
typedef struct {
    int32_t *tokens;
    int32_t num_tokens;
    int32_t shape_id;
    int32_t pos;
    int32_t mrope_pos;
    int32_t mrope_start;
    int32_t system_prompt_seqlen;
    int32_t valid_system_prompt_seqlen;
    int32_t max_position_embeddings;
    uint8_t reserved[128];
} LLMInputCallbackParam;

typedef int (*LLMInputCallback)(void *userdata, rknn3_tensor *input_tensors, uint32_t n_input_tensors,
                                LLMInputCallbackParam param);

typedef struct {
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
    rknn3_tensor *output_tensors;
    uint32_t n_output_tensors;
    LLMInputCallback input_callback;
    void *input_userdata;
    int32_t *input_tensors_index;
    uint32_t n_input_tensors;
} RKLLMCallback;

#else
typedef struct {
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
    rknn3_tensor *output_tensors;
    uint32_t n_output_tensors;
} RKLLMCallback;
#endif

#ifdef LATER
typedef struct {
    uint64_t n_total_tokens;
    uint64_t n_reuse_tokens;
    uint64_t n_max_tokens;
    uint64_t n_prefill_tokens;
    uint64_t n_decode_tokens;
    uint64_t n_input_tokens;
    uint64_t n_output_tokens;
    const int32_t *input_tokens;
    const int32_t *output_tokens;
    rknn3_kvcache_policy kvcache_policy;
    int32_t n_loras_enabled;
    rknn3_lora *loras_enabled;
} RKLLMRunState;

#else
typedef struct {
    uint64_t n_total_tokens;
    uint64_t n_max_tokens;
    uint64_t n_decode_tokens;
    uint64_t n_prefill_tokens;
    rknn3_kvcache_policy kvcache_policy;
    int32_t n_loras_enabled;
    rknn3_lora *loras_enabled;
} RKLLMRunState;
#endif

#ifdef LATER
typedef struct {
    char name[256];
    rknn3_tensor_type dtype;
    uint32_t n_elems;
    void *data;
} rknn3_custom_op_attr;

struct rknn3_custom_op_context;
typedef int (*rknn3_custom_op_get_param_cb)(struct rknn3_custom_op_context *op_ctx, const char *attr_name,
                                            rknn3_custom_op_attr *op_attr);

typedef struct rknn3_custom_op_context {
    rknn3_context rknn_ctx;
    void *priv_data;
    void *user_data;
    rknn3_custom_op_get_param_cb get_param;
} rknn3_custom_op_context;

#else
typedef struct {
    rknn3_context rknn_ctx;
    void *priv_data;
    void *user_data;
} rknn3_custom_op_context;
#endif

typedef int (*rknn3_custom_op_init_cb)(rknn3_custom_op_context*op_ctx);
typedef int (*rknn3_custom_op_io_cb)(rknn3_custom_op_context*op_ctx, rknn3_tensor*inputs, uint32_t n_inputs, rknn3_tensor*outputs, uint32_t n_outputs);
typedef int (*rknn3_custom_op_deinit_cb)(rknn3_custom_op_context*op_ctx);
typedef int (*rknn3_custom_op_get_output_num_cb)(rknn3_custom_op_context*op_ctx);
typedef int (*rknn3_custom_op_get_attrs_cb)(rknn3_custom_op_context*op_ctx, rknn3_tensor_attr*input_attrs, uint32_t n_inputs, rknn3_tensor_attr*output_attrs, uint32_t n_outputs);

typedef struct {
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

#ifdef LATER
typedef struct {
    int32_t core_id;
    uint32_t n_groups;
    int32_t active_group_id;
    uint64_t kvcache_sizes[16];
} rknn3_kvcache_len_group_info;
#endif

#endif
