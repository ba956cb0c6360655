/* common_path MODEL FOLDER: two images in, two maps out, in every type that the common path takes. */
#include "check.h"

static rknn_context opened(const char *path, int from_memory)
{
    rknn_context context = 0;
    size_t size;
    if (!from_memory) {
        OK(rknn_init(&context, (void *)path, 0, 0, NULL));
        return context;
    }
    void *model = load(NULL, path, &size);
    OK(rknn_init(&context, model, (uint32_t)size, RKNN_FLAG_PRIOR_MEDIUM, NULL));
    memset(model, 0, size); /* the caller's from here on */
    free(model);
    return context;
}

static void infer(rknn_context context, rknn_input *inputs, const char *folder, const char *const *names, int want_float,
                  int prealloc)
{
    rknn_output outputs[2];
    float buffers[2][1024];
    memset(outputs, 0, sizeof outputs);
    for (uint32_t i = 0; i < 2; i++) {
        rknn_tensor_attr attr = attr_of(context, RKNN_QUERY_OUTPUT_ATTR, i);
        outputs[i].index = i;
        outputs[i].want_float = (uint8_t)want_float;
        outputs[i].is_prealloc = (uint8_t)prealloc;
        if (prealloc) {
            outputs[i].buf = buffers[i];
            outputs[i].size = attr.n_elems * (want_float ? 4 : 1);
        }
    }
    OK(rknn_inputs_set(context, 2, inputs));
    OK(rknn_run(context, NULL));
    OK(rknn_outputs_get(context, 2, outputs, NULL));
    for (int i = 0; i < 2; i++) {
        CHECK((outputs[i].buf == buffers[i]) == prealloc);
        same(folder, names[i], outputs[i].buf, outputs[i].size);
    }
    OK(rknn_outputs_release(context, 2, outputs));
    CHECK(!prealloc || outputs[0].buf == buffers[0]);
}

int main(int argc, char **argv)
{
    static const char *const floats[] = {"out0.f32", "out1.f32"}, *const bytes[] = {"out0.i8", "out1.i8"},
                             *const of_floats[] = {"of_floats0.f32", "of_floats1.f32"},
                             *const of_int8[] = {"of_int80.f32", "of_int81.f32"};
    CHECK(argc == 3);
    const char *folder = argv[2];

    for (int from_memory = 0; from_memory < 2; from_memory++) {
        rknn_context context = opened(argv[1], from_memory);
        rknn_input_output_num number;
        OK(rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &number, sizeof number));
        CHECK(number.n_input == 2 && number.n_output == 2);

        rknn_input images[2], reals[2], stored[2];
        for (uint32_t i = 0; i < 2; i++) {
            rknn_tensor_attr attr = attr_of(context, RKNN_QUERY_INPUT_ATTR, i);
            CHECK(attr.n_dims == 4 && attr.fmt == RKNN_TENSOR_NHWC && attr.type == RKNN_TENSOR_INT8);
            CHECK(attr.dims[1] == 12 && attr.dims[2] == 16 && attr.dims[3] == 3 + i && attr.size == attr.n_elems);
            CHECK(attr.qnt_type == RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC && attr.scale > 0);
            size_t size;
            void *data = load(folder, i ? "in1.u8" : "in0.u8", &size);
            CHECK(size == attr.n_elems);
            images[i] = given(i, data, size, RKNN_TENSOR_UINT8, RKNN_TENSOR_NHWC);
            data = load(folder, i ? "in1.f32" : "in0.f32", &size);
            reals[i] = given(i, data, size, RKNN_TENSOR_FLOAT32, RKNN_TENSOR_NHWC);
            data = load(folder, i ? "in1.i8" : "in0.i8", &size);
            stored[i] = given(i, data, size, RKNN_TENSOR_INT8, RKNN_TENSOR_NHWC);
            stored[i].pass_through = 1;
        }
        infer(context, images, folder, floats, 1, 0);
        infer(context, images, folder, bytes, 0, 0);
        infer(context, images, folder, floats, 1, 1);
        infer(context, images, folder, bytes, 0, 1);
        infer(context, reals, folder, of_floats, 1, 1);
        infer(context, stored, folder, of_int8, 1, 0);

        rknn_input turned[2] = {images[1], images[0]}; /* the index counts, not the place */
        infer(context, turned, folder, floats, 1, 0);
        for (int i = 0; i < 2; i++) {
            free(images[i].buf);
            free(reals[i].buf);
            free(stored[i].buf);
        }
        OK(rknn_destroy(context));
    }
    return 0;
}
