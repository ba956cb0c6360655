/* dynamic_shapes MODEL FOLDER: every shape of a model on the common path, then on the zero-copy path. */
#include "check.h"

static rknn_tensor_attr shape_of(const rknn_input_range *range, uint32_t which)
{
    rknn_tensor_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.index = range->index;
    attr.fmt = range->fmt;
    attr.n_dims = range->n_dims;
    memcpy(attr.name, range->name, sizeof attr.name);
    memcpy(attr.dims, range->dyn_range[which], sizeof attr.dims);
    return attr;
}

static uint32_t elements(const rknn_tensor_attr *attr)
{
    uint32_t count = 1;
    for (uint32_t i = 0; i < attr->n_dims; i++)
        count *= attr->dims[i];
    return count;
}

static void common(rknn_context context, const rknn_input_range *range, const char *folder)
{
    for (uint32_t round = 0; round < 2 * range->shape_number; round++) {
        uint32_t which = round % range->shape_number;
        char in[64], out[64];
        rknn_tensor_attr wanted = shape_of(range, which);
        if (round < range->shape_number)
            OK(rknn_set_input_shapes(context, 1, &wanted));
        else
            OK(rknn_set_input_shape(context, &wanted));
        rknn_tensor_attr input = attr_of(context, RKNN_QUERY_CURRENT_INPUT_ATTR, 0);
        rknn_tensor_attr output = attr_of(context, RKNN_QUERY_CURRENT_OUTPUT_ATTR, 0);
        CHECK(input.n_dims == wanted.n_dims && !memcmp(input.dims, wanted.dims, 4 * wanted.n_dims));
        CHECK(input.fmt == RKNN_TENSOR_NHWC && input.n_elems == elements(&input) && output.n_elems == elements(&output));
        snprintf(in, sizeof in, "in%u.u8", which);
        snprintf(out, sizeof out, "out%u.f32", which);
        frame(context, folder, in, out);
    }
}

static void zero_copy(rknn_context context, const rknn_input_range *range, const char *folder)
{
    uint32_t largest_in = 0, largest_out = 0;
    for (uint32_t which = 0; which < range->shape_number; which++) { /* the largest of all, not of the first */
        rknn_tensor_attr wanted = shape_of(range, which);
        OK(rknn_set_input_shapes(context, 1, &wanted));
        rknn_tensor_attr input = attr_of(context, RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR, 0);
        rknn_tensor_attr output = attr_of(context, RKNN_QUERY_CURRENT_OUTPUT_ATTR, 0);
        largest_in = input.size_with_stride > largest_in ? input.size_with_stride : largest_in;
        largest_out = output.n_elems * 4 > largest_out ? output.n_elems * 4 : largest_out;
    }
    rknn_tensor_mem *in = rknn_create_mem(context, largest_in), *out = rknn_create_mem(context, largest_out);
    CHECK(in && out);
    for (uint32_t round = 0; round < 2 * range->shape_number; round++) {
        uint32_t which = round % range->shape_number;
        char name[64];
        size_t size;
        rknn_tensor_attr wanted = shape_of(range, which);
        OK(rknn_set_input_shapes(context, 1, &wanted));
        rknn_tensor_attr input = attr_of(context, RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR, 0);
        rknn_tensor_attr output = attr_of(context, RKNN_QUERY_CURRENT_OUTPUT_ATTR, 0);
        const int padded = input.type == RKNN_TENSOR_INT8; /* a float model's pixels lie side by side */
        input.type = RKNN_TENSOR_UINT8;
        output.type = RKNN_TENSOR_FLOAT32;
        output.size = output.n_elems * 4;
        OK(rknn_set_io_mem(context, in, &input));
        OK(rknn_set_io_mem(context, out, &output));
        snprintf(name, sizeof name, "in%u.u8", which);
        char *pixels = (char *)load(folder, name, &size);
        size_t row = input.dims[2] * input.dims[3], stride = (padded ? input.w_stride : input.dims[2]) * input.dims[3];
        for (uint32_t y = 0; y < input.dims[1]; y++)
            memcpy((char *)in->virt_addr + y * stride, pixels + y * row, row);
        free(pixels);
        OK(rknn_run(context, NULL));
        snprintf(name, sizeof name, "out%u.f32", which);
        same(folder, name, out->virt_addr, output.size);
    }
    OK(rknn_destroy_mem(context, in));
    OK(rknn_destroy_mem(context, out));
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    for (int path = 0; path < 2; path++) {
        rknn_context context = 0, copy = 0;
        rknn_input_range range;
        memset(&range, 0, sizeof range);
        OK(rknn_init(&context, argv[1], 0, 0, NULL));
        OK(rknn_query(context, RKNN_QUERY_INPUT_DYNAMIC_RANGE, &range, sizeof range));
        CHECK(range.shape_number > 1 && range.shape_number <= RKNN_MAX_DYNAMIC_SHAPE_NUM && range.n_dims == 4);
        CHECK(range.fmt == RKNN_TENSOR_NHWC && range.name[0]);
        (path ? zero_copy : common)(context, &range, argv[2]);

        rknn_tensor_attr unknown = shape_of(&range, 0);
        unknown.dims[1] += 1;
        CODE(RKNN_ERR_FAIL, rknn_set_input_shapes(context, 1, &unknown));
        CODE(RKNN_ERR_FAIL, rknn_set_input_shape(context, &unknown));
        rknn_tensor_attr two[2] = {unknown, unknown};
        FAILS(rknn_set_input_shapes(context, 2, two));
        FAILS(rknn_set_input_shapes(context, 0, &unknown));
        FAILS(rknn_set_input_shape(context, NULL));
        unknown = shape_of(&range, 1);
        OK(rknn_set_input_shape(context, &unknown));
        rknn_tensor_attr chosen = attr_of(context, RKNN_QUERY_CURRENT_INPUT_ATTR, 0);
        CHECK(!memcmp(chosen.dims, unknown.dims, 4 * sizeof *chosen.dims));
        unknown.index = 1;
        FAILS(rknn_set_input_shape(context, &unknown));
        FAILS(rknn_dup_context(&context, &copy)); /* not for models of this kind */
        OK(rknn_destroy(context));
    }
    return 0;
}
