/* Memory of toolkits 1.x: mapped by the library, and created tensor by tensor; elements that pass through. MODEL FOLDER with native.u8 (elements as the tensor has
 * them) and stored.u8. */
#include "check.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t size, length;
    void *model = load(NULL, argv[1], &size), *elements = load(argv[2], "native.u8", &length);
    rknn_context ctx;
    OK(rknn_init(&ctx, model, (uint32_t)size, 0));
    rknn_tensor_mem in, out;
    memset(&in, 0, sizeof(in));
    memset(&out, 0, sizeof(out));
    OK(rknn_inputs_map(ctx, 1, &in));
    OK(rknn_outputs_map(ctx, 1, &out));
    CHECK(in.size >= length && in.logical_addr && out.logical_addr);
    for (int turn = 0; turn < 2; turn++) {
        memset(out.logical_addr, 0, out.size);
        memcpy(in.logical_addr, elements, length);
        OK(rknn_inputs_sync(ctx, 1, &in));
        OK(rknn_run(ctx, NULL));
        OK(rknn_outputs_sync(ctx, 1, &out));
        size_t expected;
        free(load(argv[2], "stored.u8", &expected));
        same(argv[2], "stored.u8", out.logical_addr, expected);
    }
    OK(rknn_inputs_unmap(ctx, 1, &in));
    OK(rknn_outputs_unmap(ctx, 1, &out));
    FAILS(rknn_inputs_unmap(ctx, 1, &in));
    OK(rknn_destroy(ctx));

    OK(rknn_init(&ctx, model, (uint32_t)size, 0));
    rknn_tensor_attr attrs[2];
    memset(attrs, 0, sizeof(attrs));
    OK(rknn_query(ctx, RKNN_QUERY_INPUT_ATTR, &attrs[0], sizeof(attrs[0])));
    OK(rknn_query(ctx, RKNN_QUERY_OUTPUT_ATTR, &attrs[1], sizeof(attrs[1])));
    rknn_tensor_mem *mem[2] = {rknn_create_mem(ctx, attrs[0].size), rknn_create_mem(ctx, attrs[1].size)};
    CHECK(mem[0] && mem[1]);
    for (int i = 0; i < 2; i++)
        OK(rknn_set_io_mem(ctx, mem[i], &attrs[i]));
    memcpy(mem[0]->logical_addr, elements, length);
    OK(rknn_run(ctx, NULL));
    same(argv[2], "stored.u8", mem[1]->logical_addr, attrs[1].size);
    for (int i = 0; i < 2; i++)
        OK(rknn_destroy_mem(ctx, mem[i]));
    strcpy(attrs[0].name, "no such tensor");
    FAILS(rknn_set_io_mem(ctx, NULL, &attrs[0]));
    OK(rknn_destroy(ctx));

    /* Inputs mapped, outputs fetched, as the demo of that time does; then elements that pass through the common path. */
    OK(rknn_init(&ctx, model, (uint32_t)size, 0));
    OK(rknn_inputs_map(ctx, 1, &in));
    memcpy(in.logical_addr, elements, length);
    for (int turn = 0; turn < 2; turn++) {
        OK(rknn_inputs_sync(ctx, 1, &in));
        OK(rknn_run(ctx, NULL));
        rknn_output output = {.want_float = 0};
        OK(rknn_outputs_get(ctx, 1, &output, NULL));
        same(argv[2], "stored.u8", output.buf, output.size);
        OK(rknn_outputs_release(ctx, 1, &output));
    }
    OK(rknn_inputs_unmap(ctx, 1, &in));
    OK(rknn_destroy(ctx));
    OK(rknn_init(&ctx, model, (uint32_t)size, 0));
    rknn_input input = {.buf = elements, .size = (uint32_t)length, .pass_through = 1, .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_NCHW};
    OK(rknn_inputs_set(ctx, 1, &input));
    OK(rknn_run(ctx, NULL));
    rknn_output output = {.want_float = 0};
    OK(rknn_outputs_get(ctx, 1, &output, NULL));
    same(argv[2], "stored.u8", output.buf, output.size);
    OK(rknn_outputs_release(ctx, 1, &output));
    OK(rknn_destroy(ctx));
    free(model);
    free(elements);
    return 0;
}
