/* Attention of a few rows over keys and values, read where they lie in the cache. attention.py is the definition; sums,
 * exponentials and quotients are float32, in another order and by other approximations.
 *
 * Keys come in blocks, of each of which a row's largest score is known before its exponentials are summed; what was summed
 * before shrinks by the exponential of the difference when a later block has a larger one.
 */
#include "attention.h"
#include "store.h"

#define BLOCK 32                     /* keys that are widened at a time */
#define MOST_ROWS 32                 /* rows that one reading of the cache serves */
#define LINE 64
#define LOWEST (-0x1.fffffep127f)

struct block {
    float wide[BLOCK * MOST_WIDTH];
    float shares[MOST_ROWS][BLOCK];  /* of the keys in a row's sum, before it is divided */
    float shrink[MOST_ROWS];
};

/* Keys as wide[LANES keys][vector of a key][key][lane], so that the same vector of LANES keys lies together. */
INLINE void widen_keys(const struct attention *a, intptr_t head, intptr_t slot, intptr_t count, float *wide)
{
    float row[MOST_WIDTH];
    for (intptr_t k = 0; k < count; k++) {
        float *to = wide + k / LANES * LANES * a->width + k % LANES * LANES;
        if (a->store->kind == HALF) {
            for (intptr_t at = 0; at < a->width; at += LANES)
                store(to + at * LANES, halves(key_at(a->store, head, slot + k), at, a->dim));
            continue;
        }
        read_key(a->store, head, slot + k, row, a->width);
        for (intptr_t at = 0; at < a->width; at += LANES)
            store(to + at * LANES, load(row + at));
    }
}

INLINE void widen_values(const struct attention *a, intptr_t head, intptr_t slot, intptr_t count, float *wide)
{
    for (intptr_t k = 0; k < count; k++)
        read_value(a->store, head, slot + k, wide + k * a->width, a->width);
}

/* Part `i` of `parts` of a block that is widened next: it comes while rows are multiplied, which by itself it would not. */
INLINE void fetch(const struct attention *a, const char *from, int i, int parts)
{
    const intptr_t lines = (BLOCK * row_bytes(a->store) + LINE - 1) / LINE;
    for (intptr_t line = lines * i / parts; line < lines * (i + 1) / parts; line++)
        __builtin_prefetch(from + line * LINE);
}

/* Products of a row with LANES keys. */
INLINE vf products(const float *row, const float *keys, intptr_t width)
{
    vf sums[LANES];
    UNROLL for (int k = 0; k < LANES; k++)
        sums[k] = (vf){};
    for (intptr_t at = 0; at < width; at += LANES) {
        vf part = load(row + at);
        UNROLL for (int k = 0; k < LANES; k++)
            sums[k] += load(keys + (at + k) * LANES) * part;
    }
    return folded(sums);
}

/* Scores of row r (of all heads) and the keys from `key`, the first LANES of `count` that lie in `keys`. */
INLINE vf scores(const struct attention *a, intptr_t r, intptr_t key, intptr_t count, const float *keys)
{
    const vi lane = {COUNTED};
    vf score = (vf){};
    if (key + LANES > a->keep)
        score = products(a->turned + r * a->width, keys, a->width);
    if (key < a->keep)
        score = chosen(lane < (int32_t)(a->keep - key < LANES ? a->keep - key : LANES), products(a->kept + r * a->width, keys, a->width), score);
    if (a->cap != 0)
        score = hyperbolic_tangent(score / a->cap) * a->cap;
    if (a->mask) {
        float some[LANES] = {0};
        memcpy(some, a->mask + r % a->rows % a->tokens * a->keys + key, (count < LANES ? count : LANES) * sizeof *some);
        score += load(some);
    }
    return count < LANES ? chosen(lane < (int32_t)count, score, all(-INFINITY)) : score;
}

/* One row and `count` keys of a block: shares of the keys, and by how much those of the keys before shrink. */
INLINE void weigh(const struct attention *a, intptr_t r, intptr_t key, intptr_t count, struct block *block, int place, vf *peak, vf *total)
{
    vf found[BLOCK / LANES], top = *peak;
    for (int i = 0; i * LANES < count; i++) {
        found[i] = scores(a, r, key + i * LANES, count - i * LANES, block->wide + i * LANES * a->width);
        top = larger(found[i], top);
    }
    top = largest(top);
    vf shrink = exponential(*peak - top), sum = *total * shrink;
    for (int i = 0; i * LANES < count; i++) {
        vf share = exponential(found[i] - top);
        store(&block->shares[place][i * LANES], share);
        sum += share;
    }
    block->shrink[place] = shrink[0];
    *peak = top;
    *total = sum;
}

/* out (rows, width) += what `count` values are worth to some rows, in `strip` vectors of them */
INLINE void mix_strip(const struct block *block, int place, int rows, int strip, intptr_t count, intptr_t width, intptr_t at, float *out)
{
    vf sum[FEW_ROWS][STRIP];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int v = 0; v < strip; v++)
            sum[r][v] = load(out + r * width + at + v * LANES) * block->shrink[place + r];
    for (intptr_t k = 0; k < count; k++)
        UNROLL for (int v = 0; v < strip; v++) {
            vf value = load(block->wide + k * width + at + v * LANES);
            UNROLL for (int r = 0; r < rows; r++)
                sum[r][v] += value * block->shares[place + r][k];
        }
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int v = 0; v < strip; v++)
            store(out + r * width + at + v * LANES, sum[r][v]);
}

INLINE void mix(const struct block *block, int place, int rows, intptr_t count, intptr_t width, float *out)
{
    intptr_t at = 0;
    for (; at + STRIP * LANES <= width; at += STRIP * LANES)
        mix_strip(block, place, rows, STRIP, count, width, at, out);
    for (; at < width; at += LANES)
        mix_strip(block, place, rows, 1, count, width, at, out);
}

/* Rows r to r + some of one head of keys. */
static void attend(const struct attention *a, intptr_t head, intptr_t r, int some, intptr_t first, intptr_t end, float *mixed,
                   float *peaks, float *totals)
{
    struct block block;
    vf peak[MOST_ROWS], total[MOST_ROWS], sums[LANES];
    float *out = mixed + r * a->width;
    memset(out, 0, some * a->width * sizeof *out);
    memset(block.wide, 0, BLOCK * a->width * sizeof *block.wide); /* for lanes that have no key */
    for (int i = 0; i < some; i++)
        peak[i] = all(LOWEST), total[i] = (vf){};
    for (intptr_t key = first; key < end; key += BLOCK) {
        intptr_t count = end - key < BLOCK ? end - key : BLOCK;
        const char *keys = key_at(a->store, head, a->slot + key), *values = value_at(a->store, head, a->slot + key);
        widen_keys(a, head, a->slot + key, count, block.wide);
        for (int i = 0; i < some; i++) {
            fetch(a, values, i, some);
            weigh(a, r + i, key, count, &block, i, &peak[i], &total[i]);
        }
        widen_values(a, head, a->slot + key, count, block.wide);
        for (int i = 0, rows; i < some; i += rows) {
            rows = some - i < FEW_ROWS ? 1 : FEW_ROWS;
            for (int n = i; n < i + rows; n++)
                fetch(a, keys + BLOCK * row_bytes(a->store), n, some);
            if (rows == FEW_ROWS)
                mix(&block, i, FEW_ROWS, count, a->width, out + i * a->width);
            else
                mix(&block, i, 1, count, a->width, out + i * a->width);
        }
    }
    for (int i = 0; i < some; i++) {
        UNROLL for (int l = 0; l < LANES; l++)
            sums[l] = total[i];
        peaks[r + i] = peak[i][0];
        totals[r + i] = folded(sums)[0];
        for (intptr_t at = 0; at < a->width; at++)
            out[i * a->width + at] /= totals[r + i];
    }
}

/* See attention.h. */
void rknnlite_attend(const struct attention *a, intptr_t head, intptr_t heads, intptr_t first, intptr_t end, float *mixed, float *peaks,
                     float *totals)
{
    for (; head < heads; head++)
        for (intptr_t r = 0; r < a->rows; r += MOST_ROWS) {
            int some = a->rows - r < MOST_ROWS ? a->rows - r : MOST_ROWS;
            attend(a, head, head * a->rows + r, some, first, end, mixed, peaks, totals);
        }
}
