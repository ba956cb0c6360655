/* A post-process plugin: its results take the place of the network's outputs. */
#include "check3.h"

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    rknn3_context context = opened(argv[1]);
    rknn3_input_output_num number;
    struct io in, out[2];
    rknn3_tensor results[2];
    FAILS(rknn3_register_custom_ops_plugins(context, "/nowhere.so", 0));
    OK(rknn3_register_custom_ops_plugins(context, argv[2], (int64_t)strlen(argv[2])));
    OK(rknn3_query(context, RKNN3_QUERY_IN_OUT_NUM, &number, sizeof number));
    CHECK(number.n_input == 1 && number.n_output == 1);
    OK(rknn3_query(context, RKNN3_QUERY_POSTPROCESS_IN_OUT_NUM, &number, sizeof number));
    CHECK(number.n_input == 1 && number.n_output == 2);
    make(context, RKNN3_QUERY_OUTPUT_ATTR, 0, &out[0]);
    CHECK(strcmp(out[0].attr.name, "out0") == 0);
    make(context, RKNN3_QUERY_INPUT_ATTR, 0, &in);
    for (uint32_t i = 0; i < 2; i++) {
        make(context, RKNN3_QUERY_POSTPROCESS_OUTPUT_ATTR, i, &out[i]);
        results[i] = out[i].tensor;
    }
    CHECK(strcmp(out[0].attr.name, "channel") == 0 && strcmp(out[1].attr.name, "value") == 0);
    fill(context, &in, argv[3], "in0.i8");
    for (int round = 0; round < 2; round++) {
        OK(rknn3_run(context, &in.tensor, 1, results, 2));
        same(argv[3], "channel", results[0].mem->virt_addr, (size_t)results[0].attr->stride[0] * results[0].attr->shape[0]);
        same(argv[3], "value", results[1].mem->virt_addr, (size_t)results[1].attr->stride[0] * results[1].attr->shape[0]);
    }
    OK(rknn3_destroy(context));
    return 0;
}
