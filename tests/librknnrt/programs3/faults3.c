/* Everything that a program may do wrong, and a server that is killed while it waits: codes, and nothing hangs. */
#include "check3.h"

#include <stddef.h>

static void models(const char *model, const char *language_model)
{
    rknn3_context context = 0;
    rknn3_init_extend extend;
    char junk[64] = "junk";
    ZERO(extend);
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_init(NULL, NULL));
    extend.device_id = (char *)"0001:11:00.0";
    CODE(RKNN3_ERR_DEVICE_UNAVAILABLE, rknn3_init(&context, &extend));
    OK(rknn3_init(&context, NULL));
    CODE(RKNN3_ERR_CTX_INVALID, rknn3_model_init(context, NULL));
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_load_model_from_path(context, NULL, NULL));
    CODE(RKNN3_ERR_MODEL_INVALID, rknn3_load_model_from_path(context, "/nowhere.rknn", NULL));
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_load_model_from_data(context, NULL, 5, NULL, 0));
    CODE(RKNN3_ERR_MODEL_INVALID, rknn3_load_model_from_data(context, (void *)64, 4096, NULL, 0));
    OK(rknn3_load_model_from_data(context, junk, sizeof junk, NULL, 0));
    CODE(RKNN3_ERR_MODEL_INVALID, rknn3_model_init(context, NULL));
    CODE(RKNN3_ERR_CTX_INVALID, rknn3_run_async(context, NULL, 0, NULL, 0) == RKNN3_ERR_ARGUMENT_INVALID
                                    ? rknn3_wait(context)
                                    : 0);
    OK(rknn3_load_model_from_path(context, model, NULL));
    OK(rknn3_model_init(context, NULL));
    CODE(RKNN3_ERR_CTX_INVALID, rknn3_model_init(context, NULL));
    CHECK(rknn3_session_init(context, NULL, 1) == NULL);
    OK(rknn3_destroy(context));
    CODE(RKNN3_ERR_CTX_INVALID, rknn3_destroy(context));
    CODE(RKNN3_ERR_CTX_INVALID, rknn3_destroy(0));
    (void)language_model;
}

static void questions(rknn3_context context)
{
    rknn3_tensor_attr attr;
    char later[584] = {0}, config[408];
    rknn3_input_output_num number;
    ZERO(attr);
    attr.index = 99;
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_query(context, RKNN3_QUERY_INPUT_ATTR, &attr, sizeof attr));
    attr.index = 0;
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_query(context, RKNN3_QUERY_INPUT_ATTR, &attr, sizeof attr - 1));
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_query(context, RKNN3_QUERY_INPUT_ATTR, NULL, sizeof attr));
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_query(context, RKNN3_QUERY_IN_OUT_NUM, &number, 4));
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_query(context, (rknn3_query_cmd)77, &number, sizeof number));
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_query(context, RKNN3_QUERY_LLM_CONFIG, config, sizeof config));
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_query(context, RKNN3_QUERY_POSTPROCESS_OUTPUT_ATTR, &attr, sizeof attr));
    OK(rknn3_query(context, RKNN3_QUERY_INPUT_ATTR, &attr, sizeof attr));
    OK(rknn3_query(context, RKNN3_QUERY_INPUT_ATTR, later, sizeof later)); /* of the later header */
    CHECK(memcmp(later, &attr, offsetof(rknn3_tensor_attr, core_id)) == 0);
}

static void memory(rknn3_context context, struct net *net)
{
    rknn3_tensor bad = net->in[0].tensor;
    rknn3_tensor_mem stranger;
    ZERO(stranger);
    CHECK(!rknn3_create_mem(context, 0, 0, RKNN3_FLAG_MEMORY_FLAGS_DEFAULT));
    CHECK(!rknn3_create_mem(context, 16, 99, RKNN3_FLAG_MEMORY_FLAGS_DEFAULT));
    CHECK(!rknn3_create_mem(12345, 16, 0, RKNN3_FLAG_MEMORY_FLAGS_DEFAULT));
    CHECK(!rknn3_create_mem_from_fd(context, -1, NULL, 16, 0));
    CHECK(!rknn3_create_mem_from_phys(context, 4096, NULL, 16));
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_destroy_mem(context, NULL));
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_destroy_mem(context, &stranger));
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_mem_sync(context, &stranger, RKNN3_MEMORY_SYNC_TO_DEVICE));
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_mem_sync(context, bad.mem, (rknn3_mem_sync_mode)9));
    bad.mem = &stranger;
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_run(context, &bad, 1, &net->out[0].tensor, 1));
    bad.mem = NULL;
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_run(context, &bad, 1, &net->out[0].tensor, 1));
    bad.mem = rknn3_create_mem(context, 16, 0, RKNN3_FLAG_MEMORY_FLAGS_DEFAULT);
    CODE(RKNN3_ERR_INPUT_INVALID, rknn3_run(context, &bad, 1, &net->out[0].tensor, 1));
    rknn3_tensor small = net->out[0].tensor;
    small.mem = bad.mem;
    CODE(RKNN3_ERR_OUTPUT_INVALID, rknn3_run(context, &net->in[0].tensor, 1, &small, 1));
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_run(context, NULL, 1, &small, 1));
    OK(rknn3_destroy_mem(context, bad.mem));
    CODE(RKNN3_ERR_ARGUMENT_INVALID, rknn3_destroy_mem(context, bad.mem));
}

static void sessions(rknn3_context network)
{
    rknn3_session *stale = (rknn3_session *)(uintptr_t)4711;
    rknn3_llm_param param;
    RKLLMRunState state;
    ZERO(param);
    CHECK(!rknn3_session_init(network, &param, 1)); /* it is no language model */
    CHECK(!rknn3_session_init(0, &param, 1));
    CODE(RKNN3_ERR_CTX_INVALID, rknn3_session_destroy(stale));
    CODE(RKNN3_ERR_CTX_INVALID, rknn3_session_destroy(NULL));
    CODE(RKNN3_ERR_CTX_INVALID, rknn3_session_destroy((rknn3_session *)(uintptr_t)network));
    CODE(RKNN3_ERR_CTX_INVALID, rknn3_session_stop(stale));
    CODE(RKNN3_ERR_CTX_INVALID, rknn3_session_query_state(stale, &state));
    CODE(RKNN3_ERR_CTX_INVALID, rknn3_session_clear_kvcache(stale, RKNN3_KVCACHE_CLEAR_ALL));
    FAILS(rknn3_session_enable_lora(stale, NULL));
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    models(argv[1], argv[2]);
    struct net net = {.context = opened(argv[1])};
    tensors(&net);
    questions(net.context);
    memory(net.context, &net);
    sessions(net.context);
    run_net(&net, argv[3], "", false);
    puts("kill");
    fflush(stdout);
    CHECK(getchar() == 'k'); /* whoever started this has killed the server */
    CODE(RKNN3_ERR_DEVICE_UNAVAILABLE, rknn3_run(net.context, &net.in[0].tensor, 1, &net.out[0].tensor, 1));
    CODE(RKNN3_ERR_DEVICE_UNAVAILABLE, rknn3_set_shape(net.context, 0));
    OK(rknn3_destroy(net.context));
    give_back(&net);
    net.context = opened(argv[1]);
    tensors(&net);
    run_net(&net, argv[3], "", false);
    OK(rknn3_destroy(net.context));
    return 0;
}
