/* Convolution of floats with 3x3 kernels after Winograd: sixteen products make four positions, where 36 would.
 *
 * F(2x2, 3x3): a tile of 4x4 values of x, and every kernel, are transformed by sums and differences; each of the 16 places is a
 * product of [tiles, channels] with [channels, output channels], whose results are transformed into 2x2 positions. Weights are
 * transformed for some output channels when they are needed, so that they are held once. What an infinite value does to others
 * of its tile is told by a NaN: such rows are computed again, straight.
 */
#include "cut.h"
#include "float_convolution.h"
#include "float_products.h"

#define PLACES 16
#define CACHED (448 << 10)   /* bytes of transformed tiles that a task works on */
#define FEWEST 48            /* tiles that are worth the transformation of weights */
#define WORTH (1 << 17)
#define SIZE ((int64_t)sizeof(float))

int float_winograd(const struct op *op)
{
    int64_t tiles = ((op->y.height + 1) / 2) * ((op->y.width + 1) / 2);
    int threes = op->kernel[0] == 3 && op->kernel[1] == 3 && op->strides[0] == 1 && op->strides[1] == 1
                 && op->dilations[0] == 1 && op->dilations[1] == 1;
    return threes && tiles >= FEWEST && op->x.channels / SIZE >= 16 && op->y.channels / SIZE >= 2 * LANES;
}

struct tiling {
    int64_t down, across, rows, bands, blocks, splits; /* tiles of a plane, rows of them in a band */
    int64_t tiles, pitch;                              /* of a band; floats from one transformed tile to the next */
};

static struct tiling tiling_of(const struct op *op, int threads)
{
    int64_t inputs = op->x.channels / SIZE, outputs = op->y.channels / SIZE;
    struct tiling cut = {.down = (op->y.height + 1) / 2, .across = (op->y.width + 1) / 2};
    cut.pitch = (inputs + LANES - 1) / LANES * LANES;
    int64_t wanted = most(FEWEST, CACHED / (PLACES * SIZE * cut.pitch));
    cut.bands = most(1, cut.down * cut.across / wanted);
    cut.rows = (cut.down + cut.bands - 1) / cut.bands;
    cut.bands = (cut.down + cut.rows - 1) / cut.rows;
    cut.tiles = cut.rows * cut.across;
    cut.blocks = (outputs + WIDE - 1) / WIDE;
    int64_t tasks = op->y.items * cut.bands;
    wanted = tasks_wanted(PLACES * op->y.items * cut.down * cut.across * inputs * outputs, WORTH, threads);
    cut.splits = least(cut.blocks, (wanted + tasks - 1) / tasks);
    return cut;
}

int64_t float_winograd_tasks(const struct op *op, int threads)
{
    struct tiling cut = tiling_of(op, threads);
    return op->y.items * cut.bands * cut.splits;
}

/* d -> B' d B, each of the four in a row `step` apart. */
INLINE void turned(vf *d, const int step)
{
    vf a = d[0] - d[2 * step], b = d[step] + d[2 * step], c = d[2 * step] - d[step], e = d[step] - d[3 * step];
    d[0] = a, d[step] = b, d[2 * step] = c, d[3 * step] = e;
}

static void transform_tiles(const struct op *op, const struct scene *scene, const struct tiling *cut, int64_t item,
                            const int64_t rows[2], float *to, float *zeros)
{
    memset(zeros, 0, cut->pitch * SIZE);
    for (int64_t row = rows[0]; row < rows[1]; row++)
        for (int64_t column = 0; column < cut->across; column++, to += cut->pitch) {
            const float *from[PLACES];
            for (int i = 0; i < PLACES; i++) {
                int64_t y = 2 * row - op->pads[0] + i / 4, x = 2 * column - op->pads[1] + i % 4;
                int inside = y >= 0 && y < op->x.height && x >= 0 && x < op->x.width;
                from[i] = inside ? (const float *)pixel(scene, &op->x, item, y, x) : zeros;
            }
            for (int64_t c = 0; c < cut->pitch; c += LANES) {
                vf d[PLACES];
                UNROLL
                for (int i = 0; i < PLACES; i++)
                    d[i] = load_f(from[i] + c);
                UNROLL
                for (int i = 0; i < 4; i++)
                    turned(d + i, 4);
                UNROLL
                for (int i = 0; i < 4; i++)
                    turned(d + 4 * i, 1);
                UNROLL
                for (int i = 0; i < PLACES; i++)
                    memcpy(to + i * cut->tiles * cut->pitch + c, &d[i], sizeof d[i]);
            }
        }
}

/* Kernels of one block of output channels -> [place][channel][WIDE]. */
static void transform_weights(const struct op *op, int64_t block, float *to)
{
    int64_t inputs = op->x.channels / SIZE, outputs = op->y.channels / SIZE;
    for (int64_t v = 0; v < FLOAT_ACROSS; v++, to += LANES) {
        int64_t vector = block * FLOAT_ACROSS + v;
        const half *weights = (const half *)op->weights + vector * 9 * inputs * LANES;
        for (int64_t k = 0; k < inputs; k++) {
            vf g[3][3], t[4][3];
            for (int i = 0; i < 9; i++)
                g[i / 3][i % 3] = vector * LANES < outputs ? of_halves(load_h(weights + (i * inputs + k) * LANES)) : (vf){};
            UNROLL
            for (int j = 0; j < 3; j++) {
                vf sum = (g[0][j] + g[2][j]) * 0.5f, middle = g[1][j] * 0.5f;
                t[0][j] = g[0][j], t[1][j] = sum + middle, t[2][j] = sum - middle, t[3][j] = g[2][j];
            }
            UNROLL
            for (int i = 0; i < 4; i++) {
                vf sum = (t[i][0] + t[i][2]) * 0.5f, middle = t[i][1] * 0.5f;
                vf found[4] = {t[i][0], sum + middle, sum - middle, t[i][2]};
                UNROLL
                for (int j = 0; j < 4; j++)
                    memcpy(to + ((4 * i + j) * inputs + k) * WIDE, &found[j], sizeof found[j]);
            }
        }
    }
}

/* Products of a band -> positions of y; 1: there is a NaN among the sums. */
INLINE int store_tiles(const struct op *op, const int64_t flags, const struct scene *scene, const struct tiling *cut,
                       int64_t item, const int64_t rows[2], int64_t block, const float *from)
{
    const struct float_stage stage = float_stage_of(op);
    const int64_t first = block * WIDE, room = room_of(&op->y) / SIZE - first, apart = cut->tiles * WIDE;
    const int joined = !!(flags & (JOIN_ADD | JOIN_MULTIPLY));
    const int whole = joined && (op->other.height * op->other.width > 1 || op->y.height * op->y.width == 1);
    vi bad = {};
    for (int64_t row = rows[0]; row < rows[1]; row++)
        for (int64_t column = 0; column < cut->across; column++, from += WIDE)
            UNROLL
            for (int v = 0; v < FLOAT_ACROSS; v++) {
                const int64_t channel = v * LANES;
                if (channel >= room)
                    break;
                vf t[2][4];
                UNROLL
                for (int j = 0; j < 4; j++) {
                    vf a = load_f(from + j * apart + channel), b = load_f(from + (4 + j) * apart + channel);
                    vf c = load_f(from + (8 + j) * apart + channel), e = load_f(from + (12 + j) * apart + channel);
                    t[0][j] = a + b + c, t[1][j] = b - c - e;
                }
                UNROLL
                for (int i = 0; i < 4; i++) {
                    const int64_t y = 2 * row + i / 2, x = 2 * column + i % 2;
                    const vf *m = t[i / 2];
                    vf sum = i % 2 ? m[1] - m[2] - m[3] : m[0] + m[1] + m[2], other = {};
                    if (y >= op->y.height || x >= op->y.width)
                        continue;
                    bad |= sum != sum;
                    if (joined)
                        other = load_f(float_pixel(scene, &op->other, item, whole ? y : 0, whole ? x : 0) + first + channel);
                    store_some((float *)pixel(scene, &op->y, item, y, x) + first + channel,
                               float_finished(&stage, flags, sum, first + channel, other), room - channel);
                }
            }
    int found = 0;
    for (int i = 0; i < LANES; i++)
        found |= bad[i];
    return found != 0;
}

static int store_all(const struct op *op, const struct scene *scene, const struct tiling *cut, int64_t item,
                     const int64_t rows[2], int64_t block, const float *from)
{
    if (op->flags == 0)
        return store_tiles(op, 0, scene, cut, item, rows, block, from);
    if (op->flags == RECTIFY)
        return store_tiles(op, RECTIFY, scene, cut, item, rows, block, from);
    return store_tiles(op, op->flags, scene, cut, item, rows, block, from);
}

void float_winograd_convolve(const struct op *op, const struct scene *scene, int64_t task)
{
    struct tiling cut = tiling_of(op, scene->threads);
    int64_t band = task % cut.bands, item = task / cut.bands % op->y.items, split = task / cut.bands / op->y.items;
    int64_t rows[2] = {band * cut.rows, least(cut.down, (band + 1) * cut.rows)}, from, to;
    int64_t inputs = op->x.channels / SIZE, count = (rows[1] - rows[0]) * cut.across;
    int64_t parts = (count + FLOAT_TILE - 1) / FLOAT_TILE;
    float *tiles = (float *)scene->scratch, *results = tiles + PLACES * cut.tiles * cut.pitch;
    float *weights = results + PLACES * cut.tiles * WIDE, *zeros = weights + PLACES * inputs * WIDE;
    part_of(cut.blocks, split, cut.splits, &from, &to);
    transform_tiles(op, scene, &cut, item, rows, tiles, zeros);
    for (int64_t block = from; block < to; block++) {
        transform_weights(op, block, weights);
        for (int64_t place = 0; place < PLACES; place++)
            for (int64_t part = 0; part < parts; part++) {
                int64_t first, last;
                part_of(count, part, parts, &first, &last);
                float_products(last - first, tiles + (place * cut.tiles + first) * cut.pitch, cut.pitch,
                               weights + place * inputs * WIDE, WIDE, inputs, results + (place * cut.tiles + first) * WIDE, WIDE);
            }
        if (store_all(op, scene, &cut, item, rows, block, results)) {
            int64_t lines[2] = {2 * rows[0], least(op->y.height, 2 * rows[1])}, blocks[2] = {block, block + 1};
            float_straight(op, scene, item, lines, blocks, (Q *)(zeros + cut.pitch));
        }
    }
}

/* Bytes that a task needs for itself. */
int64_t float_winograd_scratch(const struct op *op, int threads)
{
    struct tiling cut = tiling_of(op, threads);
    int64_t inputs = op->x.channels / SIZE;
    int64_t floats = PLACES * (cut.tiles * (cut.pitch + WIDE) + inputs * WIDE) + cut.pitch;
    return floats * SIZE + 64 + band_bytes(op, 2 * cut.rows, room_of(&op->x));
}
