/* Depthwise convolution of 8 bits: four taps of BYTES channels at a time.
 *
 * Weights are [BYTES channels][four taps][vector][lane][4 taps], channels in the order of `interleave`; so are bias, zeros, factor.
 */
#include "program.h"

#define WORTH (1 << 16)
#define CACHED (128 << 10)

struct cut {
    int64_t bands, splits, chunks; /* rows of an item, and channels, and what they are divided into */
};

static struct cut cut_of(const struct op *op, int threads)
{
    struct cut cut = {1, 1, (op->y.channels + BYTES - 1) / BYTES};
    int64_t taps = op->kernel[0] * op->kernel[1];
    int64_t work = op->y.items * op->y.height * op->y.width * op->y.channels * (taps + 8) / 8;
    int64_t wanted = threads == 1 ? 1 : least(work / WORTH + 1, 4 * threads);
    int64_t bytes = op->x.height * op->x.width * op->x.pitch;
    cut.bands = least(op->y.height, most(wanted / op->y.items, (bytes + CACHED - 1) / CACHED));
    cut.bands = most(1, cut.bands);
    if (cut.bands * op->y.items < wanted)
        cut.splits = least(cut.chunks, wanted / (cut.bands * op->y.items) + 1);
    return cut;
}

int64_t depthwise_tasks(const struct op *op, int threads)
{
    struct cut cut = cut_of(op, threads);
    return op->y.items * cut.bands * cut.splits;
}

INLINE void positions(const struct op *op, const int64_t flags, const int64_t groups, const int64_t *taps,
                      const Q *first, int64_t step, int64_t count, const Q *other, int64_t other_step, int64_t channel,
                      int64_t room, Q *y)
{
    const int8_t *chunk = op->weights + channel * groups * 4;
    const int64_t last = op->kernel[0] * op->kernel[1] - (groups - 1) * 4;
    const vq all = (vq)all_i(0x01010101), rest = (vq)all_i((int32_t)(0x01010101u >> (8 * (4 - last))));
    for (int64_t x = 0; x < count; x++) {
        vi sums[4], under[4];
        const Q *values = first + x * step;
        UNROLL
        for (int j = 0; j < 4; j++)
            sums[j] = load_i(op->bias + channel + j * LANES), under[j] = (vi){};
        UNROLL
        for (int64_t g = 0; g < groups; g++) {
            vq loaded[4], bytes[4], ones = g == groups - 1 ? rest : all;
            UNROLL
            for (int j = 0; j < 4; j++)
                loaded[j] = load_q(values + taps[4 * g + j]);
            interleave(loaded, bytes);
            UNROLL
            for (int j = 0; j < 4; j++) {
                vq weights;
                memcpy(&weights, chunk + (g * 4 + j) * BYTES, BYTES);
                sums[j] = dot(sums[j], bytes[j], weights);
                if (flags & ZEROS)
                    under[j] = dot(under[j], bytes[j], ones);
            }
        }
        vi others[4] = {};
        if (flags & (JOIN_ADD | JOIN_MULTIPLY))
            unpacked(load_q(other + x * other_step + channel), others);
        UNROLL
        for (int j = 0; j < 4; j++) {
            int64_t at = channel + j * LANES;
            if (flags & ZEROS)
                sums[j] -= under[j] * load_i(op->zeros + at);
            sums[j] = finished(op, flags, sums[j], op->factor + at, op->slope + at, others[j]);
        }
        vq stored = packed(sums);
        if (room >= BYTES)
            memcpy(y + x * op->y.pitch + channel, &stored, BYTES);
        else
            memcpy(y + x * op->y.pitch + channel, &stored, room);
    }
}

void depthwise(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    struct cut cut = cut_of(op, scene->threads);
    (void)tasks;
    int64_t band = task % cut.bands, split = task / cut.bands % cut.splits, item = task / cut.bands / cut.splits;
    int64_t rows[2], from, to, groups = (op->kernel[0] * op->kernel[1] + 3) / 4;
    part_of(op->y.height, band, cut.bands, &rows[0], &rows[1]);
    part_of(cut.chunks, split, cut.splits, &from, &to);
    int64_t channels[2] = {from * BYTES, least(to * BYTES, op->x.pitch)};
    int64_t *taps = (int64_t *)scene->scratch;
    Q *copy = scene->scratch + (groups * 4 * (int64_t)sizeof *taps + 63) / 64 * 64;
    struct band here = band_of(op, scene, item, rows, channels, copy);
    for (int64_t tap = 0; tap < groups * 4; tap++) {
        int64_t real = tap < op->kernel[0] * op->kernel[1] ? tap : 0;
        int64_t ky = real / op->kernel[1], kx = real % op->kernel[1];
        taps[tap] = ky * op->dilations[0] * here.row + kx * op->dilations[1] * here.pitch;
    }
    for (int64_t line = rows[0]; line < rows[1]; line++) {
        Q *y = pixel(scene, &op->y, item, line, 0);
        const Q *first = here.first + (line - rows[0]) * op->strides[0] * here.row, *other = y;
        int64_t step = op->strides[1] * here.pitch, other_step = 0;
        if (op->flags & (JOIN_ADD | JOIN_MULTIPLY)) {
            int whole = op->other.height * op->other.width > 1 || op->y.height * op->y.width == 1;
            other = pixel(scene, &op->other, item, whole ? line : 0, 0);
            other_step = whole ? op->other.pitch : 0;
        }
        for (int64_t chunk = from; chunk < to; chunk++) {
            int64_t channel = chunk * BYTES, room = least(BYTES, op->y.pitch - channel);
            const Q *values = first + channel - channels[0];
            if (op->flags == ZEROS && groups == 3)
                positions(op, ZEROS, 3, taps, values, step, op->y.width, other, other_step, channel, room, y);
            else if (op->flags == ZEROS)
                positions(op, ZEROS, groups, taps, values, step, op->y.width, other, other_step, channel, room, y);
            else
                positions(op, op->flags, groups, taps, values, step, op->y.width, other, other_step, channel, room, y);
        }
    }
}

/* Bytes that a task needs for itself. */
int64_t depthwise_scratch(const struct op *op, int threads)
{
    struct cut cut = cut_of(op, threads);
    int64_t lines = (op->y.height + cut.bands - 1) / cut.bands;
    int64_t taps = (op->kernel[0] * op->kernel[1] + 3) / 4 * 4;
    return taps * (int64_t)sizeof(int64_t) + 64 + band_bytes(op, lines, op->x.pitch);
}
