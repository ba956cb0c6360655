/* attributes MODEL FOLDER: an operator with attributes of every kind, float and int64 tensors, in several contexts at once. */
#include <pthread.h>

#include "check.h"
#include "rknn_custom_op.h"

static const char *model, *folder;

static int is(rknn_custom_op_context *context, const char *name, rknn_tensor_type type, uint32_t count, const void *value,
              size_t size)
{
    rknn_custom_op_attr attr;
    memset(&attr, 0x33, sizeof attr);
    rknn_custom_op_get_op_attr(context, name, &attr);
    return attr.dtype == type && attr.n_elems == count && !strcmp(attr.name, name) && !memcmp(attr.data, value, size);
}

static int op_init(rknn_custom_op_context *context, rknn_custom_op_tensor *in, uint32_t n_in, rknn_custom_op_tensor *out,
                   uint32_t n_out)
{
    static const float alpha = 0.25f, floats[2] = {0.5f, -1.25f};
    static const int64_t n = -7, ints[3] = {1, -2, 3};
    CHECK(n_in == 2 && n_out == 2);
    CHECK(is(context, "alpha", RKNN_TENSOR_FLOAT32, 1, &alpha, sizeof alpha));
    CHECK(is(context, "floats", RKNN_TENSOR_FLOAT32, 2, floats, sizeof floats));
    CHECK(is(context, "n", RKNN_TENSOR_INT64, 1, &n, sizeof n));
    CHECK(is(context, "ints", RKNN_TENSOR_INT64, 3, ints, sizeof ints));
    CHECK(is(context, "s", RKNN_TENSOR_UINT8, 4, "word", 4));
    CHECK(in[0].attr.type == RKNN_TENSOR_FLOAT32 && in[0].attr.n_dims == 4 && in[0].attr.fmt == RKNN_TENSOR_NCHW);
    CHECK(in[1].attr.type == RKNN_TENSOR_INT64 && in[1].attr.fmt == RKNN_TENSOR_UNDEFINED && in[1].attr.size == 64);
    CHECK(out[1].attr.type == RKNN_TENSOR_INT64 && out[1].attr.index == 1);
    return 0;
}

static void *data(const rknn_custom_op_tensor *tensor)
{
    return (char *)tensor->mem.virt_addr + tensor->mem.offset;
}

static int op_compute(rknn_custom_op_context *context, rknn_custom_op_tensor *in, uint32_t n_in, rknn_custom_op_tensor *out,
                      uint32_t n_out)
{
    (void)context;
    CHECK(n_in == 2 && n_out == 2);
    const float *x = (const float *)data(&in[0]);
    const int64_t *i = (const int64_t *)data(&in[1]);
    for (uint32_t k = 0; k < in[0].attr.n_elems; k++) {
        volatile float product = x[k] * 1.0003f; /* rounded before the sum, as numpy does */
        ((float *)data(&out[0]))[k] = product + 0.3f;
    }
    for (uint32_t k = 0; k < in[1].attr.n_elems; k++)
        ((int64_t *)data(&out[1]))[k] = i[k] + 1;
    return 0;
}

static void *work(void *unused)
{
    (void)unused;
    rknn_context context = 0;
    rknn_custom_op op;
    size_t sizes[2];
    void *given_data[2] = {load(folder, "in0.f32", &sizes[0]), load(folder, "in1.i64", &sizes[1])};
    memset(&op, 0, sizeof op);
    op.version = 1;
    op.target = RKNN_TARGET_TYPE_CPU;
    strcpy(op.op_type, "cstProbe");
    op.init = op_init;
    op.compute = op_compute;
    OK(rknn_init(&context, (void *)model, 0, 0, NULL));
    OK(rknn_register_custom_ops(context, &op, 1));
    for (int round = 0; round < 3; round++) {
        rknn_input inputs[2] = {
            given(0, given_data[0], sizes[0], RKNN_TENSOR_FLOAT32, RKNN_TENSOR_NHWC),
            given(1, given_data[1], sizes[1], RKNN_TENSOR_INT64, RKNN_TENSOR_UNDEFINED),
        };
        rknn_output outputs[4];
        memset(outputs, 0, sizeof outputs);
        for (uint32_t i = 0; i < 4; i++) {
            outputs[i].index = i;
            outputs[i].want_float = 1;
        }
        OK(rknn_inputs_set(context, 2, inputs));
        OK(rknn_run(context, NULL));
        OK(rknn_outputs_get(context, 4, outputs, NULL));
        for (int i = 0; i < 4; i++) {
            char name[20]; /* of any int, for gcc with UBSan */
            snprintf(name, sizeof name, "out%d.f32", i);
            same(folder, name, outputs[i].buf, outputs[i].size);
        }
        OK(rknn_outputs_release(context, 4, outputs));
    }
    OK(rknn_destroy(context));
    free(given_data[0]);
    free(given_data[1]);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[3];
    CHECK(argc == 3);
    model = argv[1];
    folder = argv[2];
    for (int i = 0; i < 3; i++)
        CHECK(!pthread_create(&threads[i], NULL, work, NULL));
    for (int i = 0; i < 3; i++)
        CHECK(!pthread_join(threads[i], NULL));
    return 0;
}
