/* benchmark MODEL FOLDER RUNS: durations per run and per core mask. FOLDER/masks: a line "mask code" for each mask. */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "check.h"

static int64_t now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    const char *folder = argv[2];
    const int runs = atoi(argv[3]);
    size_t size;
    char *masks = (char *)load(folder, "masks", &size);
    char *end = masks + size;

    rknn_context context = 0;
    OK(rknn_init(&context, argv[1], 0, RKNN_FLAG_COLLECT_PERF_MASK, NULL));
    rknn_tensor_attr in = attr_of(context, RKNN_QUERY_INPUT_ATTR, 0);
    void *data = load(folder, "in0.u8", &size);
    CHECK(size == in.n_elems);
    rknn_input input = given(0, data, size, RKNN_TENSOR_UINT8, RKNN_TENSOR_NHWC);

    for (char *line = masks; line < end;) {
        int mask = (int)strtol(line, &line, 0), expected = (int)strtol(line, &line, 10);
        while (line < end && *line <= ' ')
            line++;
        CODE(expected, rknn_set_core_mask(context, (rknn_core_mask)mask));
        int64_t total = 0, most = 0, least = INT64_MAX, started = now_us();
        for (int i = 0; i < runs; i++) {
            rknn_output output;
            rknn_perf_run perf;
            memset(&output, 0, sizeof output);
            output.want_float = 1;
            OK(rknn_inputs_set(context, 1, &input));
            int64_t before = now_us();
            OK(rknn_run(context, NULL));
            int64_t took = now_us() - before;
            OK(rknn_query(context, RKNN_QUERY_PERF_RUN, &perf, sizeof perf));
            CHECK(perf.run_duration > 0 && perf.run_duration <= took + 1);
            total += perf.run_duration;
            most = perf.run_duration > most ? perf.run_duration : most;
            least = perf.run_duration < least ? perf.run_duration : least;
            OK(rknn_outputs_get(context, 1, &output, NULL));
            same(folder, "out0.f32", output.buf, output.size);
            OK(rknn_outputs_release(context, 1, &output));
        }
        printf("mask %#x: %d runs, %lld to %lld us, mean %.1f us, %.1f frames a second\n", (unsigned)mask, runs,
               (long long)least, (long long)most, (double)total / runs, runs * 1e6 / (double)(now_us() - started));
    }
    free(data);
    free(masks);
    OK(rknn_destroy(context));
    return 0;
}
