/* measured MODEL: does what lines of its input say, "WHAT COUNT", and answers each with the microseconds of one.
 *
 * init: open and destroy; query: an attribute; run: PERF_RUN, which the server answers; frame: inputs, run, outputs into
 * the program's memory; zero: a run on bound memory.
 */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "check.h"

static const char *model;
static rknn_context context, bound;
static rknn_tensor_mem *memories[2];

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void init(void)
{
    rknn_context opened = 0;
    OK(rknn_init(&opened, (void *)model, 0, 0, NULL));
    OK(rknn_destroy(opened));
}

static void query(void)
{
    attr_of(context, RKNN_QUERY_INPUT_ATTR, 0);
}

static void run(void)
{
    rknn_perf_run perf;
    OK(rknn_query(context, RKNN_QUERY_PERF_RUN, &perf, sizeof perf));
}

static void one_frame(void)
{
    static rknn_tensor_attr in, out;
    static void *pixels, *scores;
    if (!pixels) {
        in = attr_of(context, RKNN_QUERY_INPUT_ATTR, 0);
        out = attr_of(context, RKNN_QUERY_OUTPUT_ATTR, 0);
        pixels = calloc(1, in.n_elems);
        scores = malloc(out.n_elems * 4);
        CHECK(pixels && scores);
    }
    rknn_input input = given(0, pixels, in.n_elems, RKNN_TENSOR_UINT8, in.fmt);
    rknn_output output;
    memset(&output, 0, sizeof output);
    output.want_float = output.is_prealloc = 1;
    output.buf = scores;
    output.size = out.n_elems * 4;
    OK(rknn_inputs_set(context, 1, &input));
    OK(rknn_run(context, NULL));
    OK(rknn_outputs_get(context, 1, &output, NULL));
    OK(rknn_outputs_release(context, 1, &output));
}

static void zero(void)
{
    if (!bound) {
        OK(rknn_init(&bound, (void *)model, 0, 0, NULL));
        rknn_tensor_attr in = attr_of(bound, RKNN_QUERY_NATIVE_INPUT_ATTR, 0), out = attr_of(bound, RKNN_QUERY_OUTPUT_ATTR, 0);
        in.type = RKNN_TENSOR_UINT8;
        out.type = RKNN_TENSOR_FLOAT32;
        out.size = out.n_elems * 4;
        memories[0] = rknn_create_mem(bound, in.size_with_stride);
        memories[1] = rknn_create_mem(bound, out.size);
        CHECK(memories[0] && memories[1]);
        OK(rknn_set_io_mem(bound, memories[0], &in));
        OK(rknn_set_io_mem(bound, memories[1], &out));
    }
    OK(rknn_run(bound, NULL));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*work)(void);
    } works[] = {{"init", init}, {"query", query}, {"run", run}, {"frame", one_frame}, {"zero", zero}};
    char name[16];
    long count;
    CHECK(argc == 2);
    model = argv[1];
    while (scanf("%15s %ld", name, &count) == 2) {
        size_t which = 0;
        while (which < sizeof works / sizeof *works && strcmp(works[which].name, name))
            which++;
        CHECK(which < sizeof works / sizeof *works && count > 0);
        if (which && !context)
            OK(rknn_init(&context, (void *)model, 0, 0, NULL));
        double started = now();
        for (long i = 0; i < count; i++)
            works[which].work();
        printf("%.3f\n", (now() - started) / (double)count);
        fflush(stdout);
    }
    return 0;
}
