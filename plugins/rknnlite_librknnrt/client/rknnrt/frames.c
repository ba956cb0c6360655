/* The common path: inputs, runs, outputs. A frame is one exchange with the server.
 *
 * Inputs of a kind (type, size, format, pass_through of each) that the server has taken once are only copied into the
 * staging memory, and taken with the run. Outputs come with the run when the program fetched those of the run before.
 */
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGN(size) (((size) + 63) & ~(size_t)63)

struct held {
    struct held *next;
    void *buf;
};

struct area {
    char *at; /* mapped here and in the server */
    size_t size;
};

/* What the server is told of an output, and tells of it. Twins in staging.py. */
struct told_output {
    uint32_t index, want_float;
};

struct place {
    uint64_t offset, size, index;
};

struct frames {
    rknn_input *kinds; /* as the server took them, buf left out */
    uint32_t *needs;   /* bytes of each that are taken; a program may say more */
    uint32_t n_inputs;
    struct area in, out;
    bool waiting;    /* inputs lie in the staging memory, to be taken */
    struct told_output *wanted; /* each output as last asked for */
    uint32_t n_outputs;
    bool fetched;   /* outputs of the last run were asked for */
    bool delivered; /* outputs of the last run lie in ``out`` */
    struct place *places; /* of each output in ``out`` */
    uint64_t frame;
    struct held *held; /* buffers that the program has not released */
};

static struct frames *frames_of(struct channel *channel)
{
    if (!channel->frames)
        channel->frames = calloc(1, sizeof *channel->frames);
    return channel->frames;
}

static void unmap(struct area *area)
{
    if (area->at)
        munmap(area->at, area->size);
    area->at = NULL;
    area->size = 0;
}

static bool map(struct area *area, int fd, size_t size)
{
    unmap(area);
    void *at = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return false;
    area->at = at;
    area->size = size ? size : 1;
    return true;
}

void frames_renew(struct channel *channel)
{
    struct frames *frames = channel->frames;
    if (!frames)
        return;
    free(frames->kinds);
    free(frames->needs);
    free(frames->wanted);
    frames->kinds = NULL;
    frames->needs = NULL;
    frames->wanted = NULL;
    frames->n_inputs = frames->n_outputs = 0;
    frames->waiting = frames->fetched = frames->delivered = false;
}

void frames_drop(struct channel *channel)
{
    struct frames *frames = channel->frames;
    if (!frames)
        return;
    unmap(&frames->in);
    unmap(&frames->out);
    while (frames->held) {
        struct held *next = frames->held->next;
        free(frames->held->buf);
        free(frames->held);
        frames->held = next;
    }
    free(frames->kinds);
    free(frames->needs);
    free(frames->wanted);
    free(frames->places);
    free(frames);
    channel->frames = NULL;
}

/* -- inputs ---------------------------------------------------------------------------------------- */

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
    if (!frames->kinds || !told || fd < 0 || !map(&frames->in, fd, size)) {
        int code = failed(function, RKNN_ERR_MALLOC_FAIL, "no memory for inputs of %zu bytes: %s", size, strerror(errno));
        free(frames->kinds);
        frames->kinds = NULL;
        free(told);
        if (fd >= 0)
            close(fd);
        return code;
    }
    memcpy(frames->kinds, inputs, count * sizeof *inputs);
    answers_forget(channel); /* a model with dynamic shapes may change them */
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
        code = frames_flush(channel, function);
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
    struct channel *channel = channel_take(function, context, &code);
    if (!channel)
        return code;
    struct frames *frames = frames_of(channel);
    uint32_t bad = 0;
    while (inputs && bad < n_inputs && inputs[bad].buf)
        bad++;
    if (!n_inputs) {
        code = RKNN_SUCC; /* as the vendor's library */
    } else if (!frames || !inputs || n_inputs > 4096) {
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

int frames_flush(struct channel *channel, const char *function)
{
    if (!channel->frames || !channel->frames->waiting)
        return RKNN_SUCC;
    struct talk talk = {.function = function, .call = CALL_INPUTS};
    channel->frames->waiting = false;
    int code = channel_talk(channel, &talk);
    free(talk.answer);
    return code;
}

/* -- runs ------------------------------------------------------------------------------------------ */

/* What the server tells of outputs that lie in their memory: where, and maybe that the memory is new. */
static bool take_outputs(struct frames *frames, struct talk *talk)
{
    size_t size = talk->told[2];
    if (talk->n_got && (!map(&frames->out, talk->got[0], size))) {
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
            extend->frame_id = talk.told[0];
        if (talk.args[0] & RUN_WITH_OUTPUTS)
            take_outputs(frames, &talk);
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
    code = frames_flush(channel, talk.function);
    if (!code)
        code = channel_talk(channel, &talk);
    memory_from_server();
    free(talk.answer);
    channel_let_go(channel);
    return code;
}

/* -- outputs --------------------------------------------------------------------------------------- */

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
    int code = frames_flush(channel, talk.function);
    if (code)
        return code;
    if (!same_wishes(frames, count, outputs) && !new_wishes(frames, count, outputs))
        return failed(talk.function, RKNN_ERR_MALLOC_FAIL, "no memory");
    talk.payload = frames->wanted;
    talk.size = count * sizeof *frames->wanted;
    code = channel_talk(channel, &talk);
    if (!code && !take_outputs(frames, &talk))
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
    struct channel *channel = channel_take(function, context, &code);
    if (!channel)
        return code;
    struct frames *frames = frames_of(channel);
    if (!outputs || !frames || !n_outputs || n_outputs > 4096)
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
