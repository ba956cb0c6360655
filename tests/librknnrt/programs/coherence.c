/* coherence MODEL FOLDER: a context that leaves caches to the program computes on what was synced, and on nothing else. */
#include "check.h"

int main(int argc, char **argv)
{
    rknn_context context = 0;
    size_t size;
    CHECK(argc == 3);
    void *pixels = load(argv[2], "in0.u8", &size);
    OK(rknn_init(&context, argv[1], 0, RKNN_FLAG_DISABLE_FLUSH_INPUT_MEM_CACHE | RKNN_FLAG_DISABLE_FLUSH_OUTPUT_MEM_CACHE, NULL));
    rknn_tensor_attr in = attr_of(context, RKNN_QUERY_NATIVE_INPUT_ATTR, 0), out = attr_of(context, RKNN_QUERY_OUTPUT_ATTR, 0);
    in.type = RKNN_TENSOR_UINT8;
    out.type = RKNN_TENSOR_FLOAT32;
    out.size = out.n_elems * 4;
    rknn_tensor_mem *input = rknn_create_mem(context, in.size_with_stride), *output = rknn_create_mem(context, out.size);
    CHECK(input && output);
    OK(rknn_set_io_mem(context, input, &in));
    OK(rknn_set_io_mem(context, output, &out));

    OK(rknn_mem_sync(context, input, RKNN_MEMORY_SYNC_TO_DEVICE)); /* zeros */
    for (uint32_t y = 0; y < in.dims[1]; y++)
        memcpy((char *)input->virt_addr + y * in.w_stride * in.dims[3], (char *)pixels + y * in.dims[2] * in.dims[3],
               in.dims[2] * in.dims[3]);
    OK(rknn_run(context, NULL)); /* the picture was not synced */
    OK(rknn_mem_sync(context, output, RKNN_MEMORY_SYNC_FROM_DEVICE));
    same(argv[2], "zeros.f32", output->virt_addr, out.size);

    OK(rknn_mem_sync(context, input, RKNN_MEMORY_SYNC_TO_DEVICE));
    OK(rknn_run(context, NULL));
    same(argv[2], "zeros.f32", output->virt_addr, out.size); /* the result was not synced */
    OK(rknn_mem_sync(context, output, RKNN_MEMORY_SYNC_BIDIRECTIONAL));
    same(argv[2], "out0.f32", output->virt_addr, out.size);

    OK(rknn_destroy_mem(context, input));
    OK(rknn_destroy_mem(context, output));
    OK(rknn_destroy(context));
    free(pixels);
    return 0;
}
