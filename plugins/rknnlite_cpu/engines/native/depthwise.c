/* Depthwise convolution of 8 bits: four taps of BYTES channels at a time.
 *
 * Weights are [BYTES channels][four taps][vector][lane][4 taps], channels in the order of `interleave`; so are bias, zeros, factor. Where
 * a pixel has a half or a quarter of so many channels, neighbours lie in one vector, and all of these are there for each of them.
 */
#include "cut.h"

#define WORTH (1 << 15)
#define CACHED (128 << 10)

/* Rows of an item, and vectors of channels: one where pixels are folded. */
static struct shares cut_of_channels(const struct op *op, int threads)
{
    int64_t taps = op->kernel[0] * op->kernel[1], chunks = (op->y.channels + BYTES - 1) / BYTES;
    int64_t work = op->y.items * op->y.height * op->y.width * op->y.channels * (taps + (op->flags & FUNCTION ? 24 : 8)) / 8;
    int64_t wanted = tasks_wanted(work, WORTH, threads), bytes = op->x.height * op->x.width * op->x.pitch;
    return shares_of(op->y.height, chunks, (wanted + op->y.items - 1) / op->y.items, (bytes + CACHED - 1) / CACHED, threads);
}

int64_t depthwise_tasks(const struct op *op, int threads)
{
    struct shares cut = cut_of_channels(op, threads);
    return op->y.items * cut.bands * cut.splits;
}

struct line {
    const int64_t *taps;     /* bytes from the first value of a window to each tap */
    const Q *first, *other;
    Q *y;
    int64_t step, other_step, y_step, channel;
};

/* `count` places of BYTES values from `at` on; of the last one `room` bytes are stored. */
INLINE void places(const struct op *op, const int64_t flags, const int64_t groups, const struct line *line, int64_t at,
                   const int count, int64_t room)
{
    const struct stage stage = stage_of(op);
    const int32_t *biases = op->bias + line->channel, *zeros = op->zeros + line->channel;
    const float *factors = op->factor + line->channel, *slopes = op->slope + line->channel;
    const int64_t *taps = line->taps;
    const int8_t *chunk = op->weights + line->channel * groups * 4;
    const int64_t last = op->kernel[0] * op->kernel[1] - (groups - 1) * 4;
    const vq all = (vq)all_i(0x01010101), rest = (vq)all_i((int32_t)(0x01010101u >> (8 * (4 - last))));
    vi sums[2][4], under[2][4];
    UNROLL
    for (int i = 0; i < count; i++)
        UNROLL
        for (int j = 0; j < 4; j++)
            sums[i][j] = load_i(biases + j * LANES), under[i][j] = (vi){};
    UNROLL
    for (int64_t g = 0; g < groups; g++) {
        vq bytes[2][4], ones = g == groups - 1 ? rest : all;
        UNROLL
        for (int i = 0; i < count; i++) {
            vq loaded[4];
            UNROLL
            for (int j = 0; j < 4; j++)
                loaded[j] = load_q(line->first + (at + i) * line->step + taps[4 * g + j]);
            interleave(loaded, bytes[i]);
        }
        UNROLL
        for (int j = 0; j < 4; j++) {
            vq weights;
            memcpy(&weights, chunk + (g * 4 + j) * BYTES, BYTES);
            UNROLL
            for (int i = 0; i < count; i++) {
                sums[i][j] = dot(sums[i][j], bytes[i][j], weights);
                if (flags & ZEROS)
                    under[i][j] = dot(under[i][j], bytes[i][j], ones);
            }
        }
    }
    UNROLL
    for (int i = 0; i < count; i++) {
        vi others[4] = {};
        if (flags & (JOIN_ADD | JOIN_MULTIPLY))
            unpacked(load_q(line->other + (at + i) * line->other_step), others);
        UNROLL
        for (int j = 0; j < 4; j++) {
            if (flags & ZEROS)
                sums[i][j] -= under[i][j] * load_i(zeros + j * LANES);
            if (flags & FUNCTION)
                sums[i][j] = function_of(op, sums[i][j], factors + j * LANES);
            else
                sums[i][j] = finished(&stage, flags, sums[i][j], factors + j * LANES, slopes + j * LANES, others[j]);
        }
        vq stored = packed(sums[i]);
        if (room >= BYTES || i < count - 1)
            memcpy(line->y + (at + i) * line->y_step, &stored, BYTES);
        else
            memcpy(line->y + (at + i) * line->y_step, &stored, room);
    }
}

/* The places of a line, two at a time. `room` is what each of them stores, `end` what the last one does. */
INLINE void all_places(const struct op *op, const int64_t flags, const int64_t groups, const struct line *line,
                       int64_t count, int64_t room, int64_t end)
{
    int64_t at = 0;
    if (room >= BYTES)
        for (; at + 2 <= count - 1; at += 2)
            places(op, flags, groups, line, at, 2, BYTES);
    for (; at < count; at++)
        places(op, flags, groups, line, at, 1, at < count - 1 ? room : end);
}

void depthwise(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    struct shares cut = cut_of_channels(op, scene->threads);
    (void)tasks;
    int64_t band = task % cut.bands, split = task / cut.bands % cut.splits, item = task / cut.bands / cut.splits;
    int64_t rows[2], from, to, groups = (op->kernel[0] * op->kernel[1] + 3) / 4;
    part_of(op->y.height, band, cut.bands, &rows[0], &rows[1]);
    part_of((op->y.channels + BYTES - 1) / BYTES, split, cut.splits, &from, &to);
    int64_t channels[2] = {from * BYTES, least(to * BYTES, room_of(&op->x))};
    int64_t *taps = (int64_t *)scene->scratch;
    Q *copy = scene->scratch + (groups * 4 * (int64_t)sizeof *taps + 63) / 64 * 64;
    struct band here = band_of(op, scene, item, rows, channels, copy);
    for (int64_t tap = 0; tap < groups * 4; tap++) {
        int64_t real = tap < op->kernel[0] * op->kernel[1] ? tap : 0;
        int64_t ky = real / op->kernel[1], kx = real % op->kernel[1];
        taps[tap] = ky * op->dilations[0] * here.row + kx * op->dilations[1] * here.pitch;
    }
    int joined = !!(op->flags & (JOIN_ADD | JOIN_MULTIPLY));
    int whole = joined && (op->other.height * op->other.width > 1 || op->y.height * op->y.width == 1);
    int64_t folded = op->depth; /* pixels of few channels that make a vector */
    for (int64_t number = rows[0]; number < rows[1]; number++) {
        struct line line = {
            .taps = taps, .step = op->strides[1] * here.pitch * folded, .y_step = op->y.pitch * folded,
            .other_step = whole ? op->other.pitch * folded : 0,
        };
        const Q *first = here.first + (number - rows[0]) * op->strides[0] * here.row;
        for (int64_t chunk = from; chunk < to; chunk++) {
            line.channel = chunk * BYTES;
            line.first = first + line.channel - channels[0];
            line.y = pixel(scene, &op->y, item, number, 0) + line.channel;
            line.other = joined ? pixel(scene, &op->other, item, whole ? number : 0, 0) + line.channel : line.y;
            int64_t count = (op->y.width + folded - 1) / folded;
            int64_t room = folded > 1 ? BYTES : least(BYTES, room_of(&op->y) - line.channel);
            int64_t end = folded > 1 ? (op->y.width - (count - 1) * folded) * op->y.pitch : room;
            if (op->flags == ZEROS && groups == 3)
                all_places(op, ZEROS, 3, &line, count, room, end);
            else if (op->flags == (ZEROS | FUNCTION) && groups == 3)
                all_places(op, ZEROS | FUNCTION, 3, &line, count, room, end);
            else if (op->flags == ZEROS)
                all_places(op, ZEROS, groups, &line, count, room, end);
            else
                all_places(op, op->flags, groups, &line, count, room, end);
        }
    }
}

/* Bytes that a task needs for itself. */
int64_t depthwise_scratch(const struct op *op, int threads)
{
    struct shares cut = cut_of_channels(op, threads);
    int64_t lines = (op->y.height + cut.bands - 1) / cut.bands;
    int64_t taps = (op->kernel[0] * op->kernel[1] + 3) / 4 * 4;
    return taps * (int64_t)sizeof(int64_t) + 64 + band_bytes(op, lines, room_of(&op->x));
}
