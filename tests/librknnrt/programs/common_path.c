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

/* Outputs of the last run, one call for each. */
static void fetch(rknn_context context, const char *folder, const char *const *names)
{
    for (uint32_t i = 0; i < 2; i++) {
        rknn_output output;
        memset(&output, 0, sizeof output);
        output.index = i;
        output.want_float = 1;
        OK(rknn_outputs_get(context, 1, &output, NULL));
        same(folder, names[i], output.buf, output.size);
        OK(rknn_outputs_release(context, 1, &output));
    }
}

/* A call for each input; and again for one alone, where the other one stays. */
static void one_by_one(rknn_context context, rknn_input *images, const char *folder, const char *const *names)
{
    for (int frame = 0; frame < 2; frame++) {
        OK(rknn_inputs_set(context, 1, &images[1]));
        OK(rknn_inputs_set(context, 1, &images[0]));
        OK(rknn_run(context, NULL));
        fetch(context, folder, names);
    }
    OK(rknn_inputs_set(context, 1, &images[1]));
    OK(rknn_run(context, NULL));
    fetch(context, folder, names);
}

/* Memory for one input and one output, calls for the others. What comes last counts for an input. */
static void half(const char *path, rknn_input *images, const char *folder, const char *const *names)
{
    rknn_context context = opened(path, 0);
    rknn_tensor_attr in = attr_of(context, RKNN_QUERY_INPUT_ATTR, 0), out = attr_of(context, RKNN_QUERY_OUTPUT_ATTR, 1);
    in.type = RKNN_TENSOR_UINT8;
    out.type = RKNN_TENSOR_FLOAT32;
    rknn_tensor_mem *from = rknn_create_mem(context, in.size_with_stride), *to = rknn_create_mem(context, out.n_elems * 4);
    CHECK(from && to && in.w_stride == in.dims[2]);
    OK(rknn_set_io_mem(context, from, &in));
    CODE(RKNN_ERR_CTX_INVALID, rknn_run(context, NULL)); /* nothing was given for the other input */
    for (int frame = 0; frame < 2; frame++) {
        memcpy(from->virt_addr, images[0].buf, images[0].size);
        OK(rknn_inputs_set(context, 1, &images[1]));
        OK(rknn_run(context, NULL));
        fetch(context, folder, names);
    }
    OK(rknn_set_io_mem(context, to, &out));
    OK(rknn_run(context, NULL));
    same(folder, names[1], to->virt_addr, out.n_elems * 4);
    fetch(context, folder, names);
    memset(from->virt_addr, 0, from->size);
    OK(rknn_inputs_set(context, 2, images));
    OK(rknn_run(context, NULL));
    same(folder, names[1], to->virt_addr, out.n_elems * 4);
    OK(rknn_destroy_mem(context, from));
    OK(rknn_destroy_mem(context, to));
    OK(rknn_run(context, NULL));
    fetch(context, folder, names);
    OK(rknn_destroy(context));
}

/* The model as a part of a larger file. */
static void within(const char *path, rknn_input *images, const char *folder, const char *const *names)
{
    size_t size;
    void *model = load(NULL, path, &size);
    char whole[512];
    FILE *file = fopen(strcat(strcpy(whole, folder), "/whole"), "wb");
    CHECK(file && fwrite("before", 6, 1, file) == 1 && fwrite(model, size, 1, file) == 1 && fwrite("behind", 6, 1, file) == 1);
    fclose(file);
    free(model);

    rknn_context context = 0;
    rknn_init_extend part;
    memset(&part, 0, sizeof part);
    part.real_model_size = (uint32_t)size;
    part.real_model_offset = 13; /* a byte more than the file has */
    CODE(RKNN_ERR_MODEL_INVALID, rknn_init(&context, whole, 0, 0, &part));
    part.real_model_offset = -6;
    CODE(RKNN_ERR_MODEL_INVALID, rknn_init(&context, whole, 0, 0, &part));
    char pipe[512];
    part.real_model_offset = 0;
    CODE(RKNN_ERR_MODEL_INVALID, rknn_init(&context, strcat(strcpy(pipe, folder), "/pipe"), 0, 0, &part)); /* and nobody waits for one who writes */
    part.real_model_offset = 6;
    OK(rknn_init(&context, whole, 0, 0, &part));
    OK(rknn_inputs_set(context, 2, images));
    OK(rknn_run(context, NULL));
    fetch(context, folder, names);
    OK(rknn_destroy(context));
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
        one_by_one(context, images, folder, floats);
        if (!from_memory) {
            half(argv[1], images, folder, floats);
            within(argv[1], images, folder, floats);
        }
        for (int i = 0; i < 2; i++) {
            free(images[i].buf);
            free(reals[i].buf);
            free(stored[i].buf);
        }
        OK(rknn_destroy(context));
    }
    return 0;
}
