/* In the form of the detection demos of toolkits 1.x: several outputs into the program's own memory, with figures: MODEL FOLDER COUNT. */
#include "check.h"

#define MOST 8

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    const uint32_t n_output = (uint32_t)atoi(argv[3]);
    size_t size, length;
    void *model = load(NULL, argv[1], &size), *picture = load(argv[2], "in0.u8", &length);
    rknn_context ctx;
    OK(rknn_init(&ctx, model, (uint32_t)size, RKNN_FLAG_PRIOR_MEDIUM | RKNN_FLAG_COLLECT_PERF_MASK));
    free(model);

    rknn_tensor_attr attrs[MOST];
    memset(attrs, 0, sizeof(attrs));
    for (uint32_t i = 0; i < n_output; i++) {
        attrs[i].index = i;
        OK(rknn_query(ctx, RKNN_QUERY_OUTPUT_ATTR, &attrs[i], sizeof(attrs[i])));
        if (attrs[i].qnt_type == RKNN_TENSOR_QNT_DFP)
            CHECK(attrs[i].fl != 0 && (attrs[i].type == RKNN_TENSOR_INT8 || attrs[i].type == RKNN_TENSOR_INT16));
        printf("%s qnt_type=%d fl=%d\n", attrs[i].name, attrs[i].qnt_type, attrs[i].fl);
    }

    rknn_input input = {.index = 0, .buf = picture, .size = (uint32_t)length, .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_NHWC};
    OK(rknn_inputs_set(ctx, 1, &input));
    OK(rknn_run(ctx, NULL));
    rknn_output outputs[MOST];
    memset(outputs, 0, sizeof(outputs));
    for (uint32_t i = 0; i < n_output; i++) {
        outputs[i].index = i;
        outputs[i].want_float = 1;
        outputs[i].is_prealloc = 1;
        outputs[i].size = attrs[i].n_elems * 4;
        outputs[i].buf = malloc(outputs[i].size);
    }
    OK(rknn_outputs_get(ctx, n_output, outputs, NULL));
    for (uint32_t i = 0; i < n_output; i++) {
        char name[32];
        snprintf(name, sizeof name, "out%u.f32", i);
        same(argv[2], name, outputs[i].buf, outputs[i].size);
    }
    OK(rknn_outputs_release(ctx, n_output, outputs));
    for (uint32_t i = 0; i < n_output; i++)
        free(outputs[i].buf);

    rknn_perf_run perf_run;
    OK(rknn_query(ctx, RKNN_QUERY_PERF_RUN, &perf_run, sizeof(perf_run)));
    CHECK(perf_run.run_duration > 0);
    rknn_perf_detail perf_detail;
    OK(rknn_query(ctx, RKNN_QUERY_PERF_DETAIL, &perf_detail, sizeof(perf_detail)));
    CHECK(perf_detail.data_len > 0 && strlen(perf_detail.perf_data) > 0);

    OK(rknn_destroy(ctx));
    free(picture);
    return 0;
}
