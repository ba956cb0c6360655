/* A language model: every way to feed it, callbacks, settings, its cache, stopping. Prints a line per run. */
#include "check3.h"

#include <pthread.h>

#define HIDDEN 128
#define VOCAB 640
#define MOST 64

static uint16_t *table; /* of embeddings */
static rknn3_session *session;
static int ids[MOST], n_ids, stop_after, last_state, in_callback;
static int outputs_seen, last_output_state;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

static int on_result(void *userdata, RKLLMResult *result, LLMCallState state)
{
    CHECK(userdata == &session);
    pthread_mutex_lock(&lock);
    if (state == RKLLM_RUN_NORMAL)
        for (int i = 0; i < result->num_tokens && n_ids < MOST; i++)
            ids[n_ids++] = result->token_ids[i];
    if (stop_after && n_ids >= stop_after) {
        RKLLMRunState now;
        OK(rknn3_session_query_state(session, &now)); /* these two may be called in here */
        CHECK(now.n_max_tokens > 0);
        OK(rknn3_session_stop(session));
        CODE(RKNN3_ERR_FAIL, rknn3_session_clear_kvcache(session, RKNN3_KVCACHE_CLEAR_ALL)); /* others may not */
        in_callback++;
    }
    last_state = state;
    if (state != RKLLM_RUN_NORMAL && state != RKLLM_RUN_WAITING)
        pthread_cond_signal(&ended);
    pthread_mutex_unlock(&lock);
    return 0;
}

/* A token per byte. */
static int on_text(void *userdata, const char *text, int32_t size, int32_t *tokens, int32_t room)
{
    (void)userdata;
    CHECK(room == size + 2 && strlen(text) == (size_t)size);
    for (int i = 0; i < size; i++)
        tokens[i] = (unsigned char)text[i];
    return size;
}

static int on_embed(void *userdata, int32_t *tokens, uint64_t count, void *embed, uint64_t size)
{
    (void)userdata;
    CHECK(size == count * HIDDEN * 2);
    for (uint64_t i = 0; i < count; i++)
        memcpy((char *)embed + i * HIDDEN * 2, table + (size_t)tokens[i] * HIDDEN, HIDDEN * 2);
    return 0;
}

/* The order of half floats, as that of numbers. */
static int key(uint16_t half)
{
    return half & 0x8000 ? -(half & 0x7fff) : half;
}

static int on_logits(void *userdata, float16 *logits, char *name)
{
    int best = 0;
    CHECK(!userdata && strcmp(name, "logits") == 0);
    for (int i = 1; i < VOCAB; i++)
        if (key(logits[i]) > key(logits[best]))
            best = i;
    return best;
}

static int on_output(void *userdata, rknn3_tensor *tensors, uint32_t count, LLMOutputCallbackState state)
{
    (void)userdata, (void)tensors;
    CHECK(count == 1);
    outputs_seen++;
    last_output_state = state;
    return 0;
}

static void show(const char *name)
{
    printf("%s %d:", name, last_state);
    for (int i = 0; i < n_ids; i++)
        printf(" %d", ids[i]);
    putchar('\n');
    n_ids = 0;
}

static void run(const char *name, rknn3_llm_input *inputs, uint32_t count, int keep, int most)
{
    rknn3_llm_infer_param param;
    ZERO(param);
    param.keep_history = keep;
    param.max_new_tokens = most;
    OK(rknn3_session_run(session, inputs, count, &param));
    show(name);
}

static rknn3_llm_input prompt(const char *text)
{
    rknn3_llm_input input;
    ZERO(input);
    input.role = "user";
    input.input_type = RKNN3_LLM_INPUT_PROMPT;
    input.llm_input.prompt = text;
    return input;
}

static void feeds(void)
{
    static int32_t tokens[] = {'c', 'o', 'm', 'p', 'a', 'r', 'e'};
    uint16_t rows[7 * HIDDEN];
    rknn3_llm_input input = prompt("hello there");
    run("prompt", &input, 1, 0, 8);
    input = prompt("and more");
    run("history", &input, 1, 1, 6);
    ZERO(input);
    input.input_type = RKNN3_LLM_INPUT_TOKEN;
    input.llm_input.tokens = tokens;
    input.llm_input.n_tokens = 7;
    run("tokens", &input, 1, 0, 5);
    on_embed(NULL, tokens, 7, rows, sizeof rows);
    ZERO(input);
    input.input_type = RKNN3_LLM_INPUT_EMBED;
    input.llm_input.embed = rows;
    input.llm_input.n_tokens = 7;
    run("embeddings", &input, 1, 0, 5);
    ZERO(input);
    input.role = "user";
    input.input_type = RKNN3_LLM_INPUT_MULTIMODAL;
    input.multimodal_input.prompt = "<image>what?";
    input.multimodal_input.image.image_embed = rows;
    input.multimodal_input.image.n_image = 1;
    input.multimodal_input.image.n_image_tokens = 7;
    input.multimodal_input.image.image_start = "[";
    input.multimodal_input.image.image_end = "]";
    input.multimodal_input.image.image_content = "~";
    run("image", &input, 1, 0, 5);
    FAILS(rknn3_session_run(session, &input, 1, NULL));
    input.multimodal_input.image.image_embed = NULL;
    rknn3_llm_infer_param param;
    ZERO(param);
    param.max_new_tokens = 4;
    CODE(RKNN3_ERR_INPUT_INVALID, rknn3_session_run(session, &input, 1, &param));
}

static void settings(const char *folder)
{
    RKLLMRunState state;
    rknn3_kvcache_policy_param policy;
    char path[4096];
    rknn3_lora *loras;
    int n_loras = 9;
    rknn3_llm_input input = prompt("one");
    OK(rknn3_session_set_chat_template(session, "Be brief.\n", "Q: ", "\nA: "));
    run("template", &input, 1, 0, 5);
    OK(rknn3_session_query_state(session, &state));
    printf("state %llu %llu %llu %llu %d\n", (unsigned long long)state.n_total_tokens, (unsigned long long)state.n_max_tokens,
           (unsigned long long)state.n_decode_tokens, (unsigned long long)state.n_prefill_tokens, (int)state.kvcache_policy);
    snprintf(path, sizeof path, "%s/cache", folder);
    OK(rknn3_session_save_kvcache(session, path));
    OK(rknn3_session_clear_kvcache(session, RKNN3_KVCACHE_CLEAR_ALL));
    OK(rknn3_session_query_state(session, &state));
    CHECK(state.n_total_tokens == 0);
    OK(rknn3_session_load_kvcache(session, path, 0));
    input = prompt("two");
    run("loaded", &input, 1, 1, 5);
    ZERO(policy);
    policy.recurrent.n_keep = 4;
    OK(rknn3_session_set_kvcache_policy(session, RKNN3_KVCACHE_POLICY_NORMAL, &policy));
    OK(rknn3_session_query_state(session, &state));
    CHECK(state.kvcache_policy == RKNN3_KVCACHE_POLICY_NORMAL);
    OK(rknn3_session_set_function_tools(
        session, "[{\"type\": \"function\", \"function\": {\"name\": \"now\", \"description\": \"the time\"}}]"));
    FAILS(rknn3_session_set_function_tools(session, "{"));
    OK(rknn3_session_query_lora(session, &loras, &n_loras));
    CHECK(n_loras == 0 && !loras);
}

static RKLLMCallback callbacks(void)
{
    RKLLMCallback calls;
    ZERO(calls);
    calls.result_callback = on_result;
    calls.result_userdata = &session;
    calls.tokenizer_callback = on_text;
    calls.embed_callback = on_embed;
    return calls;
}

static void other_callbacks(rknn3_context context)
{
    RKLLMCallback calls = callbacks();
    struct io hidden;
    rknn3_llm_input input = prompt("sampled");
    calls.sampling_callback = on_logits;
    OK(rknn3_session_set_callback(session, &calls));
    run("sampled", &input, 1, 0, 6);
    calls.sampling_callback = NULL;
    make(context, RKNN3_QUERY_OUTPUT_ATTR, 1, &hidden);
    calls.output_callback = on_output;
    calls.output_tensors = &hidden.tensor;
    calls.n_output_tensors = 1;
    OK(rknn3_session_set_callback(session, &calls));
    run("outputs", &input, 1, 0, 6);
    printf("seen %d %d:", outputs_seen, last_output_state);
    for (int i = 0; i < HIDDEN; i++)
        printf(" %u", ((uint16_t *)hidden.tensor.mem->virt_addr)[i]);
    putchar('\n');
    calls = callbacks();
    OK(rknn3_session_set_callback(session, &calls));
    OK(rknn3_destroy_mem(context, hidden.tensor.mem));
}

static void stops(void)
{
    rknn3_llm_input input = prompt("stop");
    stop_after = 3;
    run("stopped", &input, 1, 0, 40);
    CHECK(in_callback > 0);
    stop_after = 0;
}

static void async(void)
{
    rknn3_llm_infer_param param;
    rknn3_llm_input input = prompt("later");
    ZERO(param);
    param.max_new_tokens = 6;
    last_state = -1;
    OK(rknn3_session_run_async(session, &input, 1, &param));
    pthread_mutex_lock(&lock);
    while (last_state < RKLLM_RUN_FINISH)
        pthread_cond_wait(&ended, &lock);
    show("async");
    last_state = -1;
    pthread_mutex_unlock(&lock);
    input.llm_input.prompt = NULL;
    CODE(RKNN3_ERR_INPUT_INVALID, rknn3_session_run_async(session, &input, 1, &param));
    input = prompt("never");
    param.max_new_tokens = 0; /* found out in the thread: the callback hears the error */
    OK(rknn3_session_run_async(session, &input, 1, &param));
    pthread_mutex_lock(&lock);
    while (last_state < RKLLM_RUN_FINISH)
        pthread_cond_wait(&ended, &lock);
    CHECK(last_state == RKLLM_RUN_ERROR);
    pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
    char path[4096];
    rknn3_llm_config config;
    rknn3_llm_param param;
    rknn3_context context = 0;
    CHECK(argc == 3);
    snprintf(path, sizeof path, "%s.embed.bin", argv[1]);
    table = (uint16_t *)load(NULL, path, NULL);
    snprintf(path, sizeof path, "%s.rknn", argv[1]);
    char weights[4096];
    snprintf(weights, sizeof weights, "%s.weight", argv[1]);
    OK(rknn3_init(&context, NULL));
    OK(rknn3_load_model_from_path(context, path, weights));
    OK(rknn3_model_init(context, NULL));
    OK(rknn3_query(context, RKNN3_QUERY_LLM_CONFIG, &config, sizeof config));
    CHECK(config.vocab_size == VOCAB && config.embedding_dim == HIDDEN && strcmp(config.model_type, "qwen2") == 0);
    CHECK(strstr(config.chat_template, "message"));

    ZERO(param);
    param.logits_name = (char *)"logits";
    param.max_context_len = 256;
    param.sampling_param.top_k = 1;
    param.sampling_param.top_p = 1;
    param.sampling_param.temperature = 1;
    param.sampling_param.repeat_penalty = 1;
    param.vocab_info.vocab_size = VOCAB;
    param.vocab_info.ignore_eos_token = true;
    session = rknn3_session_init(context, &param, 1);
    CHECK(session);
    RKLLMCallback calls = callbacks();
    OK(rknn3_session_set_callback(session, &calls));
    feeds();
    other_callbacks(context);
    stops();
    async();
    settings(argv[2]);
    param.sampling_param.repeat_penalty = 1.5f;
    OK(rknn3_session_clear_kvcache(session, RKNN3_KVCACHE_CLEAR_ALL));
    OK(rknn3_session_set_llm_param(session, &param, 1));
    rknn3_llm_input input = prompt("penalty");
    run("penalty", &input, 1, 0, 8);
    OK(rknn3_session_destroy(session));
    CODE(RKNN3_ERR_CTX_INVALID, rknn3_session_destroy(session));
    OK(rknn3_destroy(context));
    return 0;
}
