/* faults MODEL FOLDER: what a wrong program gets to hear. The genuine library crashes on some of these handles; this one never does. */
#include "check.h"

static rknn_context opened(const char *path)
{
    rknn_context context = 0;
    OK(rknn_init(&context, (void *)path, 0, 0, NULL));
    return context;
}

static void models(const char *path)
{
    rknn_context context = 77;
    size_t size;
    char garbage[4096], *model = (char *)load(NULL, path, &size);
    memset(garbage, 'x', sizeof garbage);
    FAILS(rknn_init(&context, garbage, sizeof garbage, 0, NULL));
    CODE(RKNN_ERR_MODEL_INVALID, rknn_init(&context, garbage, 3, 0, NULL));
    CODE(RKNN_ERR_MODEL_INVALID, rknn_init(&context, model, (uint32_t)size / 2, 0, NULL)); /* cut off */
    FAILS(rknn_init(&context, (void *)"/nowhere/there is no such.rknn", 0, 0, NULL));
    CODE(RKNN_ERR_PARAM_INVALID, rknn_init(&context, NULL, 0, 0, NULL));
    CODE(RKNN_ERR_PARAM_INVALID, rknn_init(NULL, model, (uint32_t)size, 0, NULL));
    OK(rknn_init(&context, model, (uint32_t)size, 0, NULL)); /* all that harmed nothing */
    OK(rknn_destroy(context));
    free(model);
}

static void queries(rknn_context context)
{
    rknn_tensor_attr attr;
    rknn_input_output_num number;
    rknn_input_range *range = (rknn_input_range *)calloc(1, sizeof *range);
    unsigned char large[sizeof(rknn_tensor_attr) + 64];
    memset(&attr, 0, sizeof attr);
    memset(large, 0, sizeof large);
    CODE(RKNN_ERR_PARAM_INVALID, rknn_query(context, RKNN_QUERY_INPUT_ATTR, NULL, sizeof attr));
    CODE(RKNN_ERR_PARAM_INVALID, rknn_query(context, RKNN_QUERY_CMD_MAX, &attr, sizeof attr));
    CODE(RKNN_ERR_PARAM_INVALID, rknn_query(context, (rknn_query_cmd)99, &attr, sizeof attr));
    CODE(RKNN_ERR_PARAM_INVALID, rknn_query(context, (rknn_query_cmd)-1, &attr, sizeof attr));
    CODE(RKNN_ERR_PARAM_INVALID, rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &number, sizeof number - 1));
    CODE(RKNN_ERR_PARAM_INVALID, rknn_query(context, RKNN_QUERY_INPUT_ATTR, &attr, 368));
    OK(rknn_query(context, RKNN_QUERY_INPUT_ATTR, large, sizeof large)); /* a program of a newer header */
    attr.index = 9;
    CODE(RKNN_ERR_PARAM_INVALID, rknn_query(context, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr));
    CODE(RKNN_ERR_PARAM_INVALID, rknn_query(context, RKNN_QUERY_NATIVE_OUTPUT_ATTR, &attr, sizeof attr));
    CODE(RKNN_ERR_MODEL_INVALID, rknn_query(context, RKNN_QUERY_INPUT_DYNAMIC_RANGE, range, sizeof *range));
    free(range);
}

static void frames(rknn_context context, const char *folder)
{
    size_t size;
    void *data = load(folder, "in0.u8", &size);
    rknn_input input = given(0, data, size, RKNN_TENSOR_UINT8, RKNN_TENSOR_NHWC), wrong;
    rknn_output outputs[99];
    memset(outputs, 0, sizeof outputs);
    OK(rknn_run(context, NULL)); /* the vendor's runtime computes something, too */
    OK(rknn_inputs_set(context, 0, NULL));
    CODE(RKNN_ERR_PARAM_INVALID, rknn_inputs_set(context, 1, NULL));
    wrong = input;
    wrong.buf = NULL;
    FAILS(rknn_inputs_set(context, 1, &wrong));
    wrong = input;
    wrong.index = 4;
    FAILS(rknn_inputs_set(context, 1, &wrong));
    wrong = input;
    wrong.size -= 1;
    CODE(RKNN_ERR_PARAM_INVALID, rknn_inputs_set(context, 1, &wrong)); /* as librknnrt 2.3.2 */
    wrong = input;
    wrong.type = (rknn_tensor_type)55;
    FAILS(rknn_inputs_set(context, 1, &wrong));
    wrong = input;
    wrong.fmt = (rknn_tensor_format)55;
    FAILS(rknn_inputs_set(context, 1, &wrong));

    OK(rknn_inputs_set(context, 1, &input));
    OK(rknn_run(context, NULL));
    CODE(RKNN_ERR_PARAM_INVALID, rknn_outputs_get(context, 99, outputs, NULL));
    CODE(RKNN_ERR_PARAM_INVALID, rknn_outputs_get(context, 1, NULL, NULL));
    char small[4];
    outputs[0].want_float = outputs[0].is_prealloc = 1;
    outputs[0].buf = small;
    outputs[0].size = sizeof small;
    FAILS(rknn_outputs_get(context, 1, outputs, NULL));
    FAILS(rknn_set_core_mask(context, (rknn_core_mask)99));
    FAILS(rknn_set_input_shapes(context, 1, NULL));
    frame(context, folder, "in0.u8", "out0.f32"); /* nothing of this disturbs the next frame */
    free(data);
}

static void memories(rknn_context context)
{
    rknn_tensor_attr attr = attr_of(context, RKNN_QUERY_NATIVE_INPUT_ATTR, 0), wrong;
    rknn_tensor_mem fake, *mem = rknn_create_mem(context, attr.size_with_stride);
    rknn_context other = 0;
    memset(&fake, 0x5a, sizeof fake);
    CHECK(mem && !rknn_create_mem(context, 0) && !rknn_create_mem(context + 1000, 64));
    CHECK(!rknn_create_mem_from_mb_blk(context, &fake, 0));
    FAILS(rknn_set_io_mem(context, NULL, &attr));
    FAILS(rknn_set_io_mem(context, mem, NULL));
    FAILS(rknn_set_io_mem(context, &fake, &attr)); /* memory that never was */
    wrong = attr;
    wrong.index = 9;
    strcpy(wrong.name, "there is none");
    FAILS(rknn_set_io_mem(context, mem, &wrong));
    wrong = attr;
    wrong.type = RKNN_TENSOR_INT64;
    FAILS(rknn_set_io_mem(context, mem, &wrong));
    rknn_tensor_mem *small = rknn_create_mem(context, attr.size_with_stride / 2);
    FAILS(rknn_set_io_mem(context, small, &attr));
    FAILS(rknn_set_internal_mem(context, NULL));
    FAILS(rknn_mem_sync(context, mem, (rknn_mem_sync_mode)9));
    FAILS(rknn_mem_sync(context, NULL, RKNN_MEMORY_SYNC_TO_DEVICE));
    FAILS(rknn_destroy_mem(context, NULL));
    FAILS(rknn_destroy_mem(context, &fake));
    OK(rknn_destroy_mem(context, small));
    OK(rknn_destroy_mem(context, mem));
    FAILS(rknn_destroy_mem(context, mem)); /* stale from here on */
    FAILS(rknn_set_io_mem(context, mem, &attr));
    FAILS(rknn_mem_sync(context, mem, RKNN_MEMORY_SYNC_TO_DEVICE));
    (void)other;
}

/* Every function with a context that never was, and with one that was. */
static void stale(rknn_context context)
{
    rknn_tensor_attr attr;
    rknn_context out = 0;
    rknn_input input;
    rknn_output output;
    rknn_tensor_mem mem;
    rknn_run_extend extend;
    memset(&attr, 0, sizeof attr);
    memset(&input, 0, sizeof input);
    memset(&output, 0, sizeof output);
    memset(&mem, 0, sizeof mem);
    memset(&extend, 0, sizeof extend);
    CODE(RKNN_ERR_CTX_INVALID, rknn_query(context, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr));
    CODE(RKNN_ERR_CTX_INVALID, rknn_inputs_set(context, 1, &input));
    CODE(RKNN_ERR_CTX_INVALID, rknn_run(context, NULL));
    CODE(RKNN_ERR_CTX_INVALID, rknn_wait(context, &extend));
    CODE(RKNN_ERR_CTX_INVALID, rknn_outputs_get(context, 1, &output, NULL));
    CODE(RKNN_ERR_CTX_INVALID, rknn_outputs_release(context, 1, &output));
    CODE(RKNN_ERR_CTX_INVALID, rknn_set_core_mask(context, RKNN_NPU_CORE_AUTO));
    CODE(RKNN_ERR_CTX_INVALID, rknn_set_batch_core_num(context, 1));
    CODE(RKNN_ERR_CTX_INVALID, rknn_set_input_shapes(context, 1, &attr));
    CODE(RKNN_ERR_CTX_INVALID, rknn_set_io_mem(context, &mem, &attr));
    CODE(RKNN_ERR_CTX_INVALID, rknn_set_weight_mem(context, &mem));
    CODE(RKNN_ERR_CTX_INVALID, rknn_set_internal_mem(context, &mem));
    CODE(RKNN_ERR_CTX_INVALID, rknn_dup_context(&context, &out));
    CODE(RKNN_ERR_CTX_INVALID, rknn_destroy(context));
    CHECK(!rknn_create_mem(context, 64) && !rknn_create_mem_from_fd(context, 0, NULL, 64, 0));
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    models(argv[1]);
    rknn_context context = opened(argv[1]);
    queries(context);
    frames(context, argv[2]);
    OK(rknn_destroy(context));
    context = opened(argv[1]);
    memories(context);
    OK(rknn_destroy(context));
    stale(context);
    stale(0);
    stale((rknn_context)0x12345678u);
    rknn_context again = opened(argv[1]); /* a new context is not the old one */
    CHECK(again != context);
    stale(context);
    OK(rknn_destroy(again));
    return 0;
}
