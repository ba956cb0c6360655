/* Sessions that end in other ways than a run's end: several at once, destroyed in a run, without their context, without a
 * server. */
#include "check3.h"

#include <pthread.h>

#define HIDDEN 128

static uint16_t *table;

struct talk {
    rknn3_session *session;
    int ids[64], n_ids, state;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static int on_result(void *userdata, RKLLMResult *result, LLMCallState state)
{
    struct talk *talk = (struct talk *)userdata;
    pthread_mutex_lock(&talk->lock);
    for (int i = 0; state == RKLLM_RUN_NORMAL && i < result->num_tokens && talk->n_ids < 64; i++)
        talk->ids[talk->n_ids++] = result->token_ids[i];
    talk->state = state;
    pthread_cond_signal(&talk->changed);
    pthread_mutex_unlock(&talk->lock);
    return 0;
}

static int on_embed(void *userdata, int32_t *tokens, uint64_t count, void *embed, uint64_t size)
{
    (void)userdata, (void)size;
    for (uint64_t i = 0; i < count; i++)
        memcpy((char *)embed + i * HIDDEN * 2, table + (size_t)tokens[i] * HIDDEN, HIDDEN * 2);
    return 0;
}

static void open_session(rknn3_context context, struct talk *talk)
{
    rknn3_llm_param param;
    RKLLMCallback calls;
    ZERO(param);
    ZERO(calls);
    memset(talk, 0, sizeof *talk);
    pthread_mutex_init(&talk->lock, NULL);
    pthread_cond_init(&talk->changed, NULL);
    param.max_context_len = 1024;
    param.sampling_param.top_k = 1;
    param.sampling_param.top_p = param.sampling_param.temperature = param.sampling_param.repeat_penalty = 1;
    param.vocab_info.ignore_eos_token = true;
    calls.result_callback = on_result;
    calls.result_userdata = talk;
    calls.embed_callback = on_embed;
    talk->session = rknn3_session_init(context, &param, 1);
    CHECK(talk->session);
    OK(rknn3_session_set_callback(talk->session, &calls));
}

static int run(struct talk *talk, int most, bool async)
{
    static int32_t tokens[] = {5, 6, 7, 8};
    rknn3_llm_input input;
    rknn3_llm_infer_param param;
    ZERO(input);
    ZERO(param);
    input.input_type = RKNN3_LLM_INPUT_TOKEN;
    input.llm_input.tokens = tokens;
    input.llm_input.n_tokens = 4;
    param.max_new_tokens = most;
    return async ? rknn3_session_run_async(talk->session, &input, 1, &param)
                 : rknn3_session_run(talk->session, &input, 1, &param);
}

static void *run_some(void *given)
{
    OK(run((struct talk *)given, 20, false));
    return NULL;
}

static void wait_for(struct talk *talk, bool the_end)
{
    pthread_mutex_lock(&talk->lock);
    while (the_end ? talk->state < RKLLM_RUN_FINISH : talk->n_ids < 2)
        pthread_cond_wait(&talk->changed, &talk->lock);
    pthread_mutex_unlock(&talk->lock);
}

int main(int argc, char **argv)
{
    char path[4096];
    CHECK(argc == 2);
    snprintf(path, sizeof path, "%s.embed.bin", argv[1]);
    table = (uint16_t *)load(NULL, path, NULL);
    snprintf(path, sizeof path, "%s.rknn", argv[1]);
    rknn3_context context = opened(path);

    struct talk talks[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        open_session(context, &talks[i]);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, run_some, &talks[i]) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) {
        CHECK(talks[i].n_ids == 20 && memcmp(talks[i].ids, talks[0].ids, sizeof talks[0].ids) == 0);
        CHECK(talks[i].state == RKLLM_RUN_MAX_NEW_TOKEN_REACHED);
    }
    struct talk *talk = &talks[0];
    talk->n_ids = talk->state = 0;
    OK(run(talk, 100000, true)); /* destroyed while it runs: the run is stopped, and its end is told before */
    wait_for(talk, false);
    OK(rknn3_session_destroy(talk->session));
    CHECK(talk->state == RKLLM_RUN_STOP);

    OK(rknn3_destroy(context)); /* with sessions */
    CODE(RKNN3_ERR_CTX_INVALID, run(&talks[1], 5, false));
    OK(rknn3_session_destroy(talks[1].session));

    context = opened(path);
    open_session(context, talk);
    OK(run(talk, 100000, true));
    wait_for(talk, false);
    puts("kill");
    fflush(stdout);
    CHECK(getchar() == 'k');
    wait_for(talk, true);
    CHECK(talk->state == RKLLM_RUN_ERROR);
    CODE(RKNN3_ERR_DEVICE_UNAVAILABLE, run(talk, 5, false));
    OK(rknn3_session_destroy(talk->session));
    OK(rknn3_destroy(context));
    context = opened(path);
    open_session(context, talk);
    OK(run(talk, 20, true)); /* and the program ends before the run does */
    return 0;
}
