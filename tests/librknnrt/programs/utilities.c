/* utilities MODEL FOLDER: what collections of models do around the calls: letterboxes, queries printed, figures, frames in flight. */
#include "check.h"

static void print_attr(const char *what, const rknn_tensor_attr *attr)
{
    printf("%s index=%u name=%s n_dims=%u dims=[", what, attr->index, attr->name, attr->n_dims);
    for (uint32_t i = 0; i < attr->n_dims; i++)
        printf(i ? ", %u" : "%u", attr->dims[i]);
    printf("] n_elems=%u size=%u w_stride=%u size_with_stride=%u fmt=%s type=%s qnt_type=%s zp=%d scale=%.9g\n", attr->n_elems,
           attr->size, attr->w_stride, attr->size_with_stride, get_format_string(attr->fmt), get_type_string(attr->type),
           get_qnt_type_string(attr->qnt_type), attr->zp, attr->scale);
}

/* Nearest neighbours, the shape of the picture kept, grey around it. */
static void letterbox(const uint8_t *from, int width, int height, uint8_t *to, int to_width, int to_height)
{
    int wide = width * to_height > height * to_width;
    int new_width = wide ? to_width : width * to_height / height, new_height = wide ? height * to_width / width : to_height;
    int left = (to_width - new_width) / 2, top = (to_height - new_height) / 2;
    memset(to, 114, (size_t)to_width * (size_t)to_height * 3);
    for (int y = 0; y < new_height; y++)
        for (int x = 0; x < new_width; x++)
            memcpy(to + ((top + y) * to_width + left + x) * 3,
                   from + (y * height / new_height * width + x * width / new_width) * 3, 3);
}

static void print_queries(rknn_context context)
{
    static const struct {
        rknn_query_cmd command;
        const char *name;
        int is_input;
    } kinds[] = {
        {RKNN_QUERY_INPUT_ATTR, "input", 1},
        {RKNN_QUERY_NATIVE_INPUT_ATTR, "native_input", 1},
        {RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR, "native_nhwc_input", 1},
        {RKNN_QUERY_OUTPUT_ATTR, "output", 0},
        {RKNN_QUERY_NATIVE_OUTPUT_ATTR, "native_output", 0},
        {RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR, "native_nhwc_output", 0},
    };
    rknn_sdk_version version;
    rknn_input_output_num number;
    rknn_custom_string string;
    rknn_mem_size memory;
    OK(rknn_query(context, RKNN_QUERY_SDK_VERSION, &version, sizeof version));
    OK(rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &number, sizeof number));
    OK(rknn_query(context, RKNN_QUERY_CUSTOM_STRING, &string, sizeof string));
    OK(rknn_query(context, RKNN_QUERY_MEM_SIZE, &memory, sizeof memory));
    CHECK(version.api_version[0] && version.drv_version[0]);
    printf("api %s\ndriver %s\n", version.api_version, version.drv_version);
    printf("inputs %u outputs %u\ncustom string \"%s\"\n", number.n_input, number.n_output, string.string);
    printf("weights %u internal %u\n", memory.total_weight_size, memory.total_internal_size);
    CHECK(memory.total_dma_allocated_size >= memory.total_weight_size);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (uint32_t i = 0; i < (kinds[kind].is_input ? number.n_input : number.n_output); i++) {
            rknn_tensor_attr attr = attr_of(context, kinds[kind].command, i);
            print_attr(kinds[kind].name, &attr);
        }
}

static void fetch(rknn_context context, const char *folder, const char *name, uint64_t frame_id)
{
    rknn_output output;
    rknn_output_extend extend;
    memset(&output, 0, sizeof output);
    memset(&extend, 0, sizeof extend);
    output.want_float = 1;
    OK(rknn_outputs_get(context, 1, &output, &extend));
    CHECK(extend.frame_id == frame_id);
    same(folder, name, output.buf, output.size);
    OK(rknn_outputs_release(context, 1, &output));
}

/* Runs that do not wait, and frames by number. */
static void in_flight(rknn_context context, const char *folder, rknn_input *inputs)
{
    uint64_t last = 0;
    for (int i = 0; i < 6; i++) {
        rknn_run_extend run;
        memset(&run, 0, sizeof run);
        run.non_block = 1;
        run.fence_fd = -1;
        OK(rknn_inputs_set(context, 1, &inputs[i % 2]));
        OK(rknn_run(context, &run));
        CHECK(run.frame_id > last || i == 0);
        last = run.frame_id;
        OK(rknn_wait(context, &run));
        fetch(context, folder, i % 2 ? "box1.f32" : "box0.f32", run.frame_id);
    }
    rknn_run_extend blocking;
    memset(&blocking, 0, sizeof blocking);
    OK(rknn_inputs_set(context, 1, &inputs[0]));
    OK(rknn_run(context, &blocking));
    CHECK(blocking.frame_id > last);
    fetch(context, folder, "box0.f32", blocking.frame_id);

    rknn_run_extend never;
    memset(&never, 0, sizeof never);
    never.frame_id = blocking.frame_id + 1000;
    FAILS(rknn_wait(context, &never));
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    const char *folder = argv[2];
    size_t size;
    rknn_context context = 0;
    rknn_perf_detail detail;
    void *model = load(NULL, argv[1], &size);
    OK(rknn_init(&context, model, (uint32_t)size, RKNN_FLAG_COLLECT_PERF_MASK, NULL));
    free(model);
    print_queries(context);

    rknn_tensor_attr in = attr_of(context, RKNN_QUERY_INPUT_ATTR, 0);
    uint8_t *boxes[2] = {(uint8_t *)malloc(in.n_elems), (uint8_t *)malloc(in.n_elems)}, *picture = (uint8_t *)load(folder, "picture.u8", &size);
    CHECK(size == 30 * 17 * 3 && boxes[0] && boxes[1]);
    letterbox(picture, 30, 17, boxes[0], (int)in.dims[2], (int)in.dims[1]);
    letterbox(picture, 17, 30, boxes[1], (int)in.dims[2], (int)in.dims[1]);
    same(folder, "box0.u8", boxes[0], in.n_elems);
    same(folder, "box1.u8", boxes[1], in.n_elems);
    frame(context, folder, "box0.u8", "box0.f32");

    OK(rknn_query(context, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail));
    CHECK(detail.perf_data && detail.data_len >= strlen(detail.perf_data) && detail.data_len > 100);
    CHECK(strstr(detail.perf_data, "OpType") && strstr(detail.perf_data, "Conv"));
    CHECK(detail.perf_data[strlen(detail.perf_data) - 1] == '\n'); /* programs print it and go on */
    printf("%s", detail.perf_data);

    rknn_input inputs[2];
    for (uint32_t i = 0; i < 2; i++)
        inputs[i] = given(0, boxes[i], in.n_elems, RKNN_TENSOR_UINT8, RKNN_TENSOR_NHWC);
    in_flight(context, folder, inputs);
    OK(rknn_destroy(context));

    /* In asynchronous mode the results are those of the run before. */
    OK(rknn_init(&context, argv[1], 0, RKNN_FLAG_ASYNC_MASK, NULL));
    for (int i = 0; i < 5; i++) {
        rknn_output output;
        memset(&output, 0, sizeof output);
        output.want_float = 1;
        OK(rknn_inputs_set(context, 1, &inputs[i % 2]));
        OK(rknn_run(context, NULL));
        OK(rknn_outputs_get(context, 1, &output, NULL));
        if (i)
            same(folder, i % 2 ? "box0.f32" : "box1.f32", output.buf, output.size);
        OK(rknn_outputs_release(context, 1, &output));
    }
    OK(rknn_destroy(context));
    free(boxes[0]);
    free(boxes[1]);
    free(picture);
    return 0;
}
