/* A program in the form of the vendor's demo, for every layout: ``demo MODEL QUESTION``. Prints the answer; in all layouts the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rkllm.h"

static int calls, finished;

#if RKLLM_HEADER_VERSION >= 10203
#define ANSWER int
#define GO_ON return 0
#else
#define ANSWER void
#define GO_ON return
#endif

static ANSWER told(RKLLMResult *result, void *userdata, LLMCallState state)
{
    if (userdata != &calls)
        exit(4);
    calls++;
    finished += state == RKLLM_RUN_FINISH;
    if (state == RKLLM_RUN_ERROR)
        exit(5);
    if (state == RKLLM_RUN_NORMAL && result->text)
        printf("%s", result->text);
    GO_ON;
}

int main(int argc, char **argv)
{
    LLMHandle handle = NULL;
    RKLLMParam param = rkllm_createDefaultParam();
    if (argc < 3)
        return 2;
    param.model_path = argv[1];
    param.top_k = 1;
    param.repeat_penalty = 1.0f;
    param.max_new_tokens = 24;
    param.max_context_len = 256;
    param.skip_special_token = true;
#if RKLLM_HEADER_VERSION >= 10300
    RKLLMCallback callback;
    memset(&callback, 0, sizeof callback);
    callback.result_callback = told;
    int code = rkllm_init(&handle, &param, &callback);
#else
    int code = rkllm_init(&handle, &param, told);
#endif
    if (code != 0 || !handle)
        return 3;
    RKLLMInput input;
    RKLLMInferParam infer;
    memset(&input, 0, sizeof input);
    memset(&infer, 0, sizeof infer);
    infer.mode = RKLLM_INFER_GENERATE;
    input.input_type = RKLLM_INPUT_PROMPT;
    input.prompt_input = argv[2];
#if RKLLM_HEADER_VERSION >= 10203
    input.role = "user";
#endif
#if RKLLM_HEADER_VERSION >= 10200
    rkllm_set_chat_template(handle, "", "", "");
    infer.keep_history = 0;
#endif
    if (rkllm_run(handle, &input, &infer, &calls) != 0)
        return 6;
    printf("\n");
    if (rkllm_abort(handle) != -1 || rkllm_destroy(handle) != 0 || rkllm_destroy(handle) != -1)
        return 7;
    return finished == 1 ? 0 : 8;
}
