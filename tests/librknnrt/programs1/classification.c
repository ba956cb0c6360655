/* In the form of the classification demos of toolkits 1.x: MODEL FOLDER. */
#include "check.h"

static void print_tensor(rknn_tensor_attr *attr)
{
    printf("index=%d name=%s n_dims=%d dims=[%d %d %d %d] n_elems=%d size=%d fmt=%d type=%d qnt_type=%d fl=%d zp=%d scale=%f\n",
           attr->index, attr->name, attr->n_dims, attr->dims[3], attr->dims[2], attr->dims[1], attr->dims[0],
           attr->n_elems, attr->size, attr->fmt, attr->type, attr->qnt_type, attr->fl, attr->zp, attr->scale);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    rknn_context ctx = 0;
    size_t size;
    void *model = load(NULL, argv[1], &size);
    OK(rknn_init(&ctx, model, (uint32_t)size, 0));

    rknn_sdk_version version;
    OK(rknn_query(ctx, RKNN_QUERY_SDK_VERSION, &version, sizeof(version)));
    CHECK(strlen(version.api_version) && strlen(version.drv_version));

    rknn_input_output_num io_num;
    OK(rknn_query(ctx, RKNN_QUERY_IN_OUT_NUM, &io_num, sizeof(io_num)));
    printf("model input num: %d, output num: %d\n", io_num.n_input, io_num.n_output);
    rknn_tensor_attr input_attrs[1], output_attrs[1];
    CHECK(io_num.n_input == 1 && io_num.n_output == 1);
    memset(input_attrs, 0, sizeof(input_attrs));
    OK(rknn_query(ctx, RKNN_QUERY_INPUT_ATTR, &input_attrs[0], sizeof(rknn_tensor_attr)));
    print_tensor(&input_attrs[0]);
    memset(output_attrs, 0, sizeof(output_attrs));
    OK(rknn_query(ctx, RKNN_QUERY_OUTPUT_ATTR, &output_attrs[0], sizeof(rknn_tensor_attr)));
    print_tensor(&output_attrs[0]);

    size_t length;
    unsigned char *picture = load(argv[2], "in0.u8", &length);
    rknn_input inputs[1];
    memset(inputs, 0, sizeof(inputs));
    inputs[0].index = 0;
    inputs[0].type = RKNN_TENSOR_UINT8;
    inputs[0].size = (uint32_t)length;
    inputs[0].fmt = RKNN_TENSOR_NHWC;
    inputs[0].buf = picture;
    for (int turn = 0; turn < 2; turn++) {
        OK(rknn_inputs_set(ctx, io_num.n_input, inputs));
        rknn_run_extend run;
        OK(rknn_run(ctx, turn ? &run : NULL));
        rknn_output outputs[1];
        memset(outputs, 0, sizeof(outputs));
        outputs[0].want_float = 1;
        OK(rknn_outputs_get(ctx, 1, outputs, NULL));
        same(argv[2], "out0.f32", outputs[0].buf, outputs[0].size);
        OK(rknn_outputs_release(ctx, 1, outputs));
    }

    rknn_precompile compiled;
    CODE(RKNN_ERR_PARAM_INVALID, rknn_query(ctx, RKNN_QUERY_PRE_COMPILE, &compiled, sizeof(compiled)));
    CODE(RKNN_ERR_PARAM_INVALID, rknn_query(ctx, RKNN_QUERY_INPUT_ATTR, &input_attrs[0], 376));
    OK(rknn_destroy(ctx));
    FAILS(rknn_run(ctx, NULL));
    FAILS(rknn_init(&ctx, picture, (uint32_t)length, 0));
    free(model);
    free(picture);
    return 0;
}
