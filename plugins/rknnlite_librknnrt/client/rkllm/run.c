/* Runs: in the thread that asks, or in one of their own; how they are ended. */
#include "rkllm_client.h"

#include <stdlib.h>

/* A run as the server is told of it; the program's data are in ``pack``. */
struct job {
    LLMHandle handle;
    void *userdata;
    struct talk talk;
    struct pack pack;
    const char *fault; /* of the inputs */
};

static void pack_infer(struct pack *pack, const RKLLMInferParam *infer)
{
    const RKLLMPromptCacheParam *cache = infer->prompt_cache_params;
    pack_text(pack, infer->lora_params ? infer->lora_params->lora_adapter_name : NULL);
    bool saves = cache && cache->save_prompt_cache;
    pack_path(pack, !saves ? NULL : cache->prompt_cache_path ? cache->prompt_cache_path : "./prompt_cache.bin");
#ifdef HAS_MEDIA
    const RKLLMSamplingParam *own = infer->sampling_params;
    pack_number(pack, own != NULL);
    if (own) {
        pack_number(pack, (uint64_t)(int64_t)own->top_k);
        pack_real(pack, own->top_p);
        pack_real(pack, own->temperature);
        pack_real(pack, own->repeat_penalty);
        pack_real(pack, own->frequency_penalty);
        pack_real(pack, own->presence_penalty);
        pack_number(pack, (uint64_t)(int64_t)own->mirostat);
    }
#else
    pack_number(pack, 0);
#endif
}

static int prepare(struct job *job, LLMHandle handle, const RKLLMInput *inputs, const RKLLMInferParam *infer, void *userdata)
{
    bool known;
    struct widths widths = {0, 0};
    if (!model_begin(handle, &known))
        return known ? failed(job->talk.function, FAILED, "another run of this model is under way")
                     : model_unknown(job->talk.function, handle);
    int count = model_batch(handle, &widths);
    job->handle = handle;
    job->userdata = userdata;
    job->talk.call = CALL_LLM_RUN;
    if (!inputs || !infer) {
        job->fault = "the input or the parameters are NULL";
        return 0;
    }
    job->talk.args[0] = (uint64_t)count;
    job->talk.args[1] = (uint32_t)infer->mode;
#ifdef HAS_HISTORY
    job->talk.args[2] = infer->keep_history != 0;
#endif
#ifdef HAS_MEDIA
    job->talk.args[3] = infer->max_new_tokens > 0 ? (uint64_t)infer->max_new_tokens : 0;
#endif
    pack_infer(&job->pack, infer);
    job->fault = pack_inputs(&job->pack, inputs, count, &widths);
    job->talk.payload = job->pack.bytes;
    job->talk.size = job->pack.size;
    return 0;
}

static int compute(struct job *job)
{
    int code = 0;
    struct channel *channel = channel_take(job->talk.function, model_id(job->handle), &code);
    if (channel) {
        channel->own->userdata = job->userdata;
        code = job->fault ? failed(job->talk.function, FAILED, "%s", job->fault) : channel_talk(channel, &job->talk);
        free(job->talk.answer);
        if (code)
            callbacks_error(channel->own);
        model_end(model_id(job->handle)); /* before another thread may destroy it */
        channel_let_go(channel);
    } else {
        model_end(model_id(job->handle));
    }
    free(job->pack.bytes);
    return code ? FAILED : 0;
}

PUBLIC int rkllm_run(LLMHandle handle, RKLLMInput *rkllm_input, RKLLMInferParam *rkllm_infer_params, void *userdata)
{
    struct job job = {.talk = {.function = "rkllm_run"}};
    int code = prepare(&job, handle, rkllm_input, rkllm_infer_params, userdata);
    return code ? code : compute(&job);
}

static void *run_job(void *given)
{
    compute(given);
    free(given);
    return NULL;
}

PUBLIC int rkllm_run_async(LLMHandle handle, RKLLMInput *rkllm_input, RKLLMInferParam *rkllm_infer_params, void *userdata)
{
    pthread_t thread;
    pthread_attr_t detached;
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        return failed("rkllm_run_async", FAILED, "no memory");
    job->talk.function = "rkllm_run_async";
    int code = prepare(job, handle, rkllm_input, rkllm_infer_params, userdata);
    if (code) {
        free(job);
        return code;
    }
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &detached, run_job, job) != 0) {
        code = failed(job->talk.function, FAILED, "no thread for the run");
        model_end(model_id(handle));
        free(job->pack.bytes);
        free(job);
    }
    pthread_attr_destroy(&detached);
    return code;
}

PUBLIC int rkllm_is_running(LLMHandle handle)
{
    bool known, runs = model_runs(handle, &known);
    if (!known)
        return model_unknown("rkllm_is_running", handle);
#ifdef HAS_MEDIA
    return runs;
#else
    return !runs;
#endif
}

PUBLIC int rkllm_abort(LLMHandle handle)
{
    bool known, runs = model_runs(handle, &known);
    if (!known)
        return model_unknown("rkllm_abort", handle);
    return runs && model_stop(handle) ? 0 : FAILED; /* nothing runs: programs ask without knowing */
}
