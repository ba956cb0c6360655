/* The bare C calls of one inference in a loop: what benchmarks/rknnrt_overhead.py compares with.

   usage: bare MODEL common|prealloc|zerocopy COUNT */
#include "rknn_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        int code_ = (call);                                                                                  \
        if (code_) {                                                                                         \
            fprintf(stderr, "%s: %d\n", #call, code_);                                                       \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)


static rknn_context ctx;
static rknn_input_output_num num;

static rknn_tensor_attr attr(rknn_query_cmd cmd, uint32_t index) {
    rknn_tensor_attr a = {.index = index};
    CHECK(rknn_query(ctx, cmd, &a, sizeof a));
    return a;
}

static void common(int count, int prealloc) {
    rknn_input in[64] = {0};
    rknn_output out[64];
    void *buffers[64];
    uint32_t sizes[64];
    for (uint32_t i = 0; i < num.n_input; i++) {
        rknn_tensor_attr a = attr(RKNN_QUERY_INPUT_ATTR, i);
        in[i] = (rknn_input){i, calloc(1, a.n_elems), a.n_elems, 0, RKNN_TENSOR_UINT8, a.fmt};
    }
    for (uint32_t i = 0; i < num.n_output; i++) {
        sizes[i] = attr(RKNN_QUERY_OUTPUT_ATTR, i).n_elems * 4;
        buffers[i] = malloc(sizes[i]);
    }
    getppid(); /* the mark that closes a count of callgrind */
    while (count--) {
        memset(out, 0, sizeof out);
        for (uint32_t i = 0; i < num.n_output; i++) {
            out[i].index = i;
            out[i].want_float = 1;
            out[i].is_prealloc = prealloc;
            out[i].buf = prealloc ? buffers[i] : NULL;
            out[i].size = prealloc ? sizes[i] : 0;
        }
        CHECK(rknn_inputs_set(ctx, num.n_input, in));
        CHECK(rknn_run(ctx, NULL));
        CHECK(rknn_outputs_get(ctx, num.n_output, out, NULL));
        CHECK(rknn_outputs_release(ctx, num.n_output, out));
    }
    getppid(); /* the mark that closes a count of callgrind */
}

static void bind(rknn_query_cmd cmd, uint32_t index) {
    rknn_tensor_attr a = attr(cmd, index);
    CHECK(rknn_set_io_mem(ctx, rknn_create_mem(ctx, a.size_with_stride), &a));
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    CHECK(rknn_init(&ctx, argv[1], 0, 0, NULL));
    CHECK(rknn_query(ctx, RKNN_QUERY_IN_OUT_NUM, &num, sizeof num));
    int count = atoi(argv[3]);
    if (strcmp(argv[2], "zerocopy")) {
        common(count, !strcmp(argv[2], "prealloc"));
        return 0;
    }
    for (uint32_t i = 0; i < num.n_input; i++) bind(RKNN_QUERY_NATIVE_INPUT_ATTR, i);
    for (uint32_t i = 0; i < num.n_output; i++) bind(RKNN_QUERY_NATIVE_OUTPUT_ATTR, i);
    getppid(); /* the mark that closes a count of callgrind */
    while (count--) CHECK(rknn_run(ctx, NULL));
    getppid(); /* the mark that closes a count of callgrind */
    return 0;
}
