/* Depthwise convolution of floats: a vector of channels at a time, AT_A_TIME positions of a row; what lies outside of x is left out.
 *
 * Weights are float16, [vector of channels][tap][lane].
 */
#include "cut.h"
#include "float_stage.h"

#define WORTH (1 << 14)
#define AT_A_TIME 6
#define SIZE ((int64_t)sizeof(float))

/* Rows of an item, and vectors of channels. */
static struct shares cut_of_channels(const struct op *op, int threads)
{
    int64_t taps = op->kernel[0] * op->kernel[1], chunks = (op->y.channels / SIZE + LANES - 1) / LANES;
    int64_t work = op->y.items * op->y.height * op->y.width * op->y.channels / SIZE * (taps + (op->flags & FUNCTION ? 24 : 8)) / 8;
    int64_t wanted = tasks_wanted(work, WORTH, threads);
    return shares_of(op->y.height, chunks, (wanted + op->y.items - 1) / op->y.items, 1, threads);
}

int64_t float_depthwise_tasks(const struct op *op, int threads)
{
    struct shares cut = cut_of_channels(op, threads);
    return op->y.items * cut.bands * cut.splits;
}

struct line {
    const float *x;              /* the first value of an item, of these channels */
    const float *other;
    float *y;
    const half *weights;
    int64_t first;               /* floats from there to the window of position 0, which may begin outside */
    int64_t row, tap, step;      /* floats from row to row of taps, from tap to tap, from position to position */
    int64_t other_step, y_step, channel, room;
};

/* Taps of a window that lie in x: [from, to). */
struct taps {
    int64_t rows[2], columns[2];
};

INLINE void store_sums(const struct float_stage *stage, const int64_t flags, const struct line *line, int64_t at,
                       const int count, const vf *sums)
{
    UNROLL
    for (int i = 0; i < count; i++) {
        vf joined = {};
        if (flags & (JOIN_ADD | JOIN_MULTIPLY))
            joined = load_f(line->other + (at + i) * line->other_step);
        store_some(line->y + (at + i) * line->y_step, float_finished(stage, flags, sums[i], line->channel, joined), line->room);
    }
}

/* `count` positions from `at` on, with some taps. */
INLINE void places(const struct op *op, const struct line *line, int64_t at, const int count, const struct taps *taps)
{
    const struct float_stage stage = float_stage_of(op);
    const float *window = line->x + (line->first + at * line->step);
    const int64_t step = line->step, across = op->kernel[1];
    vf sums[AT_A_TIME];
    UNROLL
    for (int i = 0; i < count; i++)
        sums[i] = (vf){};
    for (int64_t ky = taps->rows[0]; ky < taps->rows[1]; ky++) {
        const float *from = window + ky * line->row + taps->columns[0] * line->tap;
        const half *weights = line->weights + (ky * across + taps->columns[0]) * LANES;
        for (int64_t kx = taps->columns[0]; kx < taps->columns[1]; kx++, from += line->tap, weights += LANES) {
            vf weight = of_halves(load_h(weights));
            UNROLL
            for (int i = 0; i < count; i++)
                sums[i] = add_product(sums[i], load_f(from + i * step), weight);
        }
    }
    store_sums(&stage, op->flags, line, at, count, sums);
}

/* Positions [from, to) whose windows lie in x from the first to the last column. */
static __attribute__((noinline)) void inside(const struct op *op, const struct line *line, int64_t from, int64_t to,
                                             const struct taps *taps)
{
    for (; from + AT_A_TIME <= to; from += AT_A_TIME)
        places(op, line, from, AT_A_TIME, taps);
    for (; from < to; from++)
        places(op, line, from, 1, taps);
}

/* The same with all taps of a kernel of 3x3, whose weights stay in registers. */
INLINE void threes(const struct op *op, const int64_t flags, const struct line *line, int64_t from, int64_t to, const int count)
{
    const struct float_stage stage = float_stage_of(op);
    const int64_t step = line->step, tap = line->tap, row = line->row;
    vf weights[9];
    UNROLL
    for (int i = 0; i < 9; i++)
        weights[i] = of_halves(load_h(line->weights + i * LANES));
    for (; from + count <= to; from += count) {
        const float *window = line->x + (line->first + from * step);
        vf sums[AT_A_TIME];
        UNROLL
        for (int i = 0; i < count; i++, window += step) {
            sums[i] = load_f(window) * weights[0];
            UNROLL
            for (int j = 1; j < 9; j++)
                sums[i] = add_product(sums[i], load_f(window + j / 3 * row + j % 3 * tap), weights[j]);
        }
        store_sums(&stage, flags, line, from, count, sums);
    }
}

#define THREES(name, flags)                                                                                                \
    static __attribute__((noinline)) void name(const struct op *op, const struct line *line, int64_t from, int64_t to)     \
    {                                                                                                                      \
        int64_t most_of = from + (to - from) / AT_A_TIME * AT_A_TIME;                                                      \
        threes(op, flags, line, from, most_of, AT_A_TIME);                                                                 \
        threes(op, flags, line, most_of, to, 1);                                                                           \
    }
THREES(plain_threes, 0)
THREES(rectified_threes, RECTIFY)
THREES(other_threes, op->flags)

/* Of windows that reach over the edge, [from, to); `columns` has the taps of each position of a row. */
static void edges(const struct op *op, const struct line *line, int64_t from, int64_t to, struct taps taps,
                  const int64_t (*columns)[2])
{
    for (; from < to; from++) {
        taps.columns[0] = columns[from][0], taps.columns[1] = columns[from][1];
        places(op, line, from, 1, &taps);
    }
}

void float_depthwise(const struct op *op, const struct scene *scene, int64_t task)
{
    struct shares cut = cut_of_channels(op, scene->threads);
    int64_t band = task % cut.bands, split = task / cut.bands % cut.splits, item = task / cut.bands / cut.splits;
    int64_t lines[2], from, to, left, right, (*columns)[2] = (int64_t(*)[2])scene->scratch;
    part_of(op->y.height, band, cut.bands, &lines[0], &lines[1]);
    part_of((op->y.channels / SIZE + LANES - 1) / LANES, split, cut.splits, &from, &to);
    int joined = !!(op->flags & (JOIN_ADD | JOIN_MULTIPLY));
    int whole = joined && (op->other.height * op->other.width > 1 || op->y.height * op->y.width == 1);
    int64_t pitch = op->x.pitch / SIZE, row = op->x.width * pitch, reach = op->dilations[1] * (op->kernel[1] - 1);
    struct line line = {
        .row = op->dilations[0] * row, .tap = op->dilations[1] * pitch, .step = op->strides[1] * pitch,
        .y_step = op->y.pitch / SIZE, .other_step = whole ? op->other.pitch / SIZE : 0,
    };
    left = least(op->y.width, most(0, op->pads[1] + op->strides[1] - 1) / op->strides[1]);
    int64_t last = op->x.width - 1 - reach + op->pads[1]; /* where the window of the last position inside begins */
    right = most(left, least(op->y.width, last < 0 ? 0 : last / op->strides[1] + 1));
    for (int64_t i = 0; i < op->y.width; i++)
        taps_inside(i * op->strides[1] - op->pads[1], op->dilations[1], op->kernel[1], op->x.width, columns[i]);
    for (int64_t number = lines[0]; number < lines[1]; number++) {
        int64_t top = number * op->strides[0] - op->pads[0];
        struct taps taps = {.columns = {0, op->kernel[1]}};
        taps_inside(top, op->dilations[0], op->kernel[0], op->x.height, taps.rows);
        int square = op->kernel[0] == 3 && op->kernel[1] == 3 && taps.rows[0] == 0 && taps.rows[1] == 3;
        line.first = top * row - op->pads[1] * pitch;
        for (int64_t chunk = from; chunk < to; chunk++) {
            line.channel = chunk * LANES;
            line.room = room_of(&op->y) / SIZE - line.channel;
            line.weights = (const half *)op->weights + line.channel * op->kernel[0] * op->kernel[1];
            line.x = float_pixel(scene, &op->x, item, 0, 0) + line.channel;
            line.y = (float *)pixel(scene, &op->y, item, number, 0) + line.channel;
            if (joined)
                line.other = float_pixel(scene, &op->other, item, whole ? number : 0, 0) + line.channel;
            edges(op, &line, 0, left, taps, columns);
            if (square && op->flags == 0)
                plain_threes(op, &line, left, right);
            else if (square && op->flags == RECTIFY)
                rectified_threes(op, &line, left, right);
            else if (square)
                other_threes(op, &line, left, right);
            else
                inside(op, &line, left, right, &taps);
            edges(op, &line, right, op->y.width, taps, columns);
        }
    }
}

/* Bytes that a task needs for itself. */
int64_t float_depthwise_scratch(const struct op *op) { return op->y.width * 2 * (int64_t)sizeof(int64_t); }
