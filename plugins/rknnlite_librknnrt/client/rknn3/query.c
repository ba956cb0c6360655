/* rknn3_query, and which devices there are. The server answers structures; what they point to is put in here. */
#include "rknn3.h"

#include <stdlib.h>
#include <string.h>

static bool has_index(int command)
{
    return command == RKNN3_QUERY_INPUT_ATTR || command == RKNN3_QUERY_OUTPUT_ATTR ||
           command == RKNN3_QUERY_NATIVE_INPUT_ATTR || command == RKNN3_QUERY_NATIVE_OUTPUT_ATTR ||
           command == RKNN3_QUERY_POSTPROCESS_OUTPUT_ATTR;
}

/* -- answers ------------------------------------------------------------------------------------------ */

/* The structure, then two texts; the texts stay the library's until the next one. */
static int put_config(struct channel *channel, const struct talk *talk, void *info, uint64_t size)
{
    memcpy(info, talk->answer, size);
    free(channel->own->texts);
    channel->own->texts = malloc(talk->answer_size - size + 1);
    if (!channel->own->texts)
        return failed(talk->function, RKNN3_ERR_OUT_OF_MEMORY, "no memory");
    memcpy(channel->own->texts, (char *)talk->answer + size, talk->answer_size - size);
    channel->own->texts[talk->answer_size - size] = 0;
    char *template = channel->own->texts, *kind = template + strlen(template) + 1;
    /* both revisions have these two where the first one has them */
    memcpy((char *)info + offsetof(rknn3_llm_config, chat_template), &template, sizeof template);
    memcpy((char *)info + offsetof(rknn3_llm_config, model_type), &kind, sizeof kind);
    return RKNN3_SUCCESS;
}

/* Attributes of each shape into the program's arrays, which it said the lengths of. */
static int put_shapes(const struct talk *talk, rknn3_shape_info *infos, uint64_t count)
{
    uint64_t inputs = talk->told[1], outputs = talk->told[2], attr = talk->told[3];
    const char *at = talk->answer;
    for (uint64_t i = 0; i < count; i++) {
        if (!infos[i].input_attrs || !infos[i].output_attrs || infos[i].n_inputs < inputs || infos[i].n_outputs < outputs)
            return failed(talk->function, RKNN3_ERR_ARGUMENT_INVALID,
                          "shape %llu has room for %u inputs and %u outputs at %p and %p; there are %llu and %llu",
                          (unsigned long long)i, infos[i].n_inputs, infos[i].n_outputs, (void *)infos[i].input_attrs,
                          (void *)infos[i].output_attrs, (unsigned long long)inputs, (unsigned long long)outputs);
    }
    for (uint64_t i = 0; i < count; i++) {
        infos[i].shape_id = (int32_t)i;
        infos[i].n_inputs = (uint32_t)inputs;
        infos[i].n_outputs = (uint32_t)outputs;
        infos[i].is_default = i == 0;
        memcpy(infos[i].input_attrs, at, inputs * attr);
        at += inputs * attr;
        memcpy(infos[i].output_attrs, at, outputs * attr);
        at += outputs * attr;
    }
    return RKNN3_SUCCESS;
}

static int ask(struct channel *channel, int command, void *info, uint64_t size)
{
    uint32_t index = 0;
    if (has_index(command) && size >= sizeof index)
        memcpy(&index, info, sizeof index);
    const struct answer *answer = answers_find(channel->answers, (uint32_t)command, index, size);
    if (answer) {
        channel->own->later = answer->later;
        memcpy(info, answer->bytes, answer->size);
        return RKNN3_SUCCESS;
    }
    struct talk talk = {.function = "rknn3_query",
                        .call = CALL3_QUERY,
                        .args = {(uint64_t)command, index, size, channel->own->later}};
    int code = channel_talk(channel, &talk);
    if (code)
        return code;
    if (talk.told[0]) /* a structure that only one revision has: 1 the first, 2 the later one */
        channel->own->later = talk.told[0] == 2;
    if (has_index(command)) {
        uint64_t kept = talk.answer_size < size ? talk.answer_size : size;
        struct answer *record = answers_keep(&channel->answers, (uint32_t)command, index, size, talk.answer, kept);
        if (record)
            record->later = channel->own->later;
    }
    if (command == RKNN3_QUERY_LLM_CONFIG)
        code = put_config(channel, &talk, info, size);
    else if (command == RKNN3_QUERY_DYNAMIC_SHAPE_INFO || command == RKNN3_QUERY_POSTPROCESS_DYNAMIC_SHAPE_INFO)
        code = put_shapes(&talk, info, size / sizeof(rknn3_shape_info));
    else
        memcpy(info, talk.answer, talk.answer_size < size ? talk.answer_size : size);
    free(talk.answer);
    return code;
}

PUBLIC int rknn3_query(rknn3_context context, rknn3_query_cmd cmd, void *info, uint64_t size)
{
    const char *function = "rknn3_query";
    int code = 0;
    if (!info || !size)
        return failed(function, RKNN3_ERR_ARGUMENT_INVALID, "command %d: a structure of %llu bytes at %p", (int)cmd,
                      (unsigned long long)size, info);
    struct channel *channel = context_take(function, context, &code);
    if (!channel)
        return code;
    code = ask(channel, (int)cmd, info, size);
    channel_let_go(channel);
    return code;
}

PUBLIC int rknn3_find_devices(rknn3_devices *pdevs)
{
    const char *function = "rknn3_find_devices";
    struct talk talk = {.function = function, .call = CALL3_DEVICES};
    int code = 0;
    if (!pdevs)
        return failed(function, RKNN3_ERR_ARGUMENT_INVALID, "pdevs is NULL");
    struct channel *channel = channel_open(function, &library_hooks, &code);
    if (!channel)
        return code;
    code = channel_talk(channel, &talk);
    if (!code)
        memcpy(pdevs, talk.answer, talk.answer_size < sizeof *pdevs ? talk.answer_size : sizeof *pdevs);
    free(talk.answer);
    channel_drop(channel);
    return code;
}
