/* Callbacks of a model: the server asks, the thread that waits for the run calls. The twin of ../../rkllm/callbacks.py. */
#include "rkllm_client.h"

#include <stdlib.h>
#include <string.h>

#define SLACK 4096 /* ids behind the room that a tokenizer callback is told: it is told, not trusted */
#define STOP 3     /* what is answered beside what the callback of the program returns */

static uint64_t number(const char **at)
{
    uint64_t value;
    memcpy(&value, *at, sizeof value);
    *at += sizeof value;
    return value;
}

/* Bytes with their size before them, which are a multiple of 8 long there; NULL: there are none. */
static const void *bytes(const char **at)
{
    uint64_t size = number(at);
    const char *found = *at;
    if (size == UINT64_MAX)
        return NULL;
    *at += (size + 7) & ~(uint64_t)7;
    return found;
}

static int call(struct own *own, RKLLMResult *results, LLMCallState state)
{
    own->told = own->told || state == RKLLM_RUN_FINISH || state == RKLLM_RUN_ERROR;
    void *userdata = own->userdata;
#ifdef HAS_MEDIA
    if (!userdata)
        userdata = own->callbacks.result_userdata;
#endif
#ifdef HAS_ROLES
    return own->result(results, userdata, state);
#else
    own->result(results, userdata, state);
    return 0;
#endif
}

/* Everything that comes with a result, for each prompt of a batch. */
static void unpack(const struct request *request, const char *at, RKLLMResult *results)
{
    uint64_t count = request->args[1], rows = request->args[2];
    for (uint64_t i = 0; i < count; i++) {
        results[i].token_id = (int32_t)number(&at);
        results[i].text = bytes(&at);
    }
    const void *hidden = bytes(&at), *logits = bytes(&at), *perf = bytes(&at);
    results[0].last_hidden_layer.hidden_states = (float *)hidden;
    results[0].last_hidden_layer.embd_size = hidden ? (int)request->args[3] : 0;
    results[0].last_hidden_layer.num_tokens = hidden ? (int)rows : 0;
#ifdef HAS_HISTORY
    results[0].logits.logits = (float *)logits;
    results[0].logits.vocab_size = logits ? (int)request->args[3] : 0;
    results[0].logits.num_tokens = logits ? (int)rows : 0;
#else
    (void)logits;
#endif
#ifdef HAS_ROLES
    for (uint64_t i = 0; perf && i < count; i++)
        memcpy(&results[i].perf, (const char *)perf + i * sizeof results[i].perf, sizeof results[i].perf);
#else
    (void)perf;
#endif
}

static int result(struct own *own, const struct request *request, const char *payload)
{
    RKLLMResult *results = calloc(request->args[1], sizeof *results);
    if (!results)
        return -1;
    unpack(request, payload, results);
    int answer = call(own, results, (LLMCallState)request->args[0]);
    free(results);
    return model_stops(own) ? STOP : answer;
}

#ifdef HAS_MEDIA
static int tokenize(struct own *own, const char *text, uint32_t size, void **told, uint64_t *told_size)
{
    int32_t room = (int32_t)size + 2;
    int32_t *ids = calloc((size_t)room + SLACK, sizeof *ids);
    if (!ids || !own->callbacks.tokenizer_callback) {
        free(ids);
        return -1;
    }
    int count = own->callbacks.tokenizer_callback(own->callbacks.tokenizer_userdata, text, (int32_t)size, ids, room);
    *told = ids;
    *told_size = count > 0 && count <= room ? (uint64_t)count * sizeof *ids : 0;
    return count;
}

static int embed(struct own *own, int32_t *ids, uint64_t count, void **told, uint64_t *told_size)
{
    uint64_t size = count * own->widths.hidden * sizeof(float);
    void *rows = calloc(1, size ? (size_t)size : 1);
    if (!rows || !own->callbacks.embed_callback) {
        free(rows);
        return -1;
    }
    *told = rows;
    *told_size = size;
    return own->callbacks.embed_callback(own->callbacks.embed_userdata, ids, count, rows, size);
}
#endif

static int answer(struct own *own, const struct request *request, char *payload, void **told, uint64_t *size)
{
    switch (request->call) {
    case CALLBACK_LLM_RESULT: return result(own, request, payload);
#ifdef HAS_MEDIA
    case CALLBACK_LLM_TOKENIZE: return tokenize(own, payload, request->size, told, size);
    case CALLBACK_LLM_EMBED: return embed(own, (int32_t *)(void *)payload, request->args[0], told, size);
#endif
    default: (void)told; (void)size; return -1;
    }
}

bool callbacks_serve(struct own *own)
{
    struct request request;
    struct reply reply;
    uint64_t size = 0;
    void *told = NULL;
    if (!wire_recv(own->asks, &request, sizeof request, NULL, NULL))
        return false;
    char *payload = malloc((size_t)request.size + 1);
    if (!payload || (request.size && !wire_recv(own->asks, payload, request.size, NULL, NULL))) {
        free(payload);
        return false;
    }
    payload[request.size] = 0;
    memset(&reply, 0, sizeof reply);
    reply.code = answer(own, &request, payload, &told, &size);
    if (size > UINT32_MAX) {
        size = 0;
        reply.code = -1;
    }
    reply.size = (uint32_t)size;
    bool sent = wire_send(own->asks, &reply, sizeof reply, told, (size_t)size, NULL, 0);
    free(told);
    free(payload);
    return sent;
}

void callbacks_error(struct own *own)
{
    RKLLMResult results[MOST_BATCH];
    if (own->told || channels_are_leaving())
        return;
    memset(results, 0, sizeof results);
    for (int i = 0; i < MOST_BATCH; i++)
        results[i].token_id = -1;
    call(own, results, RKLLM_RUN_ERROR);
}
