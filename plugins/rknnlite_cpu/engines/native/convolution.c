/* Convolution of 8 bits: products of TILE positions with ACROSS vectors of output channels, straight from the rows of x.
 *
 * Weights are [block of ACROSS vectors][tap][4 channels][vector][lane][4]. Their zero points come in afterwards, times the sum of
 * the values under a window.
 */
#include "cut.h"

static const struct kernel KERNEL = {.value = 1, .block = ACROSS * LANES, .line = 64, .worth = 1 << 19, .cached = 192 << 10};

int64_t convolution_tasks(const struct op *op, int threads)
{
    struct cut cut = cut_of(op, threads, &KERNEL);
    return cut.bands * cut.splits;
}

struct tile {
    const Q *first;          /* of the first position */
    int64_t row, tap, step;  /* bytes from row to row, from tap to tap, from position to position */
    int64_t taps, depth;     /* of a row, bytes of a tap */
    const int32_t *sums;     /* under the windows */
    const Q *other;
    int64_t other_step;
    Q *y;
    int64_t channel;
};

INLINE void store_sums(const struct op *op, const int64_t flags, const struct tile *tile, const int count,
                       const int vectors, vi sums[TILE][ACROSS])
{
    const struct stage stage = stage_of(op);
    const int32_t *biases = op->bias, *zeros = op->zeros, *under = tile->sums;
    const int64_t room = room_of(&op->y);
    const float *factors = op->factor, *slopes = op->slope;
    const Q *other = tile->other;
    Q *y = tile->y;
    const int64_t pitch = op->y.pitch, other_step = tile->other_step, first = tile->channel;
    UNROLL
    for (int v = 0; v < vectors; v++) {
        int64_t channel = first + v * LANES;
        if (LANES < 16 && channel >= room)
            break;
        vi bias = load_i(biases + channel), zero = load_i(zeros + channel);
        UNROLL
        for (int i = 0; i < count; i++) {
            vi sum = sums[i][v] + bias, joined = {};
            if (flags & ZEROS)
                sum -= zero * under[i];
            if (flags & (JOIN_ADD | JOIN_MULTIPLY))
                joined = __builtin_convertvector(load_narrow(other + i * other_step + channel), vi);
            vi stored = finished(&stage, flags, sum, factors + channel, slopes + channel, joined);
            store_narrow(y + i * pitch + channel, __builtin_convertvector(stored, vq_narrow));
        }
    }
}

/* The same for functions of sums; where so much is to be done, the way through memory is none. */
static __attribute__((noinline)) void store_function(const struct op *op, const struct tile *tile, int count, int vectors,
                                                     vi (*sums)[ACROSS])
{
    for (int v = 0; v < vectors; v++) {
        int64_t channel = tile->channel + v * LANES;
        if (channel >= room_of(&op->y))
            break;
        vi bias = load_i(op->bias + channel), zeros = load_i(op->zeros + channel);
        for (int i = 0; i < count; i++) {
            vi sum = sums[i][v] + bias;
            if (op->flags & ZEROS)
                sum -= zeros * tile->sums[i];
            vi stored = function_of(op, sum, op->factor + channel);
            store_narrow(tile->y + i * op->y.pitch + channel, __builtin_convertvector(stored, vq_narrow));
        }
    }
}

/* And for all that is rare. */
static __attribute__((noinline)) void store_rare(const struct op *op, const struct tile *tile, int count, int vectors,
                                                 vi (*sums)[ACROSS])
{
    for (int i = 0; i < count; i++) {
        struct tile one = *tile;
        one.sums += i, one.other += i * tile->other_step, one.y += i * op->y.pitch;
        for (int v = 0; v < vectors; v++, one.channel += LANES)
            store_sums(op, op->flags, &one, 1, 1, (vi(*)[ACROSS])&sums[i][v]);
    }
}

INLINE void multiply(const struct op *op, const struct tile *tile, const int8_t *weights, const int count,
                     const int vectors)
{
    vi sums[TILE][ACROSS];
    UNROLL
    for (int i = 0; i < count; i++)
        UNROLL
        for (int v = 0; v < vectors; v++)
            sums[i][v] = (vi){};
    for (int64_t ky = 0; ky < op->kernel[0]; ky++) {
        for (int64_t kx = 0; kx < tile->taps; kx++) {
            const Q *values = tile->first + ky * tile->row + kx * tile->tap;
            for (int64_t k = 0; k < tile->depth; k += 4) {
                vq some[ACROSS];
                UNROLL
                for (int v = 0; v < vectors; v++)
                    memcpy(&some[v], weights + v * BYTES, BYTES);
                weights += vectors * BYTES;
                UNROLL
                for (int i = 0; i < count; i++) {
                    vq four = all_fours(values + k + i * tile->step);
                    UNROLL
                    for (int v = 0; v < vectors; v++)
                        sums[i][v] = dot(sums[i][v], four, some[v]);
                }
            }
        }
    }
    if (op->flags == ZEROS)
        store_sums(op, ZEROS, tile, count, vectors, sums);
    else if (op->flags == (ZEROS | JOIN_ADD))
        store_sums(op, ZEROS | JOIN_ADD, tile, count, vectors, sums);
    else {
        vi kept[TILE][ACROSS];
        memcpy(kept, sums, sizeof kept);
        if (op->flags & FUNCTION)
            store_function(op, tile, count, vectors, kept);
        else
            store_rare(op, tile, count, vectors, kept);
    }
}

typedef void (*multiply_fn)(const struct op *, const struct tile *, const int8_t *);

#define ONE(count, vectors)                                                                                        \
    static void multiply_##count##_##vectors(const struct op *op, const struct tile *tile, const int8_t *weights) \
    {                                                                                                              \
        multiply(op, tile, weights, count, vectors);                                                               \
    }
#if ACROSS == 2
#define ROW(count) ONE(count, 1) ONE(count, 2)
#define NAMES(count) {multiply_##count##_1, multiply_##count##_2}
#elif ACROSS == 3
#define ROW(count) ONE(count, 1) ONE(count, 2) ONE(count, 3)
#define NAMES(count) {multiply_##count##_1, multiply_##count##_2, multiply_##count##_3}
#else
#define ROW(count) ONE(count, 1) ONE(count, 2) ONE(count, 3) ONE(count, 4)
#define NAMES(count) {multiply_##count##_1, multiply_##count##_2, multiply_##count##_3, multiply_##count##_4}
#endif
ROW(1) ROW(2) ROW(3) ROW(4)
#if TILE >= 6
ROW(5) ROW(6)
#endif
#if TILE >= 8
ROW(7) ROW(8)
#endif

static const multiply_fn PRODUCTS[TILE][ACROSS] = {
    NAMES(1), NAMES(2), NAMES(3), NAMES(4),
#if TILE >= 6
    NAMES(5), NAMES(6),
#endif
#if TILE >= 8
    NAMES(7), NAMES(8),
#endif
};

/* sums + those of `length` values; `ones` says which of them count. */
INLINE vi add_sums(vi sums, const Q *values, const int8_t *ones, int64_t length)
{
    for (int64_t k = 0; k < length; k += BYTES) {
        vq some;
        memcpy(&some, ones + k, BYTES);
        sums = dot(sums, load_q(values + k), some);
    }
    return sums;
}

/* Sums of pixels that are needed for one row of windows. */
static int64_t pixel_sums(const struct op *op)
{
    return (op->y.width - 1) * op->strides[1] + (op->kernel[1] - 1) * op->dilations[1] + 1 + LANES;
}

/* Sums under the windows of `count` positions of one row. */
static void window_sums(const struct op *op, const struct tile *tile, int64_t count, int32_t *sums, int32_t *pixels)
{
    const int64_t rows = op->kernel[0], columns = op->kernel[1], stride = op->strides[1], dilation = op->dilations[1];
    const int narrow = tile->step == 4 * stride; /* a pixel is a lane */
    if (!narrow && (tile->taps == 1 || stride > 1)) {
        for (int64_t i = 0; i < count; i++) {
            vi found = {};
            for (int64_t ky = 0; ky < rows; ky++)
                for (int64_t kx = 0; kx < tile->taps; kx++)
                    found = add_sums(
                        found, tile->first + i * tile->step + ky * tile->row + kx * tile->tap, op->ones, tile->depth);
            sums[i] = total(found);
        }
        return;
    }
    const int64_t wide = (count - 1) * stride + (columns - 1) * dilation + 1;
    const vq ones = all_fours((const Q *)op->ones);
    for (int64_t x = 0; x < wide; x += narrow ? LANES : 1) {
        vi found = {};
        for (int64_t ky = 0; ky < rows; ky++) {
            const Q *values = tile->first + ky * tile->row + x * (tile->step / stride);
            found = narrow ? dot(found, load_q(values), ones) : add_sums(found, values, op->ones, tile->depth);
        }
        if (narrow)
            memcpy(pixels + x, &found, sizeof found);
        else
            pixels[x] = total(found);
    }
    for (int64_t i = 0; i < count; i++) {
        sums[i] = 0;
        for (int64_t kx = 0; kx < columns; kx++)
            sums[i] += pixels[i * stride + kx * dilation];
    }
}

void convolve(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    struct cut cut = cut_of(op, scene->threads, &KERNEL);
    (void)tasks;
    int64_t band = task % cut.bands, split = task / cut.bands, block_from, block_to, rows[2], item = 0;
    int64_t all[2] = {0, room_of(&op->x)}, positions = op->y.items * op->y.height * op->y.width;
    int flat = is_flat(op);
    part_of(cut.blocks, split, cut.splits, &block_from, &block_to);
    struct tile tile = {.depth = op->depth, .taps = op->kernel[1]};
    int joined = !!(op->flags & (JOIN_ADD | JOIN_MULTIPLY));
    int32_t *sums = (int32_t *)scene->scratch;
    struct band here;
    if (flat) {
        part_of(cut.lines, band, cut.bands, &rows[0], &rows[1]);
        here = (struct band){scene->work + op->x.offset + rows[0] * cut.width * op->x.pitch, cut.width * op->x.pitch,
                             op->x.pitch};
    } else {
        int64_t per_item = cut.bands / op->y.items;
        item = band / per_item;
        part_of(op->y.height, band % per_item, per_item, &rows[0], &rows[1]);
    }
    int32_t *pixels = sums + (rows[1] - rows[0]) * cut.width;
    if (!flat) {
        int32_t *end = pixels + pixel_sums(op);
        Q *copy = scene->scratch + (((Q *)end - scene->scratch) + 63) / 64 * 64;
        here = band_of(op, scene, item, rows, all, copy);
    }
    int64_t line_step = flat ? here.row : here.row * op->strides[0];
    tile.row = here.row * op->dilations[0];
    tile.tap = here.pitch * op->dilations[1];
    tile.step = here.pitch * op->strides[1];
    if (op->depth > (op->x.channels + 3) / 4 * 4)
        tile.taps = 1; /* a row of taps lies side by side */
    if (op->flags & ZEROS)
        for (int64_t line = rows[0]; line < rows[1]; line++) {
            tile.first = here.first + (line - rows[0]) * line_step;
            int64_t width = flat ? least(cut.width, positions - line * cut.width) : cut.width;
            window_sums(op, &tile, width, sums + (line - rows[0]) * cut.width, pixels);
        }
    int64_t taps_of_all = op->kernel[0] * tile.taps * op->depth;
    for (int64_t block = block_from; block < block_to; block++) {
        int64_t vectors = least(ACROSS, (op->y.channels - block * ACROSS * LANES + LANES - 1) / LANES);
        const int8_t *weights = op->weights + block * ACROSS * LANES * taps_of_all;
        tile.channel = block * ACROSS * LANES;
        for (int64_t line = rows[0]; line < rows[1]; line++) {
            int64_t width = flat ? least(cut.width, positions - line * cut.width) : cut.width;
            int64_t tiles = (width + TILE - 1) / TILE;
            int64_t at = flat ? line * cut.width : (item * op->y.height + line) * op->y.width;
            for (int64_t t = 0; t < tiles; t++) {
                int64_t from, to;
                part_of(width, t, tiles, &from, &to);
                tile.first = here.first + (line - rows[0]) * line_step + from * tile.step;
                tile.sums = sums + (line - rows[0]) * cut.width + from;
                tile.y = scene->work + op->y.offset + (at + from) * op->y.pitch;
                if (joined) {
                    int64_t whole = op->other.height * op->other.width > 1 || op->y.height * op->y.width == 1;
                    int64_t there = whole ? at + from : (at + from) / (op->y.height * op->y.width);
                    tile.other = scene->work + op->other.offset + there * op->other.pitch;
                    tile.other_step = whole ? op->other.pitch : 0;
                }
                PRODUCTS[to - from - 1][vectors - 1](op, &tile, weights);
            }
        }
    }
}

/* Bytes that a task needs for itself. */
int64_t convolution_scratch(const struct op *op, int threads)
{
    struct cut cut = cut_of(op, threads, &KERNEL);
    int flat = is_flat(op);
    int64_t bands = flat ? cut.bands : cut.bands / op->y.items, lines = flat ? cut.lines : op->y.height;
    lines = (lines + bands - 1) / bands;
    int64_t numbers = lines * cut.width + most(pixel_sums(op), cut.width + LANES);
    return numbers * (int64_t)sizeof(int32_t) + 64 + (flat ? 0 : band_bytes(op, lines, room_of(&op->x)));
}
