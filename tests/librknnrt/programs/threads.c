/* threads MODEL FOLDER COUNT FRAMES: COUNT threads with a context each, on both paths, queries in between. */
#include <pthread.h>

#include "check.h"

static const char *model, *folder;
static int frames;

static void zero_copy(void)
{
    rknn_context context = 0;
    size_t size;
    void *pixels = load(folder, "in0.u8", &size);
    OK(rknn_init(&context, (void *)model, 0, 0, NULL));
    rknn_tensor_attr in = attr_of(context, RKNN_QUERY_NATIVE_INPUT_ATTR, 0), out = attr_of(context, RKNN_QUERY_OUTPUT_ATTR, 0);
    in.type = RKNN_TENSOR_UINT8;
    out.type = RKNN_TENSOR_FLOAT32;
    out.size = out.n_elems * 4;
    rknn_tensor_mem *input = rknn_create_mem(context, in.size_with_stride), *output = rknn_create_mem(context, out.size);
    CHECK(input && output);
    OK(rknn_set_io_mem(context, input, &in));
    OK(rknn_set_io_mem(context, output, &out));
    for (uint32_t y = 0; y < in.dims[1]; y++)
        memcpy((char *)input->virt_addr + y * in.w_stride * in.dims[3], (char *)pixels + y * in.dims[2] * in.dims[3],
               in.dims[2] * in.dims[3]);
    for (int i = 0; i < frames; i++) {
        memset(output->virt_addr, 0, out.size);
        OK(rknn_mem_sync(context, input, RKNN_MEMORY_SYNC_TO_DEVICE));
        OK(rknn_run(context, NULL));
        OK(rknn_mem_sync(context, output, RKNN_MEMORY_SYNC_FROM_DEVICE));
        same(folder, "out0.f32", output->virt_addr, out.size);
    }
    OK(rknn_destroy_mem(context, input));
    OK(rknn_destroy_mem(context, output));
    OK(rknn_destroy(context));
    free(pixels);
}

static void common(void)
{
    rknn_context context = 0;
    OK(rknn_init(&context, (void *)model, 0, RKNN_FLAG_COLLECT_PERF_MASK, NULL));
    for (int i = 0; i < frames; i++) {
        rknn_perf_detail detail;
        frame(context, folder, "in0.u8", "out0.f32");
        OK(rknn_query(context, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail));
        CHECK(detail.perf_data && strstr(detail.perf_data, "Conv"));
    }
    OK(rknn_destroy(context));
}

static void *work(void *argument)
{
    argument ? zero_copy() : common();
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    model = argv[1];
    folder = argv[2];
    frames = atoi(argv[4]);
    int count = atoi(argv[3]);
    pthread_t *threads = (pthread_t *)malloc((size_t)count * sizeof *threads);
    CHECK(threads);
    for (int i = 0; i < count; i++)
        CHECK(!pthread_create(&threads[i], NULL, work, i % 2 ? threads : NULL));
    for (int i = 0; i < count; i++)
        CHECK(!pthread_join(threads[i], NULL));
    free(threads);
    return 0;
}
