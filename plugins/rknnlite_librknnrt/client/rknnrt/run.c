/* rknn_run and rknn_wait. */
#include "frames.h"

#include <stdlib.h>

static int run(struct channel *channel, struct frames *frames, rknn_run_extend *extend)
{
    struct talk talk = {.function = "rknn_run", .call = CALL_RUN};
    bool non_block = extend && extend->non_block;
    talk.args[0] = (frames->waiting ? RUN_WITH_INPUTS : 0) | (non_block ? RUN_NON_BLOCK : 0) |
                   (frames->fetched && !non_block ? RUN_WITH_OUTPUTS : 0);
    talk.args[1] = extend ? 1 : 0;
    talk.args[2] = extend && extend->timeout_ms > 0 ? (uint64_t)extend->timeout_ms : 0;
    frames->waiting = frames->fetched = frames->delivered = false;
    memory_to_server();
    int code = channel_talk(channel, &talk);
    memory_from_server();
    if (!code) {
        frames->frame = talk.told[0];
        if (extend)
            extend->frame_id = talk.told[talk.args[0] & RUN_WITH_OUTPUTS ? 3 : 0];
        if (talk.args[0] & RUN_WITH_OUTPUTS)
            outputs_take(frames, &talk);
    }
    free(talk.answer);
    return code;
}

PUBLIC int rknn_run(rknn_context context, rknn_run_extend *extend)
{
    int code = 0;
    struct channel *channel = channel_take("rknn_run", context, &code);
    if (!channel)
        return code;
    struct frames *frames = frames_of(channel);
    code = frames ? run(channel, frames, extend) : failed("rknn_run", RKNN_ERR_MALLOC_FAIL, "no memory");
    channel_let_go(channel);
    return code;
}

PUBLIC int rknn_wait(rknn_context context, rknn_run_extend *extend)
{
    int code = 0;
    struct channel *channel = channel_take("rknn_wait", context, &code);
    if (!channel)
        return code;
    struct talk talk = {.function = "rknn_wait", .call = CALL_WAIT};
    talk.args[0] = extend ? 1 : 0;
    talk.args[1] = extend ? extend->frame_id : 0;
    talk.args[2] = extend && extend->timeout_ms > 0 ? (uint64_t)extend->timeout_ms : 0;
    code = inputs_flush(channel, talk.function);
    if (!code)
        code = channel_talk(channel, &talk);
    memory_from_server();
    free(talk.answer);
    channel_let_go(channel);
    return code;
}
