/* The C API of librkllmrt (1.3.0). Declarations of rknnlite's own; the layouts are the vendor's. */
/* SPDX-License-Identifier: Apache-2.0. Written by: python -m tools.headers */
#ifndef RKNNLITE_RKLLM_H
#define RKNNLITE_RKLLM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of 1.3.0; rknnlite's own. */
#define RKLLM_HEADER_VERSION 10300

typedef void *LLMHandle;

typedef enum _LLMCallState {
    RKLLM_RUN_NORMAL = 0,
    RKLLM_RUN_WAITING = 1,
    RKLLM_RUN_FINISH = 2,
    RKLLM_RUN_ERROR = 3
} LLMCallState;

typedef enum _RKLLMInputType {
    RKLLM_INPUT_PROMPT = 0,
    RKLLM_INPUT_TOKEN = 1,
    RKLLM_INPUT_EMBED = 2,
    RKLLM_INPUT_MULTIMODAL = 3
} RKLLMInputType;

typedef enum _RKLLMInferMode {
    RKLLM_INFER_GENERATE = 0,
    RKLLM_INFER_GET_LAST_HIDDEN_LAYER = 1,
    RKLLM_INFER_GET_LOGITS = 2
} RKLLMInferMode;

typedef struct _RKLLMExtendParam {
    int32_t base_domain_id;
    int8_t embed_flash;
    int8_t enabled_cpus_num;
    uint32_t enabled_cpus_mask;
    uint8_t n_batch;
    int8_t use_cross_attn;
    uint8_t reserved[104];
} RKLLMExtendParam;

typedef struct _RKLLMLoraAdapter {
    const char *lora_adapter_path;
    const char *lora_adapter_name;
    float scale;
} RKLLMLoraAdapter;

/* All nine values, for one run. */
typedef struct _RKLLMSamplingParam {
    int32_t top_k;
    float top_p;
    float temperature;
    float repeat_penalty;
    float frequency_penalty;
    float presence_penalty;
    int32_t mirostat;
    float mirostat_tau;
    float mirostat_eta;
} RKLLMSamplingParam;

/* float32 (n_tokens, hidden size). */
typedef struct _RKLLMEmbedInput {
    float *embed;
    size_t n_tokens;
} RKLLMEmbedInput;

typedef struct _RKLLMTokenInput {
    int32_t *input_ids;
    size_t n_tokens;
} RKLLMTokenInput;

typedef struct _RKLLMImageInput {
    float *image_embed;
    size_t n_image_tokens;
    size_t n_image;
    const char *image_start;
    const char *image_end;
    const char *image_content;
    size_t image_width;
    size_t image_height;
} RKLLMImageInput;

typedef struct _RKLLMVideoInput {
    float *video_embed;
    size_t n_frame_tokens;
    size_t n_frame_per_video;
    size_t n_video;
    const char *video_start;
    const char *video_end;
    const char *video_content;
    size_t frame_width;
    size_t frame_height;
} RKLLMVideoInput;

typedef struct _RKLLMLoraParam {
    const char *lora_adapter_name;
} RKLLMLoraParam;

/* Where the keys and values of a run are saved at its end. */
typedef struct _RKLLMPromptCacheParam {
    int32_t save_prompt_cache;
    const char *prompt_cache_path;
} RKLLMPromptCacheParam;

/* float32 keys (layers, tokens, KV heads, head size), values (layers, KV heads, head size, tokens). */
typedef struct _RKLLMCrossAttnParam {
    float *encoder_k_cache;
    float *encoder_v_cache;
    float *encoder_mask;
    int32_t *encoder_pos;
    int32_t num_tokens;
} RKLLMCrossAttnParam;

typedef struct _RKLLMResultLastHiddenLayer {
    float *hidden_states;
    int32_t embd_size;
    int32_t num_tokens;
} RKLLMResultLastHiddenLayer;

typedef struct _RKLLMResultLogits {
    float *logits;
    int32_t vocab_size;
    int32_t num_tokens;
} RKLLMResultLogits;

/* Filled with the end of a run. */
typedef struct _RKLLMPerfStat {
    float prefill_time_ms;
    int32_t prefill_tokens;
    float generate_time_ms;
    int32_t generate_tokens;
    float memory_usage_mb;
} RKLLMPerfStat;

typedef struct _RKLLMParam {
    const char *model_path;
    int32_t max_context_len;
    int32_t max_new_tokens;
    int32_t top_k;
    int32_t n_keep;
    float top_p;
    float temperature;
    float repeat_penalty;
    float frequency_penalty;
    float presence_penalty;
    int32_t mirostat;
    float mirostat_tau;
    float mirostat_eta;
    bool skip_special_token;
    bool ignore_eos_token;
    bool is_async;
    RKLLMExtendParam extend_param;
} RKLLMParam;

typedef struct _RKLLMMultiModalInput {
    const char *prompt;
    RKLLMImageInput image;
    RKLLMVideoInput video;
} RKLLMMultiModalInput;

typedef struct _RKLLMInferParam {
    RKLLMInferMode mode;
    RKLLMLoraParam *lora_params;
    RKLLMPromptCacheParam *prompt_cache_params;
    RKLLMSamplingParam *sampling_params;
    int32_t keep_history;
    int32_t max_new_tokens;
} RKLLMInferParam;

typedef struct _RKLLMResult {
    const char *text;
    int32_t token_id;
    RKLLMResultLastHiddenLayer last_hidden_layer;
    RKLLMResultLogits logits;
    RKLLMPerfStat perf;
} RKLLMResult;

/* With n_batch an array of so many. */
typedef struct _RKLLMInput {
    const char *role;
    bool enable_thinking;
    RKLLMInputType input_type;
    __extension__ union {
        const char *prompt_input;
        RKLLMEmbedInput embed_input;
        RKLLMTokenInput token_input;
        RKLLMMultiModalInput multimodal_input;
    };
} RKLLMInput;

/* Its name before 1.2.3. */
typedef RKLLMMultiModalInput RKLLMMultiModelInput;

/* The result, and what it points to, is there until it returns. 0 goes on, 1 pauses the run: the next one goes on with it; 2 frees rows of hidden states or logits, see the manual. */
typedef int (*LLMResultCallback)(RKLLMResult *result, void *userdata, LLMCallState state);

/* Of models without a tokenizer or without embeddings. The number of tokens; 0 or less: it failed. */
typedef int (*LLMTokenizerCallback)(void *userdata, const char *text, int32_t text_len, int32_t *tokens,
                                    int32_t n_tokens_max);

/* float32; len in bytes. 0: well. */
typedef int (*LLMGetEmbedCallback)(void *userdata, int32_t *tokens, uint64_t num_tokens, void *embed, uint64_t len);

/* Keep it until rkllm_destroy. */
typedef struct _RKLLMCallback {
    LLMResultCallback result_callback;
    void *result_userdata; /* where a run brings none */
    LLMTokenizerCallback tokenizer_callback;
    void *tokenizer_userdata;
    LLMGetEmbedCallback embed_callback;
    void *embed_userdata;
} RKLLMCallback;

RKLLMParam rkllm_createDefaultParam(void);

/* 0, or -1, as all of them. */
int rkllm_init(LLMHandle *handle, RKLLMParam *param, RKLLMCallback *callback);

/* Returns when the end was told. */
int rkllm_run(LLMHandle handle, RKLLMInput *rkllm_input, RKLLMInferParam *rkllm_infer_params, void *userdata);

int rkllm_destroy(LLMHandle handle);

/* -1 without a run. */
int rkllm_abort(LLMHandle handle);

/* For the runs that name it. */
int rkllm_load_lora(LLMHandle handle, RKLLMLoraAdapter *lora_adapter);

int rkllm_load_prompt_cache(LLMHandle handle, const char *prompt_cache_path);

int rkllm_release_prompt_cache(LLMHandle handle);

/* The callback comes from another thread. */
int rkllm_run_async(LLMHandle handle, RKLLMInput *rkllm_input, RKLLMInferParam *rkllm_infer_params,
                    void *userdata);

/* 1: a run is under way. */
int rkllm_is_running(LLMHandle handle);

int rkllm_clear_kv_cache(LLMHandle handle, int keep_system_prompt, int *start_pos, int *end_pos);

/* Three empty texts: prompts are taken as they are. The cache is cleared. */
int rkllm_set_chat_template(LLMHandle handle, const char *system_prompt, const char *prompt_prefix,
                            const char *prompt_postfix);

/* n_batch numbers. */
int rkllm_get_kv_cache_size(LLMHandle handle, int *cache_sizes);

/* tools: a JSON list. */
int rkllm_set_function_tools(LLMHandle handle, const char *system_prompt, const char *tools,
                             const char *tool_response_str);

int rkllm_set_cross_attn_params(LLMHandle handle, RKLLMCrossAttnParam *cross_attn_params);

#ifdef __cplusplus
}
#endif

#endif
