/* Runs one program of the native engine under emulation: reads ops, arrays and inputs, writes results (see test_native.py). */
#include "program.h"
#include <stdio.h>
#include <stdlib.h>

int64_t rknnlite_scratch(const struct op *ops, int64_t count, int threads);
int rknnlite_run(const struct op *ops, int64_t count, Q *work, int64_t size, int64_t scratch, int threads,
                 const float *const *inputs, float *const *outputs);

static void *taken(int64_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!memory || fread(memory, 1, bytes, stdin) != (size_t)bytes)
        exit(2);
    return memory;
}

int main(int argc, char **argv)
{
    int64_t *sizes = taken(6 * sizeof *sizes); /* ops, bytes of arrays, of the workspace, of the input, of the result; threads */
    struct op *ops = taken(sizes[0] * sizeof *ops);
    char *arrays = taken(sizes[1]);
    for (struct op *op = ops; op < ops + sizes[0]; op++) { /* places in the arrays, counted from 1, become addresses */
        const void **places = (const void **)&op->weights;
        for (int i = 0; i < ADDRESSES; i++)
            places[i] = places[i] ? arrays + (intptr_t)places[i] - 1 : NULL;
    }
    int64_t scratch = rknnlite_scratch(ops, sizes[0], sizes[5]);
    const float *input = taken(sizes[3]);
    float *output = aligned_alloc(64, sizes[4] + 64);
    Q *work = aligned_alloc(64, (sizes[2] + sizes[5] * scratch + 1024) / 64 * 64);
    (void)argc, (void)argv;
    if (rknnlite_run(ops, sizes[0], work, sizes[2], scratch, sizes[5], &input, &output))
        return 3;
    return fwrite(output, 1, sizes[4], stdout) != (size_t)sizes[4];
}
