/* rknn_inputs_set: inputs into the staging memory. */
#include "frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALIGN(size) (((size) + 63) & ~(size_t)63)

static bool same_kinds(const struct frames *frames, uint32_t count, const rknn_input *inputs)
{
    if (!frames->kinds || frames->n_inputs != count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const rknn_input *a = &frames->kinds[i], *b = &inputs[i];
        if (a->index != b->index || a->size != b->size || a->pass_through != b->pass_through || a->type != b->type ||
            a->fmt != b->fmt)
            return false;
    }
    return true;
}

static void copy_in(struct frames *frames, uint32_t count, const rknn_input *inputs)
{
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(frames->in.at + at, inputs[i].buf, frames->needs[i]);
        at += ALIGN(inputs[i].size);
    }
}

/* What the server is told of an input. Without pointers: its Python may have larger ones. Twin in staging.py. */
struct told_input {
    uint32_t index, size, pass_through, type, fmt;
};

static struct told_input *told_of(uint32_t count, const rknn_input *inputs)
{
    struct told_input *told = malloc(count * sizeof *told);
    for (uint32_t i = 0; told && i < count; i++) {
        const rknn_input *given = &inputs[i];
        told[i] = (struct told_input){given->index, given->size, given->pass_through, (uint32_t)given->type,
                                      (uint32_t)given->fmt};
    }
    return told;
}

/* Inputs of another kind than before: new staging memory, which the server looks at, and says what it takes of it. */
static int new_kinds(struct channel *channel, struct frames *frames, uint32_t count, const rknn_input *inputs)
{
    const char *function = "rknn_inputs_set";
    size_t size = 0;
    for (uint32_t i = 0; i < count; i++)
        size += ALIGN(inputs[i].size);
    free(frames->kinds);
    free(frames->needs);
    frames->n_inputs = 0;
    frames->needs = NULL;
    frames->kinds = malloc(count * sizeof *inputs);
    struct told_input *told = told_of(count, inputs);
    int fd = wire_memory(size ? size : 1);
    if (!frames->kinds || !told || fd < 0 || !frames_map(&frames->in, fd, size)) {
        int code = failed(function, RKNN_ERR_MALLOC_FAIL, "no memory for inputs of %zu bytes: %s", size, strerror(errno));
        free(frames->kinds);
        frames->kinds = NULL;
        free(told);
        if (fd >= 0)
            close(fd);
        return code;
    }
    memcpy(frames->kinds, inputs, count * sizeof *inputs);
    answers_forget(&channel->answers); /* a model with dynamic shapes may change them */
    struct talk talk = {.function = function,
                        .call = CALL_INPUTS,
                        .args = {count, size},
                        .payload = told,
                        .size = count * sizeof *told,
                        .fds = &fd,
                        .n_fds = 1};
    int code = channel_talk(channel, &talk);
    frames->needs = talk.answer;
    free(told);
    close(fd);
    if (!code && talk.answer_size != count * sizeof *frames->needs)
        code = failed(function, RKNN_ERR_FAIL, "the answer has %zu bytes", talk.answer_size);
    if (!code) {
        copy_in(frames, count, inputs);
        frames->waiting = true;
        code = inputs_flush(channel, function);
    }
    if (code) {
        free(frames->kinds);
        frames->kinds = NULL;
    } else {
        frames->n_inputs = count;
    }
    return code;
}

PUBLIC int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input inputs[])
{
    const char *function = "rknn_inputs_set";
    int code = 0;
    if (MINI)
        return failed(function, RKNN_ERR_PARAM_INVALID, NOT_IN_MINI);
    struct channel *channel = channel_take(function, context, &code);
    if (!channel)
        return code;
    struct frames *frames = frames_of(channel);
    uint32_t bad = 0;
    while (inputs && bad < n_inputs && inputs[bad].buf)
        bad++;
    if (!n_inputs) {
        code = RKNN_SUCC; /* as the vendor's library */
    } else if (!frames || !inputs || n_inputs > MOST_TENSORS) {
        code = failed(function, inputs ? RKNN_ERR_MALLOC_FAIL : RKNN_ERR_PARAM_INVALID, "%u inputs at %p", n_inputs,
                      (void *)inputs);
    } else if (bad < n_inputs) {
        code = failed(function, RKNN_ERR_INPUT_INVALID, "the buffer of input %u is NULL", inputs[bad].index);
    } else if (same_kinds(frames, n_inputs, inputs)) {
        copy_in(frames, n_inputs, inputs);
        frames->waiting = true;
    } else {
        frames->waiting = false;
        code = new_kinds(channel, frames, n_inputs, inputs);
    }
    channel_let_go(channel);
    return code;
}

int inputs_flush(struct channel *channel, const char *function)
{
    if (!channel->frames || !channel->frames->waiting)
        return RKNN_SUCC;
    struct talk talk = {.function = function, .call = CALL_INPUTS};
    channel->frames->waiting = false;
    int code = channel_talk(channel, &talk);
    free(talk.answer);
    return code;
}
