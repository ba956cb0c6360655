/* Attention of a few rows over keys and values in float16, read where they lie in the cache. attention.py is the definition; sums,
 * exponentials and quotients are float32, in another order and by other approximations.
 *
 * Keys come in blocks, of each of which a row's largest score is known before its exponentials are summed; what was summed
 * before shrinks by the exponential of the difference when a later block has a larger one.
 */
#include <math.h>
#include "vectors.h"

#define BLOCK 32                     /* keys that are widened at a time */
#define MOST_WIDTH 512               /* numbers of a key: a block of them stays in the second cache, most in the first */
#define MOST_ROWS 32                 /* rows that one reading of the cache serves */
#define LINE 64
#define LOWEST (-0x1.fffffep127f)

/* Of each head of keys: rows (heads, rows, width) with `dim` numbers and zeros behind them, width a multiple of 16, in the order of
 * the query heads that share it, each with its `tokens`; keys and values with steps between heads. The first `keep` keys are seen
 * by `kept` rows, the others by `turned` ones. mask (tokens, keys), which is added to the scores, or 0; cap 0: none. */
struct attention {
    intptr_t heads, rows, tokens, dim, width, keys, keep, key_step, value_step;
    const float *turned, *kept, *mask;
    const uint16_t *key, *value;
    float cap;
};

struct block {
    float wide[BLOCK * MOST_WIDTH];
    float shares[MOST_ROWS][BLOCK];  /* of the keys in a row's sum, before it is divided */
    float shrink[MOST_ROWS];
};

#if LANES == 16
#define LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define COUNTED 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#elif LANES == 8
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define COUNTED 0, 1, 2, 3, 4, 5, 6, 7
#else
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#define COUNTED 0, 1, 2, 3
#endif
#if defined(__clang__)
#define ONE_BY_ONE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define ONE_BY_ONE(a, b, ...) __builtin_shuffle(a, b, (vi){__VA_ARGS__})
#endif

INLINE vf chosen(vi which, vf a, vf b) { return (vf)((which & (vi)a) | (~which & (vi)b)); }
INLINE vf all(float value) { return (vf){} + value; }
INLINE vf larger(vf a, vf b) { return chosen(a > b, a, b); }

/* Lane l is the sum of all lanes of sums[l]. */
INLINE vf folded(vf *sums)
{
    UNROLL for (int left = LANES / 2; left; left /= 2)
        UNROLL for (int i = 0; i < left; i++)
            sums[i] = ONE_BY_ONE(sums[i], sums[i + left], LOW) + ONE_BY_ONE(sums[i], sums[i + left], HIGH);
    return sums[0];
}

/* Every lane is the largest of all. */
INLINE vf largest(vf v)
{
    UNROLL for (int left = LANES / 2; left; left /= 2)
        v = larger(ONE_BY_ONE(v, v, LOW), ONE_BY_ONE(v, v, HIGH));
    return v;
}

/* Up to x = 88 within two units of the last place; below -87 it is 0, and what is no number stays none. */
INLINE vf exponential(vf x)
{
    const vf magic = all(12582912.0f); /* its last bit is worth 1 */
    vf shifted = x * 1.44269504f + magic, whole = shifted - magic;
    vf rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    vf sum = rest * 1.9875691500e-4f + 1.3981999507e-3f;
    sum = sum * rest + 8.3334519073e-3f;
    sum = sum * rest + 4.1665795894e-2f;
    sum = sum * rest + 1.6666665459e-1f;
    sum = sum * rest + 5.0000001201e-1f;
    sum = sum * (rest * rest) + rest + 1.0f;
    vf power = (vf)(((vi)shifted << 23) + (127 << 23));
    return chosen(x < -87.0f, all(0), sum * power);
}

INLINE vf hyperbolic_tangent(vf x)
{
    const vi sign = (vi){} + INT32_MIN;
    vf size = (vf)((vi)x & ~sign), square = x * x;
    vf sum = square * -5.70498872745e-3f + 2.06390887954e-2f;
    sum = sum * square - 5.37397155531e-2f;
    sum = sum * square + 1.33314422036e-1f;
    sum = sum * square - 3.33332819422e-1f;
    vf far = 1.0f - 2.0f / (exponential(2.0f * chosen(size > 10.0f, all(10), size)) + 1.0f);
    return chosen(size < 0.625f, x + x * square * sum, (vf)((vi)far | ((vi)x & sign)));
}

/* LANES numbers from `at`; zeros for those from `end` on. */
INLINE vf widened(const uint16_t *from, intptr_t at, intptr_t end)
{
    if (at + LANES <= end)
        return half_to_float(from + at);
    uint16_t some[LANES] = {0};
    if (at < end)
        memcpy(some, from + at, (end - at) * sizeof *some);
    return half_to_float(some);
}

/* Keys as wide[LANES keys][vector of a key][key][lane], so that the same vector of LANES keys lies together. */
INLINE void widen_keys(const struct attention *a, const uint16_t *from, intptr_t count, float *wide)
{
    for (intptr_t k = 0; k < count; k++) {
        float *to = wide + k / LANES * LANES * a->width + k % LANES * LANES;
        for (intptr_t at = 0; at < a->width; at += LANES)
            store(to + at * LANES, widened(from + k * a->dim, at, a->dim));
    }
}

INLINE void widen_values(const struct attention *a, const uint16_t *from, intptr_t count, float *wide)
{
    for (intptr_t k = 0; k < count; k++)
        for (intptr_t at = 0; at < a->width; at += LANES)
            store(wide + k * a->width + at, widened(from + k * a->dim, at, a->dim));
}

/* Part `i` of `parts` of a block that is widened next: it comes while rows are multiplied, which by itself it would not. */
INLINE void fetch(const struct attention *a, const uint16_t *from, int i, int parts)
{
    const intptr_t step = LINE / sizeof *from, lines = (BLOCK * a->dim + step - 1) / step;
    for (intptr_t line = lines * i / parts; line < lines * (i + 1) / parts; line++)
        __builtin_prefetch(from + line * step);
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
        const uint16_t *keys = a->key + head * a->key_step + key * a->dim;
        const uint16_t *values = a->value + head * a->value_step + key * a->dim;
        widen_keys(a, keys, count, block.wide);
        for (int i = 0; i < some; i++) {
            fetch(a, values, i, some);
            weigh(a, r + i, key, count, &block, i, &peak[i], &total[i]);
        }
        widen_values(a, values, count, block.wide);
        for (int i = 0, rows; i < some; i += rows) {
            rows = some - i < FEW_ROWS ? 1 : FEW_ROWS;
            for (int n = i; n < i + rows; n++)
                fetch(a, keys + BLOCK * a->dim, n, some);
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

/* What rows see of the keys `first` to `end`: mixed (heads, rows, width), divided, with the largest score of each row and the total of its
 * exponentials beside that, by which results of other keys can be added. */
void rknnlite_attend(const struct attention *a, intptr_t first, intptr_t end, float *mixed, float *peaks, float *totals)
{
    for (intptr_t head = 0; head < a->heads; head++)
        for (intptr_t r = 0; r < a->rows; r += MOST_ROWS) {
            int some = a->rows - r < MOST_ROWS ? a->rows - r : MOST_ROWS;
            attend(a, head, head * a->rows + r, some, first, end, mixed, peaks, totals);
        }
}
