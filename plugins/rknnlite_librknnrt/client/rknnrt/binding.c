/* Giving memory to a context: for tensors, weights, internal tensors. */
#include "rknnrt.h"

#include <stdlib.h>

/* A call about one memory: arguments are its number and ``value``. */
static int about(const char *function, rknn_context ctx, const rknn_tensor_mem *mem, struct talk *talk)
{
    int code = 0;
    struct channel *channel = channel_take(function, ctx, &code);
    if (!channel)
        return code;
    talk->function = function;
    code = inputs_flush(channel, function);
    if (!code)
        code = memory_import(channel, function, mem, &talk->args[0]);
    if (!code)
        code = channel_talk(channel, talk);
    free(talk->answer);
    talk->answer = NULL;
    channel_let_go(channel);
    return code;
}

PUBLIC int rknn_set_io_mem(rknn_context ctx, rknn_tensor_mem *mem, rknn_tensor_attr *attr)
{
    if (!attr)
        return failed("rknn_set_io_mem", RKNN_ERR_PARAM_INVALID, "attr is NULL");
    struct talk talk = {.call = CALL_BIND, .payload = attr, .size = sizeof *attr};
    int code = about("rknn_set_io_mem", ctx, mem, &talk);
    if (!code)
        memory_bound(talk.args[0], talk.told[0] != 0);
    return code;
}

PUBLIC int rknn_set_weight_mem(rknn_context ctx, rknn_tensor_mem *mem)
{
    struct talk talk = {.call = CALL_WEIGHTS};
    return about("rknn_set_weight_mem", ctx, mem, &talk);
}

PUBLIC int rknn_set_internal_mem(rknn_context ctx, rknn_tensor_mem *mem)
{
    struct talk talk = {.call = CALL_INTERNAL};
    return about("rknn_set_internal_mem", ctx, mem, &talk);
}
