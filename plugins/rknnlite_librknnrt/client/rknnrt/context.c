/* Contexts: opening, questions, settings, closing. */
#include "rknnrt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- opening --------------------------------------------------------------------------------------- */

static int hand_model(struct channel *channel, struct talk *talk, int fd)
{
    talk->fds = &fd;
    talk->n_fds = fd >= 0 ? 1 : 0;
    int code = channel_talk(channel, talk);
    channel->facts = (uint32_t)talk->told[0];
    free(talk->answer);
    if (fd >= 0)
        close(fd);
    return code;
}

/* A file, or with an extend's real_model_size a part of one. */
static int open_file(struct channel *channel, struct talk *talk, const char *model, const rknn_init_extend *extend)
{
    if (extend && extend->real_model_size) {
        int fd = handover_part(model, (uint64_t)extend->real_model_offset, extend->real_model_size);
        if (fd < 0)
            return failed(talk->function, RKNN_ERR_MODEL_INVALID,
                          "the %u bytes (real_model_size) at %d (real_model_offset) of %s cannot be read: %s",
                          extend->real_model_size, extend->real_model_offset, model,
                          errno == ERANGE ? "they are not all in it" : strerror(errno));
        talk->args[1] = extend->real_model_size;
        return hand_model(channel, talk, fd);
    }
    char *path = handover_path(model);
    talk->payload = path;
    talk->size = path ? strlen(path) : 0;
    int code = hand_model(channel, talk, -1);
    free(path);
    return code;
}

static int open_bytes(struct channel *channel, struct talk *talk, const void *model, uint32_t size)
{
    int fd = handover_bytes(model, size);
    if (fd < 0)
        return failed(talk->function, RKNN_ERR_MODEL_INVALID, "the %u bytes of the model cannot be read: %s", size, strerror(errno));
    talk->args[1] = size;
    return hand_model(channel, talk, fd);
}

PUBLIC int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flag, rknn_init_extend *extend)
{
    int code = 0;
    if (!context || !model)
        return failed("rknn_init", RKNN_ERR_PARAM_INVALID, "%s is NULL", context ? "model" : "context");
    uint64_t master = extend && (flag & RKNN_FLAG_SHARE_WEIGHT_MEM) ? extend->ctx : 0;
    struct channel *channel = channel_open("rknn_init", &library_hooks, &code);
    if (!channel)
        return code;
    struct talk talk = {.function = "rknn_init", .call = CALL_INIT, .args = {flag, 0, master, MINI}};
    code = size ? open_bytes(channel, &talk, model, size) : open_file(channel, &talk, model, extend);
    if (code) {
        channel_drop(channel);
        return code;
    }
    channel_publish(channel);
    *context = (rknn_context)channel->id;
    channel_let_go(channel);
    return RKNN_SUCC;
}

/* What the vendor's wheels look up; the first generation's library has it, with the same arguments. */
FULL int rknn_init2(rknn_context *context, void *model, uint32_t size, uint32_t flag, rknn_init_extend *extend);
int rknn_init2(rknn_context *context, void *model, uint32_t size, uint32_t flag, rknn_init_extend *extend)
{
    return rknn_init(context, model, size, flag, extend);
}

PUBLIC int rknn_dup_context(rknn_context *context_in, rknn_context *context_out)
{
    const char *function = "rknn_dup_context";
    int code = 0;
    if (MINI)
        return failed(function, RKNN_ERR_FAIL, "librknnmrt duplicates no context: open the model once more");
    if (!context_in || !context_out)
        return failed(function, RKNN_ERR_PARAM_INVALID, "a context is NULL");
    struct channel *from = channel_take(function, *context_in, &code);
    if (!from)
        return code;
    struct channel *twin = channel_open(function, &library_hooks, &code);
    if (twin) {
        struct talk talk = {.function = function, .call = CALL_DUP, .args = {from->id}};
        code = inputs_flush(from, function);
        if (!code) {
            /* The twin asks for itself; its original stays taken meanwhile. */
            code = channel_talk(twin, &talk);
            free(talk.answer);
        }
        if (code) {
            channel_drop(twin);
        } else {
            twin->facts = from->facts;
            channel_publish(twin);
            *context_out = (rknn_context)twin->id;
            channel_let_go(twin);
        }
    }
    channel_let_go(from);
    return code;
}

PUBLIC int rknn_destroy(rknn_context context)
{
    int code = 0;
    struct channel *channel = channel_take("rknn_destroy", context, &code);
    if (!channel)
        return code;
    if (!channel->broken) { /* operators are told that they go */
        struct talk talk = {.function = "rknn_destroy", .call = CALL_CLOSE};
        channel_talk(channel, &talk);
        free(talk.answer);
    }
    channel_drop(channel);
    return RKNN_SUCC;
}

/* -- questions ------------------------------------------------------------------------------------- */

static bool has_index(uint32_t command)
{
    return command != RKNN_QUERY_IN_OUT_NUM && command != RKNN_QUERY_SDK_VERSION && command != RKNN_QUERY_CUSTOM_STRING;
}

static bool stays(uint32_t command)
{
    return command != RKNN_QUERY_PERF_DETAIL && command != RKNN_QUERY_PERF_RUN && command != RKNN_QUERY_MEM_SIZE &&
           command != RKNN_QUERY_DEVICE_MEM_INFO;
}

/* Whether librknnmrt has no answer to it. */
static bool beyond_mini(uint32_t command)
{
    return command == RKNN_QUERY_PERF_DETAIL || command == RKNN_QUERY_PERF_RUN ||
           (command >= RKNN_QUERY_CURRENT_INPUT_ATTR && command <= RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR);
}

static void put(struct channel *channel, uint32_t command, void *info, uint32_t room, struct talk *talk)
{
    if (command == RKNN_QUERY_PERF_DETAIL) { /* the text stays ours until the next one */
        rknn_perf_detail detail = {talk->answer, talk->answer_size};
        free(channel->perf);
        channel->perf = talk->answer;
        talk->answer = NULL;
        memcpy(info, &detail, sizeof detail);
    } else if (command == RKNN_QUERY_DEVICE_MEM_INFO) { /* it has pointers, which may be larger in the server */
        rknn_tensor_mem mem = {.fd = -1, .size = (uint32_t)talk->told[0], .flags = (uint32_t)talk->told[1]};
        memcpy(info, &mem, sizeof mem < room ? sizeof mem : room);
    } else {
        memcpy(info, talk->answer, talk->answer_size < room ? talk->answer_size : room);
    }
}

static int ask(struct channel *channel, uint32_t command, uint32_t index, void *info, uint32_t room)
{
    const struct answer *answer = answers_find(channel->answers, command, index, room);
    if (answer) {
        memcpy(info, answer->bytes, answer->size);
        return RKNN_SUCC;
    }
    struct talk talk = {.function = "rknn_query", .call = CALL_QUERY, .args = {command, index, room}};
    int code = inputs_flush(channel, talk.function);
    if (!code)
        code = channel_talk(channel, &talk);
    if (code)
        return code;
    if (stays(command))
        answers_keep(&channel->answers, command, index, room, talk.answer, talk.answer_size < room ? talk.answer_size : room);
    put(channel, command, info, room, &talk);
    free(talk.answer);
    return code;
}

PUBLIC int rknn_query(rknn_context context, rknn_query_cmd cmd, void *info, uint32_t size)
{
    int code = 0;
    struct channel *channel = channel_take("rknn_query", context, &code);
    if (!channel)
        return code;
    uint32_t index = 0;
    if (!info || size < sizeof index) {
        code = failed("rknn_query", RKNN_ERR_PARAM_INVALID, "command %d: %s", (int)cmd,
                      info ? "the structure is too small" : "info is NULL");
    } else if (MINI && cmd == RKNN_QUERY_INPUT_DYNAMIC_RANGE) {
        code = RKNN_ERR_FAIL; /* what programs ask of every model: no word */
    } else if (MINI && beyond_mini((uint32_t)cmd)) {
        code = failed("rknn_query", RKNN_ERR_FAIL, "command %d: librknnmrt does not answer it", (int)cmd);
    } else {
        if (has_index((uint32_t)cmd))
            memcpy(&index, info, sizeof index);
        code = ask(channel, (uint32_t)cmd, index, info, size);
    }
    channel_let_go(channel);
    return code;
}

/* -- settings -------------------------------------------------------------------------------------- */

static int tell(const char *function, rknn_context context, uint32_t call, uint64_t value, const void *payload, size_t size)
{
    int code = 0;
    struct channel *channel = channel_take(function, context, &code);
    if (!channel)
        return code;
    struct talk talk = {.function = function, .call = call, .args = {value}, .payload = payload, .size = size};
    if (call == CALL_SHAPES) { /* inputs of the shapes before do not fit any more */
        frames_renew(channel);
        answers_forget(&channel->answers);
    } else {
        code = inputs_flush(channel, function);
    }
    if (!code)
        code = channel_talk(channel, &talk);
    free(talk.answer);
    channel_let_go(channel);
    return code;
}

FULL int rknn_set_core_mask(rknn_context context, rknn_core_mask core_mask)
{
    return tell("rknn_set_core_mask", context, CALL_CORE_MASK, (uint32_t)core_mask, NULL, 0);
}

FULL int rknn_set_batch_core_num(rknn_context context, int core_num)
{
    return tell("rknn_set_batch_core_num", context, CALL_BATCH_CORES, (uint64_t)(int64_t)core_num, NULL, 0);
}

FULL int rknn_set_input_shapes(rknn_context ctx, uint32_t n_inputs, rknn_tensor_attr attr[])
{
    const char *function = "rknn_set_input_shapes";
    if (!attr || n_inputs > MOST_TENSORS)
        return failed(function, RKNN_ERR_PARAM_INVALID, "%u attributes at %p", n_inputs, (void *)attr);
    return tell(function, ctx, CALL_SHAPES, n_inputs, attr, n_inputs * sizeof *attr);
}

/* Of one input alone: the count 0 says so. */
FULL int rknn_set_input_shape(rknn_context ctx, rknn_tensor_attr *attr)
{
    if (!attr)
        return failed("rknn_set_input_shape", RKNN_ERR_PARAM_INVALID, "attr is NULL");
    return tell("rknn_set_input_shape", ctx, CALL_SHAPES, 0, attr, sizeof *attr);
}
