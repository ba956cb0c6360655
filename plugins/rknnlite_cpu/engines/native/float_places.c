/* Pixels that are taken from elsewhere: rows and columns of x by their numbers, one of each or weighted sums of two.
 *
 * `bias` has the numbers of the rows for each row of y, low and high ones, then those of the columns; -1 stands for zeros. `factor`
 * has as many weights.
 */
#include "float_stage.h"

#define SIZE ((int64_t)sizeof(float))

static void pick(const struct op *op, const struct scene *scene, int64_t item, int64_t line)
{
    const int32_t *columns = op->bias + 2 * op->y.height;
    int64_t row = op->bias[line];
    for (int64_t i = 0; i < op->y.width; i++) {
        Q *y = pixel(scene, &op->y, item, line, i);
        if (row < 0 || columns[i] < 0)
            memset(y, 0, op->y.channels);
        else
            memcpy(y, pixel(scene, &op->x, item, row, columns[i]), op->y.channels);
    }
}

static void mix(const struct op *op, const struct scene *scene, int64_t item, int64_t line)
{
    int64_t height = op->y.height, width = op->y.width, room = room_of(&op->y) / SIZE;
    const int32_t *rows = op->bias, *columns = rows + 2 * height;
    const float *down = op->factor, *across = down + 2 * height;
    for (int64_t i = 0; i < width; i++) {
        float *y = (float *)pixel(scene, &op->y, item, line, i), weights[4];
        const float *from[4];
        for (int j = 0; j < 4; j++) {
            int64_t row = rows[j / 2 * height + line], column = columns[j % 2 * width + i];
            from[j] = float_pixel(scene, &op->x, item, row, column);
            weights[j] = across[j % 2 * width + i] * down[j / 2 * height + line];
        }
        for (int64_t c = 0; c < room; c += LANES) {
            vf sum = load_f(from[0] + c) * weights[0];
            UNROLL
            for (int j = 1; j < 4; j++)
                sum = sum + load_f(from[j] + c) * weights[j];
            store_some(y + c, rounded(sum), room - c);
        }
    }
}

void float_place(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    int64_t from, to;
    part_of(op->y.items * op->y.height, task, tasks, &from, &to);
    for (int64_t i = from; i < to; i++) {
        if (op->kind == FLOAT_PICK)
            pick(op, scene, i / op->y.height, i % op->y.height);
        else
            mix(op, scene, i / op->y.height, i % op->y.height);
    }
}

/* Whether all values of a pixel are finite: else a convolution makes NaN of them, wherever its weight is 0. */
INLINE int all_finite(const float *x, int64_t count)
{
    vf sums = {};
    int64_t c = 0;
    for (; c + LANES <= count; c += LANES)
        sums += load_f(x + c) * 0.0f;
    for (; c < count; c++)
        sums[0] += x[c] * 0.0f;
    return total(sums == sums) == -LANES;
}

/* Values of the vector at `from` by their places in it. */
INLINE vf places_of(const float *from, vi places)
{
#if LANES == 16
    return (vf)_mm512_permutexvar_ps((__m512i)places, (__m512)load_f(from));
#elif LANES == 8
    return (vf)_mm256_permutevar8x32_ps((__m256)load_f(from), (__m256i)places);
#else
    vf v;
    for (int j = 0; j < LANES; j++)
        v[j] = from[places[j]];
    return v;
#endif
}

/* A vector of sums of a pixel, from channel `c` on. */
INLINE vf selected(const struct op *op, const float *x, int64_t c)
{
    int64_t first = op->sizes[c / LANES];
    vi places = load_i(op->zeros + c);
    vf v;
    if (first >= 0) {
        v = places_of(x + first, places - (int32_t)first);
    } else {
        for (int j = 0; j < LANES; j++)
            v[j] = x[places[j]];
    }
    return v * load_f(op->numbers + c);
}

/* The same of a pixel that has infinite values, or NaN. */
static __attribute__((noinline)) vf all_products(const struct op *op, const float *x, int64_t c)
{
    vf sums = {};
    for (int j = 0; j < LANES; j++)
        for (int64_t k = 0; k < op->x.channels / SIZE; k++)
            sums[j] += x[k] * (k == op->zeros[c + j] ? op->numbers[c + j] : 0.0f);
    return sums;
}

INLINE void select_pixels(const struct op *op, const int64_t flags, const struct scene *scene, int64_t from, int64_t to)
{
    const struct float_stage stage = float_stage_of(op);
    const int64_t room = room_of(&op->y) / SIZE, plane = op->y.height * op->y.width;
    const int joined = !!(flags & (JOIN_ADD | JOIN_MULTIPLY));
    const int whole = joined && (op->other.height * op->other.width > 1 || plane == 1);
    for (int64_t i = from; i < to; i++) {
        const float *x = (const float *)(scene->work + op->x.offset + i * op->x.pitch);
        const float *other = (const float *)(scene->work + op->other.offset + (whole ? i : i / plane) * op->other.pitch);
        float *y = (float *)(scene->work + op->y.offset + i * op->y.pitch);
        const int finite = all_finite(x, op->x.channels / SIZE);
        for (int64_t c = 0; c < room; c += LANES) {
            vf v = finite ? selected(op, x, c) : all_products(op, x, c);
            store_some(y + c, float_finished(&stage, flags, v, c, joined ? load_f(other + c) : (vf){}), room - c);
        }
    }
}

/* A convolution of 1x1 each of whose results is one channel of x times a weight: `zeros` has their numbers, `numbers` the weights.
 * `sizes` has for each vector the channel from which on a vector of x holds all that it takes, or -1. */
void float_select(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    int64_t from, to;
    part_of(op->y.items * op->y.height * op->y.width, task, tasks, &from, &to);
    if (op->flags == 0)
        select_pixels(op, 0, scene, from, to);
    else if (op->flags == (STORED | JOIN_ADD))
        select_pixels(op, STORED | JOIN_ADD, scene, from, to);
    else
        select_pixels(op, op->flags, scene, from, to);
}
