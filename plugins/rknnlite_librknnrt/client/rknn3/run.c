/* Runs of a network: the tensors' memory is what the server reads and writes, nothing travels. */
#include "rknn3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int told_tensors(struct channel *channel, const char *function, struct pack *pack, const rknn3_tensor *tensors,
                        uint32_t count, const char *kind)
{
    int code = RKNN3_SUCCESS;
    for (uint32_t i = 0; !code && i < count; i++) {
        uint64_t id = 0;
        uint32_t index = i; /* the first member in both revisions */
        if (!tensors[i].mem)
            return failed(function, RKNN3_ERR_ARGUMENT_INVALID, "%s %u has no mem", kind, i);
        if (tensors[i].attr)
            memcpy(&index, tensors[i].attr, sizeof index);
        code = memory_import(channel, function, tensors[i].mem, &id);
        pack_number(pack, index);
        pack_number(pack, id);
    }
    return code;
}

/* One call about a run with these tensors; ``more`` goes in front of them. */
static int with_tensors(rknn3_context context, struct talk *talk, const char *more, const rknn3_tensor *inputs,
                        uint32_t n_inputs, const rknn3_tensor *outputs, uint32_t n_outputs)
{
    struct pack pack = {0};
    int code = 0;
    if (!inputs || !outputs || !n_inputs || !n_outputs || n_inputs > MOST_TENSORS || n_outputs > MOST_TENSORS)
        return failed(talk->function, RKNN3_ERR_ARGUMENT_INVALID, "%u inputs at %p, %u outputs at %p", n_inputs,
                      (const void *)inputs, n_outputs, (const void *)outputs);
    struct channel *channel = context_take(talk->function, context, &code);
    if (!channel)
        return code;
    pack_number(&pack, n_inputs);
    pack_number(&pack, n_outputs);
    code = told_tensors(channel, talk->function, &pack, inputs, n_inputs, "input");
    if (!code)
        code = told_tensors(channel, talk->function, &pack, outputs, n_outputs, "output");
    pack_text(&pack, more);
    talk->payload = pack.bytes;
    talk->size = pack.size;
    if (!code)
        code = channel_talk(channel, talk);
    free(pack.bytes);
    channel_let_go(channel);
    return code;
}

PUBLIC int rknn3_run(rknn3_context context, const rknn3_tensor inputs[], uint32_t n_inputs, rknn3_tensor outputs[],
                     uint32_t n_outputs)
{
    struct talk talk = {.function = "rknn3_run", .call = CALL3_RUN};
    int code = with_tensors(context, &talk, NULL, inputs, n_inputs, outputs, n_outputs);
    free(talk.answer);
    return code;
}

PUBLIC int rknn3_run_async(rknn3_context context, const rknn3_tensor inputs[], uint32_t n_inputs,
                           rknn3_tensor outputs[], uint32_t n_outputs)
{
    struct talk talk = {.function = "rknn3_run_async", .call = CALL3_RUN, .args = {1}};
    int code = with_tensors(context, &talk, NULL, inputs, n_inputs, outputs, n_outputs);
    free(talk.answer);
    return code;
}

PUBLIC int rknn3_wait(rknn3_context context)
{
    struct talk talk = {.function = "rknn3_wait", .call = CALL3_WAIT};
    return context_tell(context, &talk);
}

/* Programs of the later revision give two more arguments; all cores and tensors are dumped. */
PUBLIC int rknn3_dump_features(rknn3_context context, const rknn3_tensor inputs[], uint32_t n_inputs,
                               rknn3_tensor outputs[], uint32_t n_outputs, const char *dump_dir)
{
    struct talk talk = {.function = "rknn3_dump_features", .call = CALL3_DUMP};
    if (!dump_dir)
        return failed(talk.function, RKNN3_ERR_ARGUMENT_INVALID, "dump_dir is NULL");
    char *folder = handover_path(dump_dir);
    int code = with_tensors(context, &talk, folder, inputs, n_inputs, outputs, n_outputs);
    free(talk.answer);
    free(folder);
    return code;
}

static int printed(int code, struct talk *talk)
{
    if (!code && talk->answer) {
        fputs(talk->answer, stdout);
        putchar('\n');
        fflush(stdout);
    }
    free(talk->answer);
    return code;
}

PUBLIC int rknn3_profile_ops(rknn3_context context, const rknn3_tensor inputs[], uint32_t n_inputs,
                             rknn3_tensor outputs[], uint32_t n_outputs, uint32_t log_level)
{
    struct talk talk = {.function = "rknn3_profile_ops", .call = CALL3_PROFILE, .args = {log_level}};
    return printed(with_tensors(context, &talk, NULL, inputs, n_inputs, outputs, n_outputs), &talk);
}

PUBLIC int rknn3_profile_mem(rknn3_context context)
{
    struct talk talk = {.function = "rknn3_profile_mem", .call = CALL3_PROFILE_MEMORY};
    int code = 0;
    struct channel *channel = context_take(talk.function, context, &code);
    if (!channel)
        return code;
    code = channel_talk(channel, &talk);
    channel_let_go(channel);
    return printed(code, &talk);
}
