/* Models: their parameters, opening and closing them. */
#include "rkllm_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SHIFTED "; the program seems to be compiled for another version: name it in RKNNLITE_RKLLM_VERSION"

PUBLIC RKLLMParam rkllm_createDefaultParam(void)
{
    RKLLMParam param;
    memset(&param, 0, sizeof param);
    param.max_context_len = 512;
    param.max_new_tokens = -1;
    param.top_k = 40;
    param.top_p = 0.9f;
    param.temperature = 0.8f;
    param.repeat_penalty = 1.1f;
    param.mirostat_tau = 5.0f;
    param.mirostat_eta = 0.1f;
#ifdef HAS_HISTORY
    param.n_keep = -1;
    param.extend_param.enabled_cpus_num = 4;
    param.extend_param.enabled_cpus_mask = 0xf0;
#endif
#ifdef HAS_ROLES
    param.extend_param.n_batch = 1;
#endif
    return param;
}

#ifdef HAS_ROLES
/* Numbers that no program gives: members of another version lie there. */
static bool shifted(const RKLLMExtendParam *extend)
{
    return extend->embed_flash < 0 || extend->embed_flash > 1 || extend->use_cross_attn < 0 || extend->use_cross_attn > 1 ||
           extend->enabled_cpus_num < 0 || extend->enabled_cpus_num > 64;
}
#endif

static void pack_param(struct pack *pack, const RKLLMParam *param)
{
    pack_number(pack, RKLLM_HEADER_VERSION);
    pack_path(pack, param->model_path);
    const char *named = getenv("RKNNLITE_RKLLM_MODEL");
    pack_path(pack, named && *named ? named : NULL);
    pack_number(pack, (uint64_t)(int64_t)param->max_context_len);
    pack_number(pack, (uint64_t)(int64_t)param->max_new_tokens);
    pack_number(pack, (uint64_t)(int64_t)param->top_k);
    pack_real(pack, param->top_p);
    pack_real(pack, param->temperature);
    pack_real(pack, param->repeat_penalty);
    pack_real(pack, param->frequency_penalty);
    pack_real(pack, param->presence_penalty);
    pack_number(pack, (uint64_t)(int64_t)param->mirostat);
    pack_number(pack, param->skip_special_token);
#ifdef HAS_MEDIA
    pack_number(pack, param->ignore_eos_token);
    for (int i = 0; i < 3; i++)
        pack_text(pack, NULL); /* the tags come with the inputs */
#else
    pack_number(pack, 0);
    pack_text(pack, param->img_start);
    pack_text(pack, param->img_end);
    pack_text(pack, param->img_content);
#endif
#ifdef HAS_HISTORY
    pack_number(pack, (uint64_t)(int64_t)param->n_keep);
#else
    pack_number(pack, (uint64_t)-1);
#endif
#ifdef HAS_ROLES
    pack_number(pack, param->extend_param.n_batch);
    pack_number(pack, (uint64_t)param->extend_param.use_cross_attn);
#else
    pack_number(pack, 1);
    pack_number(pack, 0);
#endif
}

static struct own *made(int *end)
{
    int ends[2];
    struct own *own = calloc(1, sizeof *own);
    if (!own || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        free(own);
        return NULL;
    }
    own->asks = ends[0];
    *end = ends[1];
    return own;
}

/* The server's notes: a line each. */
static void say(const char *notes)
{
    if (notes && *notes)
        fprintf(stderr, "%s\n", notes);
}

static int open_model(LLMHandle *handle, struct talk *talk, struct own **own, int end)
{
    int code = 0;
    talk->fds = &end;
    talk->n_fds = 1;
    struct channel *channel = channel_open(talk->function, &library_hooks, &code);
    if (!channel)
        return FAILED;
    (*own)->id = channel->id;
    channel->own = *own;
    *own = NULL;
    if (channel_talk(channel, talk)) {
        channel_drop(channel);
        return FAILED;
    }
    channel->own->widths = (struct widths){talk->told[0], talk->told[1]};
    models_add(channel->own);
    *handle = (LLMHandle)(uintptr_t)channel->id;
    channel_publish(channel);
    channel_let_go(channel);
    say(talk->answer);
    free(talk->answer);
    return 0;
}

#ifdef HAS_MEDIA
PUBLIC int rkllm_init(LLMHandle *handle, RKLLMParam *param, RKLLMCallback *callback)
#else
PUBLIC int rkllm_init(LLMHandle *handle, RKLLMParam *param, LLMResultCallback callback)
#endif
{
    struct talk talk = {.function = "rkllm_init", .call = CALL_LLM_INIT};
    struct pack pack = {0};
    int end = -1, n_batch = 1;
    if (!handle || !param || !callback || !param->model_path)
        return failed(talk.function, FAILED, "handle %p, param %p, callback or model_path is NULL", (void *)handle, (void *)param);
    *handle = NULL;
#ifdef HAS_ROLES
    n_batch = param->extend_param.n_batch;
    if (n_batch < 1 || n_batch > MOST_BATCH)
        return failed(talk.function, FAILED, "The n_batch must be between 1 and %d, but got %d" SHIFTED, MOST_BATCH, n_batch);
    if (shifted(&param->extend_param))
        return failed(talk.function, FAILED, "the parameters hold what no program gives" SHIFTED);
#endif
    struct own *own = made(&end);
    if (!own)
        return failed(talk.function, FAILED, "no memory for a model");
    own->n_batch = n_batch;
#ifdef HAS_MEDIA
    own->callbacks = *callback;
    own->result = callback->result_callback;
    talk.args[0] = (callback->tokenizer_callback ? 1u : 0) | (callback->embed_callback ? 2u : 0);
#else
    own->result = callback;
#endif
    pack_param(&pack, param);
    talk.payload = pack.bytes;
    talk.size = pack.size;
    int code = pack.lost || !own->result ? failed(talk.function, FAILED, "no memory, or no result callback")
                                         : open_model(handle, &talk, &own, end);
    close(end);
    if (own)
        close(own->asks);
    free(own);
    free(pack.bytes);
    return code;
}

PUBLIC int rkllm_destroy(LLMHandle handle)
{
    struct talk talk = {.function = "rkllm_destroy", .call = CALL_CLOSE};
    bool known;
    int code = 0;
    (void)model_runs(handle, &known);
    if (!known)
        return model_unknown(talk.function, handle);
    (void)model_stop(handle);
    struct channel *channel = channel_take(talk.function, model_id(handle), &code);
    if (!channel)
        return code;
    if (!channel->broken) {
        channel_talk(channel, &talk);
        free(talk.answer);
    }
    models_remove(channel->own);
    channel_drop(channel);
    return 0;
}
