/* mini MODEL FOLDER OTHER: a program for RV1103 and RV1106, in the order of calls of the vendor's demos: INPUT_ATTR edited to uint8,
 * NATIVE_NHWC and NATIVE outputs, memory of the context, runs; then what librknnmrt refuses. OTHER: a model for another SoC. */
#include "check.h"

enum { OUTPUTS = 4 };

static void write_rows(const rknn_tensor_mem *mem, const rknn_tensor_attr *attr, const uint8_t *pixels)
{
    uint32_t row = attr->dims[2] * attr->dims[3], stride = attr->w_stride * attr->dims[3];
    for (uint32_t y = 0; y < attr->dims[1]; y++)
        memcpy((char *)mem->virt_addr + y * stride, pixels + y * row, row);
}

/* int8 in groups of channels -> float NCHW, as the demos do it. */
static void unpack(const int8_t *from, float *to, const rknn_tensor_attr *native, const rknn_tensor_attr *plain)
{
    uint32_t lanes = native->dims[4], from_plane = native->dims[2] * native->dims[3];
    uint32_t channels = plain->dims[1], height = plain->n_dims > 2 ? plain->dims[2] : 1;
    uint32_t width = plain->n_dims > 3 ? plain->dims[3] : 1;
    for (uint32_t c = 0; c < channels; c++)
        for (uint32_t i = 0; i < height * width; i++) {
            int stored = from[c / lanes * from_plane * lanes + lanes * i + c % lanes];
            to[c * height * width + i] = (float)(stored - native->zp) * native->scale;
        }
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    const char *folder = argv[2];
    size_t size;
    rknn_context context = 0, other = 0;
    OK(rknn_init(&context, argv[1], 0, 0, NULL));
    rknn_sdk_version version;
    OK(rknn_query(context, RKNN_QUERY_SDK_VERSION, &version, sizeof version));
    rknn_input_output_num number;
    OK(rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &number, sizeof number));
    CHECK(number.n_input == 1 && number.n_output <= OUTPUTS);
    rknn_custom_string string;
    OK(rknn_query(context, RKNN_QUERY_CUSTOM_STRING, &string, sizeof string));
    rknn_input_range range;
    memset(&range, 0, sizeof range);
    CODE(RKNN_ERR_FAIL, rknn_query(context, RKNN_QUERY_INPUT_DYNAMIC_RANGE, &range, sizeof range)); /* without a word */
    rknn_tensor_mem device;
    OK(rknn_query(context, RKNN_QUERY_DEVICE_MEM_INFO, &device, sizeof device));

    rknn_tensor_attr in = attr_of(context, RKNN_QUERY_INPUT_ATTR, 0);
    rknn_tensor_attr native_in = attr_of(context, RKNN_QUERY_NATIVE_INPUT_ATTR, 0);
    CHECK(in.fmt == RKNN_TENSOR_NHWC && native_in.fmt == RKNN_TENSOR_NHWC && in.w_stride >= in.dims[2]);
    CHECK(in.size_with_stride == native_in.size_with_stride && in.w_stride == native_in.w_stride);
    uint8_t *pixels = (uint8_t *)load(folder, "in0.u8", &size);
    CHECK(size == in.n_elems);
    in.type = RKNN_TENSOR_UINT8;
    in.fmt = RKNN_TENSOR_NHWC;
    rknn_tensor_mem *input = rknn_create_mem(context, in.size_with_stride), *outputs[OUTPUTS];
    CHECK(input && input->fd >= 0);
    write_rows(input, &in, pixels);
    OK(rknn_set_io_mem(context, input, &in));

    for (int packed = 0; packed < 2; packed++) {
        rknn_tensor_attr attrs[OUTPUTS];
        for (uint32_t i = 0; i < number.n_output; i++) {
            attrs[i] = attr_of(context, packed ? RKNN_QUERY_NATIVE_OUTPUT_ATTR : RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR, i);
            outputs[i] = rknn_create_mem(context, attrs[i].size_with_stride);
            OK(rknn_set_io_mem(context, outputs[i], &attrs[i]));
        }
        for (int round = 0; round < 3; round++)
            OK(rknn_run(context, NULL));
        for (uint32_t i = 0; i < number.n_output; i++) {
            rknn_tensor_attr plain = attr_of(context, RKNN_QUERY_OUTPUT_ATTR, i);
            char name[32];
            OK(rknn_mem_sync(context, outputs[i], RKNN_MEMORY_SYNC_FROM_DEVICE));
            if (packed && attrs[i].fmt == RKNN_TENSOR_NC1HWC2) {
                float *values = (float *)malloc(plain.n_elems * sizeof *values);
                CHECK(values);
                unpack((const int8_t *)outputs[i]->virt_addr, values, &attrs[i], &plain);
                snprintf(name, sizeof name, "out%u.f32", i);
                same(folder, name, values, plain.n_elems * sizeof *values);
                free(values);
            } else if (!packed) {
                CHECK(attrs[i].type == RKNN_TENSOR_INT8);
                snprintf(name, sizeof name, "out%u.i8", i);
                same(folder, name, outputs[i]->virt_addr, attrs[i].n_elems);
            }
        }
        CODE(RKNN_ERR_CTX_INVALID, rknn_mem_sync(0, outputs[0], RKNN_MEMORY_SYNC_FROM_DEVICE));
        for (uint32_t i = 0; i < number.n_output; i++)
            OK(rknn_destroy_mem(context, outputs[i]));
    }

    rknn_input given_input = given(0, pixels, size, RKNN_TENSOR_UINT8, RKNN_TENSOR_NHWC);
    rknn_output output;
    memset(&output, 0, sizeof output);
    CODE(RKNN_ERR_PARAM_INVALID, rknn_inputs_set(context, 1, &given_input));
    CODE(RKNN_ERR_PARAM_INVALID, rknn_outputs_get(context, 1, &output, NULL));
    CODE(RKNN_ERR_PARAM_INVALID, rknn_outputs_release(context, 1, &output));
    CODE(RKNN_ERR_FAIL, rknn_dup_context(&context, &other));
    rknn_perf_run run;
    CODE(RKNN_ERR_FAIL, rknn_query(context, RKNN_QUERY_PERF_RUN, &run, sizeof run));
    CODE(RKNN_ERR_TARGET_PLATFORM_UNMATCH, rknn_init(&other, argv[3], 0, 0, NULL));
    OK(rknn_destroy_mem(context, input));
    OK(rknn_destroy(context));
    free(pixels);
    return 0;
}
