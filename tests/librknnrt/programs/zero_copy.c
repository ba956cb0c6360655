/* zero_copy MODEL FOLDER: memory of the NPU's own, with its strides and layouts; uint8 in, int8, float and bytes as they are out. */
#include "check.h"

enum { OUTPUTS = 3 };

static rknn_tensor_mem *memory_for(rknn_context context, rknn_tensor_attr *attr, size_t size)
{
    rknn_tensor_mem *mem = rknn_create_mem(context, (uint32_t)size);
    CHECK(mem && mem->virt_addr && mem->fd >= 0 && mem->offset == 0 && mem->size >= size);
    OK(rknn_set_io_mem(context, mem, attr));
    return mem;
}

/* Rows of pixels, each padded to the stride of the memory. */
static void write_rows(rknn_tensor_mem *mem, const rknn_tensor_attr *attr, const void *pixels, size_t element)
{
    size_t row = attr->dims[2] * attr->dims[3] * element;
    size_t stride = (attr->w_stride ? attr->w_stride : attr->dims[2]) * attr->dims[3] * element;
    for (uint32_t y = 0; y < attr->dims[0] * attr->dims[1]; y++)
        memcpy((char *)mem->virt_addr + y * stride, (const char *)pixels + y * row, row);
}

/* int8 NC1HWC2 -> NCHW, the channels of the padding dropped. The plane may be larger than the output's own. */
static int8_t *unpacked(const rknn_tensor_mem *mem, const rknn_tensor_attr *native, const rknn_tensor_attr *plain)
{
    const int8_t *from = (const int8_t *)mem->virt_addr;
    int8_t *to = (int8_t *)malloc(plain->n_elems);
    const uint32_t C1 = native->dims[1], C2 = native->dims[4], from_plane = native->dims[2] * native->dims[3];
    const uint32_t channels = plain->dims[1], plane = plain->dims[2] * plain->dims[3];
    CHECK(to && native->n_dims == 5 && native->fmt == RKNN_TENSOR_NC1HWC2 && C1 * C2 >= channels && from_plane >= plane);
    for (uint32_t n = 0; n < plain->dims[0]; n++)
        for (uint32_t c = 0; c < channels; c++)
            for (uint32_t i = 0; i < plane; i++)
                to[(n * channels + c) * plane + i] = from[((n * C1 + c / C2) * from_plane + i) * C2 + c % C2];
    return to;
}

static void golden_name(char *name, size_t size, int index, const char *suffix)
{
    snprintf(name, size, "out%d.%s", index, suffix);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    const char *folder = argv[2];
    char name[64];
    size_t size;
    rknn_context context = 0;
    OK(rknn_init(&context, argv[1], 0, 0, NULL));

    rknn_tensor_attr in = attr_of(context, RKNN_QUERY_NATIVE_INPUT_ATTR, 0), native[OUTPUTS], plain[OUTPUTS];
    CHECK(in.fmt == RKNN_TENSOR_NHWC && in.w_stride > in.dims[2]); /* a width that is no multiple of 16 */
    CHECK(in.size_with_stride >= in.dims[1] * in.w_stride * in.dims[3]);
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        native[i] = attr_of(context, RKNN_QUERY_NATIVE_OUTPUT_ATTR, i);
        plain[i] = attr_of(context, RKNN_QUERY_OUTPUT_ATTR, i);
    }

    /* 1: uint8 pixels in, stored int8 in the native layouts out. */
    uint8_t *pixels = (uint8_t *)load(folder, "in0.u8", &size);
    CHECK(size == in.n_elems);
    rknn_tensor_attr bytes = in;
    bytes.type = RKNN_TENSOR_UINT8;
    bytes.pass_through = 0;
    rknn_tensor_mem *input = memory_for(context, &bytes, in.size_with_stride), *outputs[OUTPUTS];
    memset(input->virt_addr, 0xa5, input->size); /* what lies in the padding counts for nothing */
    write_rows(input, &in, pixels, 1);
    for (int i = 0; i < OUTPUTS; i++)
        outputs[i] = memory_for(context, &native[i], native[i].size_with_stride);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < OUTPUTS; i++)
            memset(outputs[i]->virt_addr, 0x55, outputs[i]->size);
        OK(rknn_mem_sync(context, input, RKNN_MEMORY_SYNC_TO_DEVICE));
        OK(rknn_run(context, NULL));
        for (int i = 0; i < OUTPUTS; i++) {
            OK(rknn_mem_sync(context, outputs[i], RKNN_MEMORY_SYNC_FROM_DEVICE));
            golden_name(name, sizeof name, i, "i8");
            if (native[i].fmt == RKNN_TENSOR_NC1HWC2) {
                int8_t *values = unpacked(outputs[i], &native[i], &plain[i]);
                same(folder, name, values, plain[i].n_elems);
                free(values);
            } else {
                same(folder, name, outputs[i]->virt_addr, plain[i].n_elems);
            }
        }
    }
    for (int i = 0; i < OUTPUTS; i++)
        OK(rknn_destroy_mem(context, outputs[i]));

    /* 2: the same into NCHW and float32. */
    for (int i = 0; i < OUTPUTS; i++) {
        rknn_tensor_attr wanted = plain[i];
        wanted.type = RKNN_TENSOR_FLOAT32;
        wanted.size = wanted.n_elems * 4;
        outputs[i] = memory_for(context, &wanted, wanted.size);
    }
    OK(rknn_run(context, NULL));
    for (int i = 0; i < OUTPUTS; i++) {
        golden_name(name, sizeof name, i, "f32");
        same(folder, name, outputs[i]->virt_addr, plain[i].n_elems * 4);
        OK(rknn_destroy_mem(context, outputs[i]));
    }

    /* 3: stored elements passed through, NHWC out. */
    int8_t *stored = (int8_t *)load(folder, "in0.i8", &size);
    rknn_tensor_attr as_is = in;
    as_is.pass_through = 1;
    OK(rknn_set_io_mem(context, input, &as_is));
    write_rows(input, &in, stored, 1);
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        rknn_tensor_attr nhwc = attr_of(context, RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR, i);
        CHECK(nhwc.fmt == (plain[i].n_dims == 4 ? RKNN_TENSOR_NHWC : RKNN_TENSOR_UNDEFINED));
        outputs[i] = memory_for(context, &nhwc, nhwc.size_with_stride);
    }
    OK(rknn_run(context, NULL));
    for (int i = 0; i < OUTPUTS; i++) {
        golden_name(name, sizeof name, i, plain[i].n_dims == 4 ? "nhwc.i8" : "passed.i8");
        same(folder, name, outputs[i]->virt_addr, plain[i].n_elems);
        OK(rknn_destroy_mem(context, outputs[i]));
    }

    /* 4: float32 pixels: no stride, four bytes an element. */
    float *reals = (float *)load(folder, "in0.f32", &size);
    rknn_tensor_attr floats = in;
    floats.type = RKNN_TENSOR_FLOAT32;
    floats.size = in.n_elems * 4;
    rknn_tensor_mem *wide = memory_for(context, &floats, size);
    memcpy(wide->virt_addr, reals, size);
    for (int i = 0; i < OUTPUTS; i++)
        outputs[i] = memory_for(context, &plain[i], plain[i].size_with_stride);
    OK(rknn_run(context, NULL));
    for (int i = 0; i < OUTPUTS; i++) {
        golden_name(name, sizeof name, i, "of_floats.i8");
        same(folder, name, outputs[i]->virt_addr, plain[i].n_elems);
        OK(rknn_destroy_mem(context, outputs[i]));
    }
    OK(rknn_destroy_mem(context, wide));
    OK(rknn_destroy_mem(context, input));
    OK(rknn_destroy(context));
    free(pixels);
    free(stored);
    free(reals);
    return 0;
}
