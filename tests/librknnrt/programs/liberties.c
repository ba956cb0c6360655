/* What programs allow themselves: sizes beyond the data, NCHW, outputs without an index, in another order, or not all. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "check.h"

#include <sys/mman.h>
#include <unistd.h>

/* A copy whose last byte is the last that can be read. */
static void *at_the_edge(const void *data, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (size + page - 1) / page * page;
    char *at = (char *)mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED && mprotect(at + room, page, PROT_NONE) == 0);
    return memcpy(at + room - size, data, size);
}

/* Fetch outputs of these indices, and find the goldens of ``expected`` in them. */
static void fetch(rknn_context context, const char *folder, const uint32_t *index, const uint32_t *expected, uint32_t count)
{
    rknn_output outputs[3];
    memset(outputs, 0, sizeof outputs);
    for (uint32_t i = 0; i < count; i++) {
        outputs[i].index = index[i];
        outputs[i].want_float = 1;
    }
    OK(rknn_outputs_get(context, count, outputs, NULL));
    for (uint32_t i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "out%u.f32", expected[i]);
        CHECK(outputs[i].index == expected[i]);
        same(folder, name, outputs[i].buf, outputs[i].size);
    }
    OK(rknn_outputs_release(context, count, outputs));
}

static void outputs(rknn_context context, const char *folder)
{
    static const uint32_t in_order[] = {0, 1, 2}, zeros[] = {0, 0, 0}, turned[] = {2, 0, 1}, beyond[] = {7, 8, 9};
    for (int frame = 0; frame < 3; frame++) {
        OK(rknn_run(context, NULL));
        fetch(context, folder, zeros, in_order, 3);
        fetch(context, folder, turned, turned, 3);
        OK(rknn_run(context, NULL));
        fetch(context, folder, turned, turned, 3);
        fetch(context, folder, beyond, in_order, 3);
        fetch(context, folder, turned, turned, 1);
        OK(rknn_run(context, NULL));
        fetch(context, folder, in_order, in_order, 2);
    }
    rknn_output four[4];
    memset(four, 0, sizeof four);
    CODE(RKNN_ERR_PARAM_INVALID, rknn_outputs_get(context, 4, four, NULL));
}

int main(int argc, char **argv)
{
    rknn_context context = 0;
    size_t size;
    CHECK(argc == 3);
    OK(rknn_init(&context, argv[1], 0, 0, NULL));
    void *nhwc = load(argv[2], "in0.u8", &size), *nchw = load(argv[2], "turned.u8", NULL);
    void *edge = at_the_edge(nhwc, size);
    rknn_input input = given(0, edge, 4 * size, RKNN_TENSOR_UINT8, RKNN_TENSOR_NHWC);
    OK(rknn_inputs_set(context, 1, &input));
    outputs(context, argv[2]);
    OK(rknn_inputs_set(context, 1, &input)); /* what the server knows already */
    outputs(context, argv[2]);
    input.size -= (uint32_t)(3 * size + 1);
    CODE(RKNN_ERR_PARAM_INVALID, rknn_inputs_set(context, 1, &input));
    input = given(0, nchw, size, RKNN_TENSOR_UINT8, RKNN_TENSOR_NCHW);
    for (int frame = 0; frame < 2; frame++) {
        OK(rknn_inputs_set(context, 1, &input));
        outputs(context, argv[2]);
    }
    free(nhwc);
    free(nchw);
    return rknn_destroy(context);
}
