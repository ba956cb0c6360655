/* custom_ops MODEL FOLDER: an operator of the program's own, called back while rknn_run waits. */
#include "check.h"
#include "rknn_custom_op.h"

RKNN_CUSTOM_OP_EXPORT rknn_custom_op *get_rknn_custom_op(void); /* as plugins declare it */

static char events[256];
static int fail_in_compute;
static float alpha_seen;
static void *private_seen;
static rknn_context synced_for;
static rknn_tensor_mem *synced;

static void note(const char *event)
{
    CHECK(strlen(events) + strlen(event) + 2 < sizeof events);
    strcat(events, event);
    strcat(events, " ");
}

static void expect(const char *wanted)
{
    if (strcmp(events, wanted)) {
        fprintf(stderr, "events were \"%s\", not \"%s\"\n", events, wanted);
        exit(1);
    }
    events[0] = 0;
}

static int op_init(rknn_custom_op_context *context, rknn_custom_op_tensor *in, uint32_t n_in, rknn_custom_op_tensor *out,
                   uint32_t n_out)
{
    rknn_custom_op_attr attr, absent;
    note("init");
    CHECK(n_in == 2 && n_out == 2 && context->target == RKNN_TARGET_TYPE_CPU);
    for (int i = 0; i < 2; i++) {
        CHECK(in[i].attr.type == RKNN_TENSOR_FLOAT32 && in[i].attr.fmt == RKNN_TENSOR_NCHW && in[i].attr.n_dims == 4);
        CHECK(in[i].attr.size == in[i].attr.n_elems * 4 && in[i].mem.size >= in[i].attr.size);
        CHECK(out[i].attr.n_elems == in[i].attr.n_elems);
    }
    memset(&attr, 0, sizeof attr);
    memset(&absent, 0x7f, sizeof absent);
    rknn_custom_op_get_op_attr(context, "alpha", &attr);
    CHECK(attr.n_elems == 1 && attr.dtype == RKNN_TENSOR_FLOAT32 && !strcmp(attr.name, "alpha"));
    memcpy(&alpha_seen, attr.data, sizeof alpha_seen);
    rknn_custom_op_get_op_attr(context, "there is none", &absent);
    CHECK(absent.n_elems == 0);
    context->priv_data = malloc(sizeof(float));
    memcpy(context->priv_data, &alpha_seen, sizeof alpha_seen);
    private_seen = context->priv_data;
    return 0;
}

static int op_prepare(rknn_custom_op_context *context, rknn_custom_op_tensor *in, uint32_t n_in, rknn_custom_op_tensor *out,
                      uint32_t n_out)
{
    (void)in, (void)out;
    note("prepare");
    CHECK(context->priv_data == private_seen && n_in == 2 && n_out == 2);
    if (synced) /* memory of the very context that runs */
        OK(rknn_mem_sync(synced_for, synced, RKNN_MEMORY_SYNC_BIDIRECTIONAL));
    return 0;
}

static float *floats(const rknn_custom_op_tensor *tensor)
{
    return (float *)((char *)tensor->mem.virt_addr + tensor->mem.offset);
}

static int op_compute(rknn_custom_op_context *context, rknn_custom_op_tensor *in, uint32_t n_in, rknn_custom_op_tensor *out,
                      uint32_t n_out)
{
    note("compute");
    CHECK(context->priv_data == private_seen && n_in == 2 && n_out == 2);
    if (fail_in_compute)
        return -1;
    const float alpha = *(const float *)context->priv_data, *x = floats(&in[0]), *y = floats(&in[1]);
    float *first = floats(&out[0]), *second = floats(&out[1]);
    for (uint32_t i = 0; i < in[0].attr.n_elems; i++) { /* separate statements: no fused multiplication */
        volatile float ax = alpha * x[i], ay = alpha * y[i];
        first[i] = ax - y[i];
        second[i] = ay - x[i];
    }
    return 0;
}

static int op_destroy(rknn_custom_op_context *context)
{
    note("destroy");
    CHECK(context->priv_data == private_seen);
    free(context->priv_data);
    return 0;
}

static int refuse(rknn_custom_op_context *context, rknn_custom_op_tensor *in, uint32_t n_in, rknn_custom_op_tensor *out,
                  uint32_t n_out)
{
    (void)context, (void)in, (void)n_in, (void)out, (void)n_out;
    note("refuse");
    return RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE;
}

static rknn_custom_op operator_of(const char *type)
{
    rknn_custom_op op;
    memset(&op, 0, sizeof op);
    op.version = 1;
    op.target = RKNN_TARGET_TYPE_CPU;
    strcpy(op.op_type, type);
    op.init = op_init;
    op.prepare = op_prepare;
    op.compute = op_compute;
    op.destroy = op_destroy;
    return op;
}

/* As a plugin would have it. */
RKNN_CUSTOM_OP_EXPORT rknn_custom_op *get_rknn_custom_op(void);
rknn_custom_op *get_rknn_custom_op(void)
{
    static rknn_custom_op op;
    op = operator_of("cstDualResidual");
    return &op;
}

static rknn_context opened(const char *model)
{
    rknn_context context = 0;
    OK(rknn_init(&context, (void *)model, 0, 0, NULL));
    return context;
}

static int infer(rknn_context context, const char *folder, const char *const *names)
{
    give_images(context, folder);
    int code = rknn_run(context, NULL);
    if (!code)
        same_outputs(context, folder, names);
    return code;
}

int main(int argc, char **argv)
{
    static const char *const golden[] = {"out0.f32", "out1.f32"};
    CHECK(argc == 3);

    /* Without its operator a model opens and cannot run. */
    rknn_context context = opened(argv[1]);
    CHECK(infer(context, argv[2], golden) == RKNN_ERR_FAIL);
    OK(rknn_destroy(context));

    /* Its life: init once, prepare and compute in each run, destroy with the context. */
    context = opened(argv[1]);
    get_custom_op_func entry = get_rknn_custom_op;
    rknn_custom_op ops[2] = {*entry(), operator_of("cstNotInThisModel")};
    OK(rknn_register_custom_ops(context, ops, 2));
    expect("init ");
    memset(ops, 0, sizeof ops); /* what was registered was copied */
    CHECK(alpha_seen == 0.5f);
    synced_for = context;
    CHECK((synced = rknn_create_mem(context, 64)) != NULL);
    CODE(0, infer(context, argv[2], golden));
    expect("prepare compute ");
    OK(rknn_destroy_mem(context, synced));
    synced = NULL;
    CODE(0, infer(context, argv[2], golden));
    expect("prepare compute ");
    fail_in_compute = 1;
    CHECK(infer(context, argv[2], golden) < 0);
    expect("prepare compute ");
    fail_in_compute = 0;
    CODE(0, infer(context, argv[2], golden)); /* a failure harms nothing that follows */
    events[0] = 0;
    OK(rknn_destroy(context));
    expect("destroy ");

    /* init may hand a standard type back to the runtime: everything is as without the operator. */
    context = opened(argv[1]);
    rknn_custom_op two[2] = {operator_of("cstDualResidual"), operator_of("Conv")};
    two[1].init = refuse;
    OK(rknn_register_custom_ops(context, two, 2));
    CHECK(strstr(events, "refuse") && strstr(events, "init"));
    events[0] = 0;
    CODE(0, infer(context, argv[2], golden));
    expect("prepare compute ");
    OK(rknn_destroy(context));
    events[0] = 0;

    /* Without prepare, init and destroy; and without compute, which is the one that must be there. */
    context = opened(argv[1]);
    rknn_custom_op bare = operator_of("cstDualResidual");
    bare.compute = NULL;
    FAILS(rknn_register_custom_ops(context, &bare, 1));
    FAILS(rknn_register_custom_ops(context, NULL, 1));
    OK(rknn_destroy(context));
    expect("");
    return 0;
}
