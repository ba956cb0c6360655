/* rknn_outputs_get and rknn_outputs_release: outputs out of the memory that the server puts them into. */
#include "frames.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the server tells of outputs that lie in their memory: where, and maybe that the memory is new. */
bool outputs_take(struct frames *frames, struct talk *talk)
{
    size_t size = talk->told[2];
    if (talk->n_got && (!frames_map(&frames->out, talk->got[0], size))) {
        close(talk->got[0]);
        return false;
    }
    if (talk->n_got)
        close(talk->got[0]);
    talk->n_got = 0;
    size_t room = frames->n_outputs * sizeof *frames->places;
    frames->delivered = talk->told[1] != 0 && (!talk->answer_size || talk->answer_size == room);
    if (frames->delivered && talk->answer_size) /* else they are where they were */
        memcpy(frames->places, talk->answer, talk->answer_size);
    return frames->delivered;
}

static bool same_wishes(const struct frames *frames, uint32_t count, const rknn_output *outputs)
{
    if (!frames->wanted || frames->n_outputs != count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (frames->wanted[i].index != outputs[i].index || frames->wanted[i].want_float != (outputs[i].want_float != 0))
            return false;
    return true;
}

static bool new_wishes(struct frames *frames, uint32_t count, const rknn_output *outputs)
{
    free(frames->wanted);
    free(frames->places);
    frames->wanted = malloc(count * sizeof *frames->wanted);
    frames->places = malloc(count * sizeof *frames->places);
    frames->n_outputs = frames->wanted && frames->places ? count : 0;
    for (uint32_t i = 0; i < frames->n_outputs; i++)
        frames->wanted[i] = (struct told_output){outputs[i].index, outputs[i].want_float != 0};
    return frames->n_outputs == count;
}

static int fetch(struct channel *channel, struct frames *frames, uint32_t count, const rknn_output *outputs)
{
    struct talk talk = {.function = "rknn_outputs_get", .call = CALL_OUTPUTS, .args = {count}};
    int code = inputs_flush(channel, talk.function);
    if (code)
        return code;
    if (!same_wishes(frames, count, outputs) && !new_wishes(frames, count, outputs))
        return failed(talk.function, RKNN_ERR_MALLOC_FAIL, "no memory");
    talk.payload = frames->wanted;
    talk.size = count * sizeof *frames->wanted;
    code = channel_talk(channel, &talk);
    if (!code && !outputs_take(frames, &talk))
        code = failed(talk.function, RKNN_ERR_MALLOC_FAIL, "no memory for the outputs");
    frames->frame = talk.told[0];
    free(talk.answer);
    return code;
}

static int deliver(struct frames *frames, rknn_output *output, const struct place *place)
{
    const char *function = "rknn_outputs_get", *data = frames->out.at + place->offset;
    uint32_t size = (uint32_t)place->size, index = (uint32_t)place->index;
    output->index = index;
    if (output->is_prealloc) {
        if (!output->buf || output->size < size)
            return failed(function, RKNN_ERR_OUTPUT_INVALID, "output %u has %u bytes, its buffer %u", index, size,
                          output->buf ? output->size : 0);
    } else {
        struct held *held = malloc(sizeof *held);
        void *buf = malloc(size ? size : 1);
        if (!held || !buf) {
            free(held);
            free(buf);
            return failed(function, RKNN_ERR_MALLOC_FAIL, "no memory for output %u of %u bytes", index, size);
        }
        held->buf = output->buf = buf;
        held->next = frames->held;
        frames->held = held;
    }
    memcpy(output->buf, data, size);
    output->size = size;
    return RKNN_SUCC;
}

PUBLIC int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output outputs[], rknn_output_extend *extend)
{
    const char *function = "rknn_outputs_get";
    int code = 0;
    if (MINI)
        return failed(function, RKNN_ERR_PARAM_INVALID, NOT_IN_MINI);
    struct channel *channel = channel_take(function, context, &code);
    if (!channel)
        return code;
    struct frames *frames = frames_of(channel);
    if (!outputs || !frames || !n_outputs || n_outputs > MOST_TENSORS)
        code = failed(function, RKNN_ERR_PARAM_INVALID, "%u outputs at %p", n_outputs,
                      (void *)outputs);
    else if (!frames->delivered || !same_wishes(frames, n_outputs, outputs))
        code = fetch(channel, frames, n_outputs, outputs);
    for (uint32_t i = 0; !code && i < n_outputs; i++)
        code = deliver(frames, &outputs[i], &frames->places[i]);
    if (!code) {
        frames->fetched = true;
        if (extend)
            extend->frame_id = frames->frame;
    }
    channel_let_go(channel);
    return code;
}

PUBLIC int rknn_outputs_release(rknn_context context, uint32_t n_ouputs, rknn_output outputs[])
{
    const char *function = "rknn_outputs_release";
    int code = 0;
    if (MINI)
        return failed(function, RKNN_ERR_PARAM_INVALID, NOT_IN_MINI);
    struct channel *channel = channel_take(function, context, &code);
    if (!channel)
        return code;
    if (!outputs)
        code = failed(function, RKNN_ERR_PARAM_INVALID, "outputs is NULL");
    for (uint32_t i = 0; !code && channel->frames && i < n_ouputs; i++) {
        struct held **at = &channel->frames->held;
        while (*at && (outputs[i].is_prealloc || (*at)->buf != outputs[i].buf))
            at = &(*at)->next;
        if (*at) {
            struct held *held = *at;
            *at = held->next;
            free(held->buf);
            free(held);
            outputs[i].buf = NULL;
        }
    }
    channel_let_go(channel);
    return code;
}
