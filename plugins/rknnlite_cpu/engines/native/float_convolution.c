/* Convolution of floats: products of FLOAT_TILE positions with FLOAT_ACROSS vectors of output channels, straight from the rows of x.
 *
 * Weights are float16, [vector of output channels][tap][channel][lane]. Sums of a position are added in one order, whatever tile it
 * is in and however many threads there are.
 */
#include "cut.h"
#include "float_convolution.h"

#define SIZE ((int64_t)sizeof(float))

static const struct kernel KERNEL = {
    .value = SIZE, .block = FLOAT_ACROSS * LANES, .line = 96, .worth = 1 << 17, .cached = 256 << 10
};

int64_t float_convolution_tasks(const struct op *op, int threads)
{
    if (float_winograd(op))
        return float_winograd_tasks(op, threads);
    struct cut cut = cut_of(op, threads, &KERNEL);
    return cut.bands * cut.splits;
}

struct tile {
    const float *first;      /* of the first position */
    int64_t row, tap, step;  /* floats from row to row, from tap to tap, from position to position */
    int64_t taps, depth;     /* of a row, floats of a tap */
    const half *weights;
    int64_t vector;          /* weights of a vector of output channels */
    const float *other;
    int64_t other_step;
    float *y;
    int64_t pitch, room;     /* from position to position, from the first channel on */
    int64_t channel;
};

INLINE void store_sums(const struct op *op, const int64_t flags, const struct tile *tile, const int count,
                       const int vectors, vf (*sums)[FLOAT_ACROSS])
{
    const struct float_stage stage = float_stage_of(op);
    const int64_t pitch = tile->pitch, room = tile->room, channel = tile->channel, other_step = tile->other_step;
    const float *other = tile->other;
    float *y = tile->y;
    UNROLL
    for (int v = 0; v < vectors; v++) {
        if (v > 0 && v * LANES >= room)
            break;
        UNROLL
        for (int i = 0; i < count; i++) {
            vf joined = {};
            if (flags & (JOIN_ADD | JOIN_MULTIPLY))
                joined = load_f(other + i * other_step + v * LANES);
            store_some(y + i * pitch + v * LANES,
                       float_finished(&stage, flags, sums[i][v], channel + v * LANES, joined), room - v * LANES);
        }
    }
}

static __attribute__((noinline)) void store_rare(const struct op *op, const struct tile *tile, int count, int vectors,
                                                 vf (*sums)[FLOAT_ACROSS])
{
    store_sums(op, op->flags, tile, count, vectors, sums);
}

INLINE void multiply(const struct op *op, const struct tile *tile, const int count, const int vectors)
{
    vf sums[FLOAT_TILE][FLOAT_ACROSS];
    UNROLL
    for (int i = 0; i < count; i++)
        UNROLL
        for (int v = 0; v < vectors; v++)
            sums[i][v] = (vf){};
    const half *weights = tile->weights;
    const int64_t step = tile->step, vector = tile->vector, depth = tile->depth;
    for (int64_t ky = 0; ky < op->kernel[0]; ky++) {
        for (int64_t kx = 0; kx < tile->taps; kx++) {
            const float *at[(FLOAT_TILE + 2) / 3]; /* of every third position: the others are one and two steps away */
            UNROLL
            for (int i = 0; i < count; i += 3)
                at[i / 3] = tile->first + ky * tile->row + kx * tile->tap + i * step;
            for (int64_t k = 0; k < depth; k++) {
                vf some[FLOAT_ACROSS];
                UNROLL
                for (int v = 0; v < vectors; v++)
                    some[v] = of_halves(load_h(weights + v * vector));
                weights += LANES;
                UNROLL
                for (int i = 0; i < count; i++) {
                    vf value = all_f(at[i / 3][i % 3 * step]);
                    UNROLL
                    for (int v = 0; v < vectors; v++)
                        sums[i][v] = add_product(sums[i][v], value, some[v]);
                }
                UNROLL
                for (int i = 0; i < count; i += 3)
                    at[i / 3]++;
            }
        }
    }
    if (op->flags == 0)
        store_sums(op, 0, tile, count, vectors, sums);
    else if (op->flags == RECTIFY)
        store_sums(op, RECTIFY, tile, count, vectors, sums);
    else {
        vf kept[FLOAT_TILE][FLOAT_ACROSS];
        memcpy(kept, sums, sizeof kept);
        store_rare(op, tile, count, vectors, kept);
    }
}

typedef void (*multiply_fn)(const struct op *, const struct tile *);

#define ONE(count, vectors)                                                                \
    static void multiply_##count##_##vectors(const struct op *op, const struct tile *tile) \
    {                                                                                      \
        multiply(op, tile, count, vectors);                                                \
    }
#if FLOAT_ACROSS == 2
#define ROW(count) ONE(count, 1) ONE(count, 2)
#define NAMES(count) {multiply_##count##_1, multiply_##count##_2}
#else
#define ROW(count) ONE(count, 1) ONE(count, 2) ONE(count, 3) ONE(count, 4)
#define NAMES(count) {multiply_##count##_1, multiply_##count##_2, multiply_##count##_3, multiply_##count##_4}
#endif
ROW(1) ROW(2) ROW(3) ROW(4)
#if FLOAT_TILE >= 6
ROW(5) ROW(6)
#endif
#if FLOAT_TILE >= 12
ROW(7) ROW(8) ROW(9) ROW(10) ROW(11) ROW(12)
#endif

static const multiply_fn PRODUCTS[FLOAT_TILE][FLOAT_ACROSS] = {
    NAMES(1), NAMES(2), NAMES(3), NAMES(4),
#if FLOAT_TILE >= 6
    NAMES(5), NAMES(6),
#endif
#if FLOAT_TILE >= 12
    NAMES(7), NAMES(8), NAMES(9), NAMES(10), NAMES(11), NAMES(12),
#endif
};

/* Lines of `width` positions or rows of one item, see `is_flat`, whose values begin at `here`. */
static void lines_of(const struct op *op, const struct scene *scene, const struct band *here, int64_t width, int64_t item,
                     const int64_t rows[2], const int64_t blocks[2])
{
    int64_t plane = op->y.height * op->y.width, positions = op->y.items * plane;
    int flat = is_flat(op), joined = !!(op->flags & (JOIN_ADD | JOIN_MULTIPLY));
    struct tile tile = {
        .row = here->row * op->dilations[0] / SIZE, .tap = here->pitch * op->dilations[1] / SIZE,
        .step = here->pitch * op->strides[1] / SIZE, .taps = op->kernel[1], .depth = op->x.channels / SIZE,
        .pitch = op->y.pitch / SIZE,
    };
    int64_t line_step = (flat ? here->row : here->row * op->strides[0]) / SIZE;
    if (here->pitch == op->x.channels && op->dilations[1] == 1) { /* a row of taps lies side by side */
        tile.depth *= tile.taps;
        tile.taps = 1;
    }
    tile.vector = op->kernel[0] * tile.taps * tile.depth * LANES;
    int64_t whole = joined && (op->other.height * op->other.width > 1 || plane == 1);
    for (int64_t block = blocks[0]; block < blocks[1]; block++) {
        tile.channel = block * FLOAT_ACROSS * LANES;
        tile.room = room_of(&op->y) / SIZE - tile.channel;
        int64_t vectors = least(FLOAT_ACROSS, (op->y.channels / SIZE - tile.channel + LANES - 1) / LANES);
        tile.weights = (const half *)op->weights + block * FLOAT_ACROSS * tile.vector;
        for (int64_t line = rows[0]; line < rows[1]; line++) {
            int64_t count = flat ? least(width, positions - line * width) : width;
            int64_t tiles = (count + FLOAT_TILE - 1) / FLOAT_TILE;
            int64_t at = flat ? line * width : (item * op->y.height + line) * op->y.width;
            for (int64_t t = 0; t < tiles; t++) {
                int64_t from, to;
                part_of(count, t, tiles, &from, &to);
                tile.first = (const float *)here->first + (line - rows[0]) * line_step + from * tile.step;
                tile.y = (float *)(scene->work + op->y.offset + (at + from) * op->y.pitch) + tile.channel;
                if (joined) {
                    int64_t there = whole ? at + from : (at + from) / plane;
                    tile.other = (const float *)(scene->work + op->other.offset + there * op->other.pitch) + tile.channel;
                    tile.other_step = whole ? op->other.pitch / SIZE : 0;
                }
                PRODUCTS[to - from - 1][vectors - 1](op, &tile);
            }
        }
    }
}

void float_straight(const struct op *op, const struct scene *scene, int64_t item, const int64_t rows[2],
                    const int64_t blocks[2], Q *copy)
{
    int64_t all[2] = {0, room_of(&op->x)};
    struct band here = band_of(op, scene, item, rows, all, copy);
    lines_of(op, scene, &here, op->y.width, item, rows, blocks);
}

void float_convolve(const struct op *op, const struct scene *scene, int64_t task)
{
    if (float_winograd(op)) {
        float_winograd_convolve(op, scene, task);
        return;
    }
    struct cut cut = cut_of(op, scene->threads, &KERNEL);
    int64_t band = task % cut.bands, split = task / cut.bands, blocks[2], rows[2];
    part_of(cut.blocks, split, cut.splits, &blocks[0], &blocks[1]);
    if (is_flat(op)) {
        part_of(cut.lines, band, cut.bands, &rows[0], &rows[1]);
        Q *first = scene->work + op->x.offset + rows[0] * cut.width * op->x.pitch;
        struct band here = {first, cut.width * op->x.pitch, op->x.pitch};
        lines_of(op, scene, &here, cut.width, 0, rows, blocks);
    } else {
        int64_t per_item = cut.bands / op->y.items;
        part_of(op->y.height, band % per_item, per_item, &rows[0], &rows[1]);
        float_straight(op, scene, band / per_item, rows, blocks, scene->scratch);
    }
}

/* Bytes that a task needs for itself. */
int64_t float_convolution_scratch(const struct op *op, int threads)
{
    if (float_winograd(op))
        return float_winograd_scratch(op, threads);
    struct cut cut = cut_of(op, threads, &KERNEL);
    if (is_flat(op))
        return 0;
    int64_t bands = cut.bands / op->y.items;
    return band_bytes(op, (op->y.height + bands - 1) / bands, room_of(&op->x));
}
