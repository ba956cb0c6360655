/* Sessions: each is a conversation of its own with the server, beside that of its context.
 *
 * A run holds the session's conversation; stopping it and asking for its state go by that of the context.
 */
#include "rknn3.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- life ----------------------------------------------------------------------------------------------- */

/* Numbers go by themselves: a server of another word size has another structure. */
static void pack_param(struct pack *pack, const rknn3_llm_param *param)
{
    pack_text(pack, param->logits_name);
    pack_number(pack, (uint64_t)(int64_t)param->max_context_len);
    pack_bytes(pack, &param->sampling_param, sizeof param->sampling_param);
    pack_bytes(pack, &param->vocab_info, sizeof param->vocab_info);
}

static bool pack_params(struct pack *pack, const rknn3_llm_param *params, int count)
{
    if (!params || count < 1 || count > 64)
        return false;
    for (int i = 0; i < count; i++)
        pack_param(pack, &params[i]);
    return !pack->lost;
}

static int begin(struct channel *channel, struct talk *talk, rknn3_context context)
{
    channel->own = calloc(1, sizeof *channel->own);
    struct session *session = channel->own ? calloc(1, sizeof *session) : NULL;
    int end = session ? callbacks_open(session) : -1;
    if (!session || end < 0) {
        free(session);
        return failed(talk->function, RKNN3_ERR_OUT_OF_MEMORY, "no memory for a session");
    }
    channel->own->is_session = true;
    channel->own->session = session;
    session->context = context;
    talk->fds = &end;
    talk->n_fds = 1;
    int code = channel_talk(channel, talk);
    free(talk->answer);
    close(end);
    session->hidden = talk->told[0];
    session->vocab = talk->told[1];
    return code;
}

PUBLIC rknn3_session *rknn3_session_init(rknn3_context context, rknn3_llm_param *params, int n_params)
{
    struct talk talk = {.function = "rknn3_session_init", .call = CALL3_SESSION, .args = {context}};
    struct pack pack = {0};
    int code = 0;
    if (!channel_is_open(context)) {
        failed(talk.function, RKNN3_ERR_CTX_INVALID, "there is no context %llu", (unsigned long long)context);
        return NULL;
    }
    if (!pack_params(&pack, params, n_params)) {
        free(pack.bytes);
        failed(talk.function, RKNN3_ERR_ARGUMENT_INVALID, "%d params at %p", n_params, (void *)params);
        return NULL;
    }
    talk.payload = pack.bytes;
    talk.size = pack.size;
    struct channel *channel = channel_open(talk.function, &library_hooks, &code);
    if (channel)
        code = begin(channel, &talk, context);
    free(pack.bytes);
    if (!channel)
        return NULL;
    uint64_t id = channel->id;
    if (code || !sessions_add(id, context)) {
        channel_drop(channel);
        return NULL;
    }
    channel_publish(channel);
    channel_let_go(channel);
    return (rknn3_session *)(uintptr_t)id;
}

/* End the run under way, if there is one; nothing is said. */
static void end_run(const char *function, rknn3_session *session)
{
    struct channel *context = channel_look(session_context(session));
    if (!context)
        return;
    struct talk talk = {.function = function, .call = CALL3_SESSION_STOP, .args = {session_id(session)}};
    channel_talk(context, &talk);
    free(talk.answer);
    channel_let_go(context);
}

PUBLIC int rknn3_session_destroy(rknn3_session *session)
{
    const char *function = "rknn3_session_destroy";
    int code = 0;
    if (!session_context(session))
        return session_unknown(function, session);
    end_run(function, session);
    struct channel *channel = session_take(function, session, &code);
    if (!channel)
        return code;
    if (!channel->broken) {
        struct talk talk = {.function = function, .call = CALL_CLOSE};
        channel_talk(channel, &talk);
        free(talk.answer);
    }
    sessions_remove(channel->id);
    channel_drop(channel);
    return RKNN3_SUCCESS;
}

/* -- settings ------------------------------------------------------------------------------------------- */

/* The program's tensors of the output callback: what they ask for, and where their bytes go. */
static const char *pack_outputs(struct pack *pack, const RKLLMCallback *given, struct output *outputs)
{
    for (uint32_t i = 0; i < given->n_output_tensors; i++) {
        const rknn3_tensor *tensor = &given->output_tensors[i];
        uint64_t size = tensor->mem ? memory_size(tensor->mem) : 0;
        if (!tensor->attr || !size)
            return "an output tensor has no attr, or no mem of rknn3_create_mem";
        pack_number(pack, tensor->attr->index);
        pack_number(pack, tensor->attr->n_elems);
        pack_number(pack, (uint32_t)tensor->attr->dtype);
        pack_number(pack, size);
        outputs[i].at = (char *)tensor->mem->virt_addr + tensor->mem->offset;
        outputs[i].size = size;
    }
    return NULL;
}

static uint64_t there(const RKLLMCallback *given)
{
    return (given->result_callback ? 1u : 0) | (given->tokenizer_callback ? 2u : 0) | (given->embed_callback ? 4u : 0) |
           (given->sampling_callback ? 8u : 0) | (given->output_callback ? 16u : 0);
}

static int set_callbacks(rknn3_session *session, struct talk *talk, struct pack *pack, const RKLLMCallback *given,
                         struct output **outputs)
{
    int code = 0;
    struct channel *channel = session_take(talk->function, session, &code);
    if (!channel)
        return code;
    talk->payload = pack->bytes;
    talk->size = pack->size;
    talk->args[0] = there(given);
    code = channel_talk(channel, talk);
    free(talk->answer);
    if (!code) {
        struct session *kept = channel->own->session;
        kept->callbacks = *given;
        free(kept->outputs);
        kept->outputs = *outputs;
        *outputs = NULL;
    }
    channel_let_go(channel);
    return code;
}

PUBLIC int rknn3_session_set_callback(rknn3_session *session, RKLLMCallback *callback)
{
    struct talk talk = {.function = "rknn3_session_set_callback", .call = CALL3_SESSION_CALLBACKS};
    struct pack pack = {0};
    void *input_callback = NULL;
    if (!callback)
        return failed(talk.function, RKNN3_ERR_ARGUMENT_INVALID, "callback is NULL");
    rknn3_context context = session_context(session);
    if (!context)
        return session_unknown(talk.function, session);
    if (context_is_later(context)) /* the later structure goes on where the first one ends */
        memcpy(&input_callback, (char *)callback + sizeof *callback, sizeof input_callback);
    if (input_callback)
        return failed(talk.function, RKNN3_ERR_FAIL, "input_callback is not called here; give the inputs with the run");
    RKLLMCallback given = *callback;
    if (!given.output_callback)
        given.n_output_tensors = 0;
    if (given.n_output_tensors && (!given.output_tensors || given.n_output_tensors > MOST_TENSORS))
        return failed(talk.function, RKNN3_ERR_ARGUMENT_INVALID, "%u output tensors at %p", given.n_output_tensors,
                      (void *)given.output_tensors);
    struct output *outputs = calloc(given.n_output_tensors + 1, sizeof *outputs);
    const char *fault = outputs ? pack_outputs(&pack, &given, outputs) : "there is no memory for it";
    int code = fault || pack.lost ? failed(talk.function, RKNN3_ERR_ARGUMENT_INVALID, "%s", fault ? fault : "no memory")
                                  : set_callbacks(session, &talk, &pack, &given, &outputs);
    free(outputs);
    free(pack.bytes);
    return code;
}

PUBLIC int rknn3_session_set_llm_param(rknn3_session *session, rknn3_llm_param *params, int n_params)
{
    struct talk talk = {.function = "rknn3_session_set_llm_param", .call = CALL3_SESSION_PARAMS};
    struct pack pack = {0};
    if (pack_params(&pack, params, n_params))
        return session_tell_pack(session, &talk, &pack);
    free(pack.bytes);
    return failed(talk.function, RKNN3_ERR_ARGUMENT_INVALID, "%d params at %p", n_params, (void *)params);
}

PUBLIC int rknn3_session_set_chat_template(rknn3_session *session, const char *system_prompt, const char *prompt_prefix,
                                           const char *prompt_postfix)
{
    struct talk talk = {.function = "rknn3_session_set_chat_template", .call = CALL3_SESSION_TEMPLATE};
    struct pack pack = {0};
    pack_text(&pack, system_prompt);
    pack_text(&pack, prompt_prefix);
    pack_text(&pack, prompt_postfix);
    return session_tell_pack(session, &talk, &pack);
}

PUBLIC int rknn3_session_set_function_tools(rknn3_session *session, const char *tools)
{
    struct talk talk = {.function = "rknn3_session_set_function_tools", .call = CALL3_SESSION_TOOLS};
    struct pack pack = {0};
    pack_text(&pack, tools ? tools : "");
    return session_tell_pack(session, &talk, &pack);
}

PUBLIC int rknn3_session_set_kvcache_policy(rknn3_session *session, rknn3_kvcache_policy policy,
                                            rknn3_kvcache_policy_param *param)
{
    struct talk talk = {.function = "rknn3_session_set_kvcache_policy", .call = CALL3_SESSION_POLICY};
    talk.args[0] = (uint64_t)policy;
    talk.args[1] = param ? (uint64_t)param->recurrent.n_keep : 0;
    talk.args[2] = param ? (uint64_t)param->recurrent.n_keep_aligned : 0;
    return session_tell(session, &talk);
}

PUBLIC int rknn3_session_clear_kvcache(rknn3_session *session, rknn3_kvcache_clear_policy clear)
{
    struct talk talk = {.function = "rknn3_session_clear_kvcache", .call = CALL3_SESSION_CLEAR, .args = {(uint64_t)clear}};
    return session_tell(session, &talk);
}

static int with_path(rknn3_session *session, const char *function, uint32_t call, const char *path)
{
    struct talk talk = {.function = function, .call = call};
    struct pack pack = {0};
    if (!path)
        return failed(function, RKNN3_ERR_ARGUMENT_INVALID, "the path is NULL");
    char *whole = handover_path(path);
    pack_text(&pack, whole);
    free(whole);
    return session_tell_pack(session, &talk, &pack);
}

PUBLIC int rknn3_session_save_kvcache(rknn3_session *session, char *kvcache_path)
{
    return with_path(session, "rknn3_session_save_kvcache", CALL3_SESSION_SAVE, kvcache_path);
}

PUBLIC int rknn3_session_load_kvcache(rknn3_session *session, const char *kvcache_path, int64_t size)
{
    (void)size; /* of the path, or 0 */
    return with_path(session, "rknn3_session_load_kvcache", CALL3_SESSION_LOAD, kvcache_path);
}

/* Two of the later revision. */
PUBLIC int rknn3_session_load_kvcache_from_path(rknn3_session *session, const char *kvcache_path);
int rknn3_session_load_kvcache_from_path(rknn3_session *session, const char *kvcache_path)
{
    program_is_later(session_context(session));
    return with_path(session, "rknn3_session_load_kvcache_from_path", CALL3_SESSION_LOAD, kvcache_path);
}

PUBLIC int rknn3_session_load_kvcache_from_data(rknn3_session *session, const void *data, int64_t size);
int rknn3_session_load_kvcache_from_data(rknn3_session *session, const void *data, int64_t size)
{
    struct talk talk = {.function = "rknn3_session_load_kvcache_from_data", .call = CALL3_SESSION_LOAD, .args = {(uint64_t)size}};
    program_is_later(session_context(session));
    int fd = data && size > 0 ? handover_bytes(data, (uint64_t)size) : -1;
    if (fd < 0)
        return failed(talk.function, RKNN3_ERR_ARGUMENT_INVALID, "%lld bytes at %p", (long long)size, data);
    talk.fds = &fd;
    talk.n_fds = 1;
    int code = session_tell(session, &talk);
    close(fd);
    return code;
}
