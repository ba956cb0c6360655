/* The C API of librkllmrt (1.2.1b1). Declarations of rknnlite's own; the layouts are the vendor's. */
/* SPDX-License-Identifier: Apache-2.0. Written by: python -m tools.headers */
#ifndef RKNNLITE_RKLLM_H
#define RKNNLITE_RKLLM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of 1.2.1b1; rknnlite's own. */
#define RKLLM_HEADER_VERSION 10200

#define RKLLM_HEADER_BETA 1

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
    uint8_t reserved[106];
} RKLLMExtendParam;

typedef struct _RKLLMLoraAdapter {
    const char *lora_adapter_path;
    const char *lora_adapter_name;
    float scale;
} RKLLMLoraAdapter;

/* float32 (n_tokens, hidden size). */
typedef struct _RKLLMEmbedInput {
    float *embed;
    size_t n_tokens;
} RKLLMEmbedInput;

typedef struct _RKLLMTokenInput {
    int32_t *input_ids;
    size_t n_tokens;
} RKLLMTokenInput;

typedef struct _RKLLMMultiModalInput {
    const char *prompt;
    float *image_embed;
    size_t n_image_tokens;
    size_t n_image;
    size_t image_width;
    size_t image_height;
} RKLLMMultiModalInput;

typedef struct _RKLLMLoraParam {
    const char *lora_adapter_name;
} RKLLMLoraParam;

/* Where the keys and values of a run are saved at its end. */
typedef struct _RKLLMPromptCacheParam {
    int32_t save_prompt_cache;
    const char *prompt_cache_path;
} RKLLMPromptCacheParam;

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
    bool is_async;
    const char *img_start;
    const char *img_end;
    const char *img_content;
    RKLLMExtendParam extend_param;
} RKLLMParam;

typedef struct _RKLLMInferParam {
    RKLLMInferMode mode;
    RKLLMLoraParam *lora_params;
    RKLLMPromptCacheParam *prompt_cache_params;
    int32_t keep_history;
} RKLLMInferParam;

typedef struct _RKLLMResult {
    const char *text;
    int32_t token_id;
    RKLLMResultLastHiddenLayer last_hidden_layer;
    RKLLMResultLogits logits;
} RKLLMResult;

/* With n_batch an array of so many. */
typedef struct _RKLLMInput {
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

/* The result, and what it points to, is there until it returns. */
typedef void (*LLMResultCallback)(RKLLMResult *result, void *userdata, LLMCallState state);

RKLLMParam rkllm_createDefaultParam(void);

/* 0, or -1, as all of them. */
int rkllm_init(LLMHandle *handle, RKLLMParam *param, LLMResultCallback callback);

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

/* 0: a run is under way. */
int rkllm_is_running(LLMHandle handle);

int rkllm_clear_kv_cache(LLMHandle handle, int keep_system_prompt);

/* Three empty texts: prompts are taken as they are. The cache is cleared. */
int rkllm_set_chat_template(LLMHandle handle, const char *system_prompt, const char *prompt_prefix,
                            const char *prompt_postfix);

#ifdef __cplusplus
}
#endif

#endif
