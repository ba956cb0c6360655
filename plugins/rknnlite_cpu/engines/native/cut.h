/* How the work of an op is divided into tasks, of bytes and of floats alike. */
#ifndef RKNNLITE_CUT_H
#define RKNNLITE_CUT_H
#include "program.h"

/* How many tasks are worth their while: one, or the same number for each thread. */
INLINE int64_t tasks_wanted(int64_t work, int64_t worth, int threads)
{
    int64_t wanted = work / worth + 1;
    if (threads == 1 || wanted == 1)
        return 1;
    return least((wanted + threads - 1) / threads * threads, 4 * threads);
}

struct shares {
    int64_t bands, splits; /* parts of the rows, and of what lies across them */
};

/* `fewest` bands or more, so that no thread has much more to do than another. What is done once for a row of a task counts as a
 * block, and what is done once for a task a sixth of what makes a task worth its while. */
INLINE struct shares shares_of(int64_t rows, int64_t blocks, int64_t wanted, int64_t fewest, int threads)
{
    struct shares best = {least(rows, fewest), 1};
    if (wanted == 1)
        return best;
    int64_t lowest = INT64_MAX;
    for (int64_t tried = 4 * threads; tried > 0; tried = tried > threads ? tried / 2 : tried > 1 ? 1 : 0) {
        struct shares found = {least(rows, most(fewest, least(tried, wanted))), 1};
        found.splits = least(blocks, (wanted + found.bands - 1) / found.bands);
        int64_t turns = (found.bands * found.splits + threads - 1) / threads;
        int64_t most_rows = (rows + found.bands - 1) / found.bands, most_blocks = (blocks + found.splits - 1) / found.splits;
        int64_t cost = turns * (6 * wanted * most_rows * (most_blocks + 1) + rows * (blocks + 1));
        if (cost < lowest)
            lowest = cost, best = found;
    }
    return best;
}

/* What a kernel of convolutions says of itself. */
struct kernel {
    int64_t value, block; /* bytes of a value, output channels at a time */
    int64_t line, worth, cached; /* positions that make a row where a plane has none, products of a task, bytes of x of a task */
};

struct cut {
    int64_t lines, width, bands, splits, blocks; /* rows of y of all items, and what they are divided into */
};

/* Whether positions are pixels of x in their order, wherever a row ends. */
INLINE int is_flat(const struct op *op)
{
    return op->kernel[0] == 1 && op->kernel[1] == 1 && op->strides[0] == 1 && op->strides[1] == 1 && !padded(op)
           && op->x.height == op->y.height && op->x.width == op->y.width;
}

/* Products that a result is worth besides its own. */
INLINE int64_t products_of_a_result(const struct op *op)
{
    if (!(op->flags & FUNCTION))
        return 32;
    return op->function == TABLE_OF_INDICES ? 1024 : 128;
}

INLINE struct cut cut_of(const struct op *op, int threads, const struct kernel *kernel)
{
    struct cut cut = {op->y.items * op->y.height, op->y.width, 1, 1, 0};
    int64_t positions = cut.lines * cut.width, channels = op->y.channels / kernel->value;
    int64_t products = op->x.channels / kernel->value * op->kernel[0] * op->kernel[1] + products_of_a_result(op);
    int64_t wanted = tasks_wanted(positions * channels * products, kernel->worth, threads), items = op->y.items;
    if (is_flat(op)) { /* rows of about the same length */
        cut.lines = (positions + kernel->line - 1) / kernel->line;
        if (wanted > 1)
            cut.lines = (cut.lines + threads - 1) / threads * threads;
        cut.width = (positions + cut.lines - 1) / cut.lines;
        cut.lines = (positions + cut.width - 1) / cut.width;
        items = 1;
    }
    cut.blocks = (channels + kernel->block - 1) / kernel->block;
    int64_t bytes = op->x.items * op->x.height * op->x.width * op->x.pitch;
    struct shares shares = shares_of(
        cut.lines / items, cut.blocks, (wanted + items - 1) / items, ((bytes + kernel->cached - 1) / kernel->cached + items - 1) / items,
        threads);
    cut.bands = shares.bands * items, cut.splits = shares.splits;
    return cut;
}
#endif
