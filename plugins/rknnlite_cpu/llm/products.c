/* Products of float32 rows with the tiles of a language model's matrix (plugins/rknnlite_llm/container/weight_types.py), read where they
 * lie in the file. Sums are float32; nothing is rounded that linear.py does not round, only in another order.
 *
 * A tile has 32 inputs and 128 outputs. The vector type is as wide as the processor's registers.
 */
#include "products.h"
#include "vectors.h"

#if defined(__AVX512F__)
#define MANY_ROWS 12
#elif defined(__AVX2__)
#define MANY_ROWS 4
#else
#define MANY_ROWS 8
#endif

#define WIDE 8                       /* vectors of outputs that are summed at a time for one row: as many as the latency of an addition asks for */
#define PAIR (2 * LANES)             /* outputs that one step of the large product has in registers */
#define MOST_FEW 16
#define LINE 64
#define QUARTER 32                   /* outputs of a tile that the large product widens at a time, ... */
#define DEEP 8                       /* ... of so many groups: 32 KiB, which stay in the first cache */

typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef uint16_t u16 __attribute__((vector_size(2 * LANES)));

/* Row `row` of a tile, LANES outputs from `column`; of W4 half of them. */
INLINE vf widened(enum kind kind, const void *tile, int row, int column)
{
    int place = row * COLUMNS + column;
    if (kind == F16)
        return half_to_float((const uint16_t *)tile + place);
    if (kind == BF16) {
        u16 bits;
        memcpy(&bits, (const uint16_t *)tile + place, sizeof bits);
        return (vf)(__builtin_convertvector(bits, vu) << 16);
    }
    if (kind == W8)
        return __builtin_convertvector(signed_bytes((const char *)tile + place), vf);
    vi both = signed_bytes((const char *)tile + row % (GROUP / 2) * COLUMNS + column);
    return __builtin_convertvector(((row < GROUP / 2 ? both : both >> 4) & 15) - 8, vf);
}

/* What lies in the `next` tile where row `k` of the codes is read in this one: files lie in small pages, at whose ends the
 * processor stops reading ahead, and one line at a time leaves room for the others. */
INLINE void fetch_next(enum kind kind, const char *next, int k, int column, int width)
{
    const int bytes = kind == F16 || kind == BF16 ? 2 : 1;
    next += (k * COLUMNS + column) * bytes;
    UNROLL for (int line = 0; line < width * LANES * bytes; line += LINE)
        __builtin_prefetch(next + line);
}

/* The scales of the next tile: four lines at a time are too few for the processor to read ahead by itself. */
INLINE void fetch_scales(const uint16_t *scale)
{
    UNROLL for (int at = 0; at < COLUMNS; at += LINE / (int)sizeof *scale)
        __builtin_prefetch(scale + at);
}

/* totals[r][column...] += the product of `width` vectors of a tile's rows with `rows` rows */
INLINE void strip_few(enum kind kind, int rows, int width, const char *tile, const char *next, const uint16_t *scale, const float *x,
                      intptr_t x_step, int column, float (*totals)[COLUMNS])
{
    vf sum[FEW_ROWS][WIDE];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int v = 0; v < width; v++)
            sum[r][v] = (vf){};
    if (kind == W4)
        for (int k = 0; k < GROUP / 2; k++) {
            fetch_next(kind, next, k, column, width);
            UNROLL for (int v = 0; v < width; v++) {
                vi both = signed_bytes(tile + k * COLUMNS + column + v * LANES);
#if defined(__AVX512F__) /* the lower four bits of a lane choose */
                const __m512 values = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
                vf low = (vf)_mm512_permutexvar_ps((__m512i)both, values);
                vf high = (vf)_mm512_permutexvar_ps((__m512i)(both >> 4), values);
#else
                vf low = __builtin_convertvector((both & 15) - 8, vf);
                vf high = __builtin_convertvector((both >> 4 & 15) - 8, vf);
#endif
                UNROLL for (int r = 0; r < rows; r++) {
                    sum[r][v] += low * x[r * x_step + k];
                    sum[r][v] += high * x[r * x_step + k + GROUP / 2];
                }
            }
        }
    else
        for (int k = 0; k < GROUP; k++) {
            fetch_next(kind, next, k, column, width);
            UNROLL for (int v = 0; v < width; v++) {
                vf weight = widened(kind, tile, k, column + v * LANES);
                UNROLL for (int r = 0; r < rows; r++)
                    sum[r][v] += weight * x[r * x_step + k];
            }
        }
    UNROLL for (int v = 0; v < width; v++) {
        int at = column + v * LANES;
        vf factor = scale ? half_to_float(scale + at) : (vf){} + 1.0f;
        UNROLL for (int r = 0; r < rows; r++)
            store(&totals[r][at], load(&totals[r][at]) + sum[r][v] * factor);
    }
}

INLINE void some_rows(enum kind kind, int rows, int width, const char *tile, const char *next, const uint16_t *scale, const float *x,
                      intptr_t x_step, float (*totals)[COLUMNS])
{
    for (int column = 0; column < COLUMNS; column += width * LANES)
        strip_few(kind, rows, width, tile, next, scale, x, x_step, column, totals);
}

/* Up to 16 rows with tiles `first` to `end`, counted as they lie; tile `then` is what is read after them. */
INLINE void few(enum kind kind, const struct matrix *m, intptr_t first, intptr_t end, intptr_t then, const float *x, intptr_t rows,
                float *out, float *rest)
{
    const intptr_t down = m->down, step = down * GROUP, size = tile_bytes[kind];
    for (intptr_t t = first; t < end;) {
        const intptr_t a = t / down, next = (a + 1) * down < end ? (a + 1) * down : end;
        float totals[MOST_FEW][COLUMNS];
        float *to = t > a * down ? rest : out + a * COLUMNS;
        const intptr_t to_step = t > a * down ? COLUMNS : m->across * COLUMNS;
        memset(totals, 0, rows * sizeof *totals);
        for (; t < next; t++) {
            const intptr_t following = t + 1 < end ? t + 1 : then;
            const char *tile = m->codes + t * size, *ahead = m->codes + following * size;
            const uint16_t *scale = m->scales ? m->scales + t * COLUMNS : 0;
            const float *here = x + (t - a * down) * GROUP;
            if (scale)
                fetch_scales(m->scales + following * COLUMNS);
            intptr_t r = 0;
            for (; r + FEW_ROWS <= rows; r += FEW_ROWS)
                some_rows(kind, FEW_ROWS, STRIP, tile, ahead, scale, here + r * step, step, totals + r);
            for (; r < rows; r++)
                some_rows(kind, 1, WIDE, tile, ahead, scale, here + r * step, step, totals + r);
        }
        for (intptr_t r = 0; r < rows; r++)
            memcpy(to + r * to_step, totals[r], sizeof *totals);
    }
}

/* A quarter of a tile, scales included, as wide[pair][input][PAIR]; a pair is `deep` inputs long. */
INLINE void widen(enum kind kind, const char *tile, const uint16_t *scale, int column, float *wide, intptr_t deep)
{
    for (int at = 0; at < QUARTER; at += LANES) {
        float *to = wide + at / PAIR * (deep * PAIR) + at % PAIR;
        vf factor = scale ? half_to_float(scale + column + at) : (vf){} + 1.0f;
        for (int k = 0; k < GROUP; k++)
            store(to + k * PAIR, widened(kind, tile, k, column + at) * factor);
    }
}

INLINE void step_many(int rows, const float *wide, const float *x, intptr_t x_step, intptr_t deep, float *out,
                      intptr_t out_step, int begin)
{
    vf sum[MANY_ROWS][2];
    UNROLL for (int r = 0; r < rows; r++) {
        sum[r][0] = begin ? (vf){} : load(out + r * out_step);
        sum[r][1] = begin ? (vf){} : load(out + r * out_step + LANES);
    }
    for (intptr_t k = 0; k < deep; k++) {
        vf left = load(wide + k * PAIR), right = load(wide + k * PAIR + LANES);
        UNROLL for (int r = 0; r < rows; r++) {
            sum[r][0] += left * x[r * x_step + k];
            sum[r][1] += right * x[r * x_step + k];
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        store(out + r * out_step, sum[r][0]);
        store(out + r * out_step + LANES, sum[r][1]);
    }
}

INLINE void many(enum kind kind, const struct matrix *m, intptr_t first, intptr_t end, const float *x, intptr_t rows, float *out)
{
    float wide[DEEP * GROUP * QUARTER];
    const intptr_t x_step = m->down * GROUP, out_step = m->across * COLUMNS;
    for (intptr_t q = first; q < end; q++) {
        intptr_t a = q / (COLUMNS / QUARTER);
        int column = q % (COLUMNS / QUARTER) * QUARTER;
        for (intptr_t d = 0; d < m->down; d += DEEP) {
            intptr_t groups = m->down - d < DEEP ? m->down - d : DEEP, deep = groups * GROUP;
            for (intptr_t g = 0; g < groups; g++) {
                intptr_t tile = a * m->down + d + g;
                const uint16_t *scale = m->scales ? m->scales + tile * COLUMNS : 0;
                widen(kind, m->codes + tile * tile_bytes[kind], scale, column, wide + g * GROUP * PAIR, deep);
            }
            for (int pair = 0; pair < QUARTER / PAIR; pair++) {
                const float *weights = wide + pair * deep * PAIR, *from = x + d * GROUP;
                float *to = out + q * QUARTER + pair * PAIR;
                intptr_t r = 0;
                for (; r + MANY_ROWS <= rows; r += MANY_ROWS)
                    step_many(MANY_ROWS, weights, from + r * x_step, x_step, deep, to + r * out_step, out_step, d == 0);
                for (; r + 4 <= rows; r += 4)
                    step_many(4, weights, from + r * x_step, x_step, deep, to + r * out_step, out_step, d == 0);
                for (; r < rows; r++)
                    step_many(1, weights, from + r * x_step, x_step, deep, to + r * out_step, out_step, d == 0);
            }
        }
    }
}

/* See products.h. */
void rknnlite_few(const struct matrix *m, intptr_t first, intptr_t end, intptr_t then, const float *x, intptr_t rows, float *out, float *rest)
{
    switch (m->kind) {
    case F16: few(F16, m, first, end, then, x, rows, out, rest); break;
    case BF16: few(BF16, m, first, end, then, x, rows, out, rest); break;
    case W8: few(W8, m, first, end, then, x, rows, out, rest); break;
    case W4: few(W4, m, first, end, then, x, rows, out, rest); break;
    }
}

/* out (rows, across * 128), of which outputs first * 32 to end * 32 are written. */
void rknnlite_many(const struct matrix *m, intptr_t first, intptr_t end, const float *x, intptr_t rows, float *out)
{
    switch (m->kind) {
    case F16: many(F16, m, first, end, x, rows, out); break;
    case BF16: many(BF16, m, first, end, x, rows, out); break;
    case W8: many(W8, m, first, end, x, rows, out); break;
    case W4: many(W4, m, first, end, x, rows, out); break;
    }
}
