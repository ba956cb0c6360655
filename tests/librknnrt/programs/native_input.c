/* native_input MODEL FOLDER: an input of 20 channels, whose native layout is NC1HWC2, on all of its ways in. */
#include "check.h"

static rknn_context context;
static rknn_tensor_attr out;
static rknn_tensor_mem *result;
static const char *folder;

static void run(rknn_tensor_attr *attr, const void *data, size_t size, const char *golden)
{
    rknn_tensor_mem *mem = rknn_create_mem(context, (uint32_t)(size > attr->size_with_stride ? size : attr->size_with_stride));
    CHECK(mem);
    OK(rknn_set_io_mem(context, mem, attr));
    memcpy(mem->virt_addr, data, size);
    memset(result->virt_addr, 0, result->size);
    OK(rknn_run(context, NULL));
    same(folder, golden, result->virt_addr, out.size);
    OK(rknn_destroy_mem(context, mem));
}

int main(int argc, char **argv)
{
    size_t size;
    CHECK(argc == 3);
    folder = argv[2];
    OK(rknn_init(&context, argv[1], 0, 0, NULL));
    rknn_tensor_attr plain = attr_of(context, RKNN_QUERY_INPUT_ATTR, 0), native = attr_of(context, RKNN_QUERY_NATIVE_INPUT_ATTR, 0);
    out = attr_of(context, RKNN_QUERY_OUTPUT_ATTR, 0);
    CHECK(plain.fmt == RKNN_TENSOR_NHWC && native.fmt == RKNN_TENSOR_NC1HWC2 && native.n_dims == 5);
    out.type = RKNN_TENSOR_FLOAT32;
    out.size = out.n_elems * 4;
    result = rknn_create_mem(context, out.size);
    CHECK(result);
    OK(rknn_set_io_mem(context, result, &out));

    /* NHWC in the element types that are converted. */
    void *floats = load(folder, "in0.f32", &size);
    rknn_tensor_attr attr = plain;
    attr.type = RKNN_TENSOR_FLOAT32;
    attr.size = attr.n_elems * 4;
    run(&attr, floats, size, "of_floats.f32");
    int8_t *stored = (int8_t *)load(folder, "in0.i8", &size);
    CHECK(size == plain.n_elems);
    attr = plain;
    run(&attr, stored, size, "of_int8.f32");

    /* Other types go with NHWC: refused where it is said, not in the run. */
    attr = native;
    attr.type = RKNN_TENSOR_UINT8;
    rknn_tensor_mem *mem = rknn_create_mem(context, native.size_with_stride);
    CODE(RKNN_ERR_INPUT_INVALID, rknn_set_io_mem(context, mem, &attr));
    OK(rknn_destroy_mem(context, mem));

    /* The caller packs: NC1HWC2, passed through. */
    const uint32_t C1 = native.dims[1], H = native.dims[2], W = native.dims[3], C2 = native.dims[4], C = plain.dims[3];
    int8_t *packed = (int8_t *)calloc(1, native.size_with_stride);
    CHECK(packed && C1 * C2 >= C && C1 * H * W * C2 <= native.size_with_stride);
    for (uint32_t y = 0; y < H; y++)
        for (uint32_t x = 0; x < W; x++)
            for (uint32_t c = 0; c < C; c++)
                packed[((c / C2 * H + y) * W + x) * C2 + c % C2] = stored[(y * W + x) * C + c];
    native.pass_through = 1;
    run(&native, packed, native.size_with_stride, "of_int8.f32");

    OK(rknn_destroy_mem(context, result));
    OK(rknn_destroy(context));
    free(floats);
    free(stored);
    free(packed);
    return 0;
}
