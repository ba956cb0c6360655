/* A program in the form of the vendor's multimodal demo: ``picture ENCODER.rknn MODEL.rkllm QUESTION``. The encoder runs by
 * librknnrt.so on a picture, librkllmrt.so of 1.3.0 answers about its rows; both libraries in one process. Prints the answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rkllm.h"
#include "rknn_api.h"

enum { TOKENS = 7 };

static int told(RKLLMResult *result, void *userdata, LLMCallState state)
{
    (void)userdata;
    if (state == RKLLM_RUN_ERROR)
        exit(5);
    if (state == RKLLM_RUN_NORMAL && result->text)
        printf("%s", result->text);
    return 0;
}

static float *encoded(const char *path, uint32_t *count)
{
    rknn_context context = 0;
    rknn_input_output_num number;
    rknn_tensor_attr attr;
    if (rknn_init(&context, (void *)path, 0, 0, NULL) != 0)
        exit(10);
    memset(&attr, 0, sizeof attr);
    if (rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &number, sizeof number) || number.n_input != 1)
        exit(11);
    if (rknn_query(context, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr) != 0)
        exit(12);
    rknn_input input;
    memset(&input, 0, sizeof input);
    input.type = RKNN_TENSOR_UINT8;
    input.fmt = RKNN_TENSOR_NHWC;
    input.size = attr.n_elems;
    input.buf = malloc(attr.n_elems);
    for (uint32_t i = 0; i < attr.n_elems; i++)
        ((uint8_t *)input.buf)[i] = (uint8_t)(i % 251);
    rknn_output output;
    memset(&output, 0, sizeof output);
    output.want_float = 1;
    if (rknn_inputs_set(context, 1, &input) || rknn_run(context, NULL) || rknn_outputs_get(context, 1, &output, NULL))
        exit(13);
    float *rows = malloc(output.size);
    memcpy(rows, output.buf, output.size);
    *count = output.size / sizeof(float);
    rknn_outputs_release(context, 1, &output);
    rknn_destroy(context);
    free(input.buf);
    return rows;
}

int main(int argc, char **argv)
{
    LLMHandle handle = NULL;
    RKLLMParam param = rkllm_createDefaultParam();
    RKLLMCallback callback;
    if (argc < 4)
        return 2;
    param.model_path = argv[2];
    param.top_k = 1;
    param.repeat_penalty = 1.0f;
    param.max_new_tokens = 24;
    param.max_context_len = 256;
    param.skip_special_token = true;
    memset(&callback, 0, sizeof callback);
    callback.result_callback = told;
    if (rkllm_init(&handle, &param, &callback) != 0)
        return 3;
    rkllm_set_chat_template(handle, "", "", "");
    uint32_t count = 0;
    float *rows = encoded(argv[1], &count);
    RKLLMInput input;
    RKLLMInferParam infer;
    memset(&input, 0, sizeof input);
    memset(&infer, 0, sizeof infer);
    infer.mode = RKLLM_INFER_GENERATE;
    input.role = "user";
    for (int turn = 0; turn < 2; turn++) { /* about a picture, and without one */
        if (turn == 0) {
            input.input_type = RKLLM_INPUT_MULTIMODAL;
            input.multimodal_input.prompt = argv[3];
            input.multimodal_input.image.image_embed = rows;
            input.multimodal_input.image.n_image_tokens = TOKENS;
            input.multimodal_input.image.n_image = 1;
            input.multimodal_input.image.image_start = "<v>";
            input.multimodal_input.image.image_end = "</v>";
            input.multimodal_input.image.image_content = "~";
            input.multimodal_input.image.image_width = 224;
            input.multimodal_input.image.image_height = 224;
        } else {
            memset(&input, 0, sizeof input);
            input.role = "user";
            input.input_type = RKLLM_INPUT_PROMPT;
            input.prompt_input = argv[3] + strlen("<image>");
        }
        if (rkllm_run(handle, &input, &infer, NULL) != 0)
            return 6;
        printf("\n");
        if (rkllm_clear_kv_cache(handle, 1, NULL, NULL) != 0)
            return 7;
    }
    free(rows);
    return rkllm_destroy(handle);
}
