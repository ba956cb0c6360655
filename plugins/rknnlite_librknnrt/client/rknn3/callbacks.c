/* Callbacks of a session: the server asks, the thread of the program that waits for the run calls. */
#include "rknn3.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SLACK 4096 /* ids behind the room that a tokenizer callback is told: it is told, not trusted */

int callbacks_open(struct session *session)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    session->asks = ends[0];
    return ends[1];
}

void callbacks_close(struct session *session)
{
    if (!session)
        return;
    if (session->asks >= 0)
        close(session->asks);
    free(session->outputs);
    free(session);
}

static int result(struct session *session, const struct request *request, char *payload)
{
    RKLLMResult given = {(int *)(void *)payload, (int)request->args[1]};
    LLMCallState state = (LLMCallState)request->args[0];
    session->ended = session->ended || (state != RKLLM_RUN_NORMAL && state != RKLLM_RUN_WAITING);
    const RKLLMCallback *callbacks = &session->callbacks;
    return callbacks->result_callback ? callbacks->result_callback(callbacks->result_userdata, &given, state) : 0;
}

static int tokenize(struct session *session, const char *text, uint32_t size, void **told, uint64_t *told_size)
{
    const RKLLMCallback *callbacks = &session->callbacks;
    int32_t room = (int32_t)size + 2;
    int32_t *ids = calloc((size_t)room + SLACK, sizeof *ids);
    if (!ids || !callbacks->tokenizer_callback) {
        free(ids);
        return -1;
    }
    int count = callbacks->tokenizer_callback(callbacks->tokenizer_userdata, text, (int32_t)size, ids, room);
    *told = ids;
    *told_size = count > 0 && count <= room ? (uint64_t)count * sizeof *ids : 0;
    return count;
}

static int embed(struct session *session, int32_t *ids, uint64_t count, void **told, uint64_t *told_size)
{
    const RKLLMCallback *callbacks = &session->callbacks;
    uint64_t size = count * session->hidden * sizeof(float16);
    void *rows = calloc(1, size ? (size_t)size : 1);
    if (!rows || !callbacks->embed_callback) {
        free(rows);
        return -1;
    }
    *told = rows;
    *told_size = size;
    return callbacks->embed_callback(callbacks->embed_userdata, ids, count, rows, size);
}

static int sample(struct session *session, char *logits, uint64_t size)
{
    const RKLLMCallback *callbacks = &session->callbacks;
    if (!callbacks->sampling_callback)
        return -1;
    return callbacks->sampling_callback(callbacks->sampling_userdata, (float16 *)(void *)logits, logits + size);
}

/* Outputs come one behind the other, each with its size before it. */
static int output(struct session *session, const struct request *request, const char *at)
{
    const RKLLMCallback *callbacks = &session->callbacks;
    for (uint32_t i = 0; i < callbacks->n_output_tensors; i++) {
        uint64_t size;
        memcpy(&size, at, sizeof size);
        memcpy(session->outputs[i].at, at + sizeof size, size < session->outputs[i].size ? size : session->outputs[i].size);
        at += sizeof size + size;
    }
    return callbacks->output_callback(callbacks->output_userdata, callbacks->output_tensors, callbacks->n_output_tensors,
                                      (LLMOutputCallbackState)request->args[0]);
}

static int status(struct session *session, const struct request *request)
{
    if (session->status)
        session->status(session->status_userdata, (int)request->args[0]);
    return 0;
}

static int answer(struct session *session, const struct request *request, char *payload, void **told, uint64_t *size)
{
    switch (request->call) {
    case CALLBACK3_RESULT: return result(session, request, payload);
    case CALLBACK3_TOKENIZE: return tokenize(session, payload, request->size, told, size);
    case CALLBACK3_EMBED: return embed(session, (int32_t *)(void *)payload, request->args[0], told, size);
    case CALLBACK3_SAMPLE: return sample(session, payload, request->args[0]);
    case CALLBACK3_OUTPUT: return output(session, request, payload);
    case CALLBACK3_STATUS: return status(session, request);
    default: return -1;
    }
}

bool callbacks_serve(struct session *session)
{
    struct request request;
    struct reply reply;
    uint64_t size = 0;
    void *told = NULL;
    if (!wire_recv(session->asks, &request, sizeof request, NULL, NULL))
        return false;
    char *payload = malloc((size_t)request.size + 1);
    if (!payload || (request.size && !wire_recv(session->asks, payload, request.size, NULL, NULL))) {
        free(payload);
        return false;
    }
    payload[request.size] = 0;
    memset(&reply, 0, sizeof reply);
    reply.code = answer(session, &request, payload, &told, &size);
    if (size > UINT32_MAX) {
        size = 0;
        reply.code = -1;
    }
    reply.size = (uint32_t)size;
    bool sent = wire_send(session->asks, &reply, sizeof reply, told, (size_t)size, NULL, 0);
    free(told);
    free(payload);
    return sent;
}
