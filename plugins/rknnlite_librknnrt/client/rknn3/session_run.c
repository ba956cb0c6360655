/* Runs of a session: in the thread that asks, or in one of their own; stopping them, and how far they are. */
#include "rknn3.h"

#include <stdlib.h>
#include <string.h>

PUBLIC int rknn3_session_stop(rknn3_session *session)
{
    struct talk talk = {.function = "rknn3_session_stop", .call = CALL3_SESSION_STOP, .args = {session_id(session)}};
    rknn3_context context = session_context(session);
    return context ? context_tell(context, &talk) : session_unknown(talk.function, session);
}

/* The members of the later revision, in its order. */
struct later_state {
    uint64_t n_total, n_reuse, n_max, n_prefill, n_decode, n_input, n_output;
    const int32_t *input, *output;
    int32_t policy, n_loras;
    rknn3_lora *loras;
};

PUBLIC int rknn3_session_query_state(rknn3_session *session, RKLLMRunState *state)
{
    struct talk talk = {.function = "rknn3_session_query_state", .call = CALL3_SESSION_STATE, .args = {session_id(session)}};
    rknn3_context context = session_context(session);
    if (!state)
        return failed(talk.function, RKNN3_ERR_ARGUMENT_INVALID, "state is NULL");
    if (!context)
        return session_unknown(talk.function, session);
    int code = context_tell(context, &talk);
    const uint64_t *told = talk.told;
    if (!code && context_is_later(context)) {
        struct later_state later = {.n_total = told[0], .n_max = told[1], .n_decode = told[2], .n_prefill = told[3],
                                    .n_input = told[3], .n_output = told[2], .policy = (int32_t)told[4]};
        memcpy((void *)state, &later, sizeof later);
    } else if (!code) {
        RKLLMRunState first = {.n_total_tokens = told[0], .n_max_tokens = told[1], .n_decode_tokens = told[2],
                               .n_prefill_tokens = told[3], .kvcache_policy = (rknn3_kvcache_policy)told[4]};
        *state = first;
    }
    return code;
}

/* A run as the server is told of it; the program's data are in ``pack``. */
struct job {
    uint64_t session;
    struct talk talk;
    struct pack pack;
};

static int prepare(struct job *job, rknn3_session *session, const rknn3_llm_input *inputs, uint32_t count,
                   const rknn3_llm_infer_param *param)
{
    const char *function = job->talk.function;
    int code = 0;
    rknn3_context context = session_context(session);
    if (!context)
        return session_unknown(function, session);
    if (!inputs || !count || count > MOST_TENSORS || !param)
        return failed(function, RKNN3_ERR_ARGUMENT_INVALID, "%u inputs at %p, param at %p", count, (const void *)inputs,
                      (const void *)param);
    struct talk ask = {.function = function, .call = CALL3_SESSION_STATE, .args = {session_id(session), 1}};
    code = context_tell(context, &ask);
    if (code)
        return code;
    const char *fault = pack_llm_inputs(&job->pack, inputs, count, ask.told[0]);
    if (fault)
        return failed(function, RKNN3_ERR_INPUT_INVALID, "%s", fault);
    bool later = context_is_later(context); /* then two members come where the first revision has reserved bytes */
    job->session = session_id(session);
    job->talk.call = CALL3_SESSION_RUN;
    job->talk.args[0] = count;
    job->talk.args[1] = (uint64_t)(int64_t)param->keep_history;
    job->talk.args[2] = (uint64_t)(int64_t)param->max_new_tokens;
    job->talk.args[3] = later ? (param->reserved[0] ? 1u : 0) | (param->reserved[1] ? 2u : 0) : 0;
    job->talk.payload = job->pack.bytes;
    job->talk.size = job->pack.size;
    return RKNN3_SUCCESS;
}

static int compute(struct job *job, bool tell_end)
{
    int code = 0;
    struct channel *channel = channel_take(job->talk.function, job->session, &code);
    if (!channel)
        return code;
    struct session *session = channel->own->session;
    session->ended = false;
    code = channel_talk(channel, &job->talk);
    free(job->talk.answer);
    if (code && tell_end && !session->ended && !channels_are_leaving() && session->callbacks.result_callback) {
        RKLLMResult nothing = {NULL, 0};
        session->callbacks.result_callback(session->callbacks.result_userdata, &nothing, RKLLM_RUN_ERROR);
    }
    channel_let_go(channel);
    return code;
}

PUBLIC int rknn3_session_run(rknn3_session *session, rknn3_llm_input inputs[], uint32_t n_inputs,
                             rknn3_llm_infer_param *param)
{
    struct job job = {.talk = {.function = "rknn3_session_run"}};
    int code = prepare(&job, session, inputs, n_inputs, param);
    if (!code)
        code = compute(&job, false);
    free(job.pack.bytes);
    return code;
}

static void *run_job(void *given)
{
    struct job *job = given;
    compute(job, true);
    free(job->pack.bytes);
    free(job);
    return NULL;
}

PUBLIC int rknn3_session_run_async(rknn3_session *session, rknn3_llm_input inputs[], uint32_t n_inputs,
                                   rknn3_llm_infer_param *param)
{
    pthread_t thread;
    pthread_attr_t detached;
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        return failed("rknn3_session_run_async", RKNN3_ERR_OUT_OF_MEMORY, "no memory");
    job->talk.function = "rknn3_session_run_async";
    int code = prepare(job, session, inputs, n_inputs, param);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (!code && pthread_create(&thread, &detached, run_job, job) != 0)
        code = failed(job->talk.function, RKNN3_ERR_OUT_OF_MEMORY, "no thread for the run");
    else if (!code)
        job = NULL;
    pthread_attr_destroy(&detached);
    if (job)
        free(job->pack.bytes);
    free(job);
    return code;
}
