/* Normalisation over the channels of a position, as ops/norm.py defines it: sums of integers, the size of all of them in double. */
#include "root.h"

enum mode { LAYER, RMS, L2, L1 };

/* Values of a position from channel `c` on less their zero point; none behind the last one. */
INLINE vi values_at(const struct op *op, const Q *x, int64_t c, vi lanes)
{
    vi values = __builtin_convertvector(load_narrow(x + c), vi) - (int32_t)op->x.zero;
    return c + LANES <= op->y.channels ? values : values & (lanes < (int32_t)(op->y.channels - c));
}

INLINE int64_t sum_of(vi values)
{
    int64_t sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += values[i];
    return sum;
}

/* `numbers`: what is added under the root in two parts, scale and offset of every channel. */
void normalise(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    const int64_t channels = op->y.channels, room = room_of(&op->y), mode = op->sizes[0];
    const double count = (double)channels;
    double added;
    memcpy(&added, op->sizes + 1, sizeof added);
    const float *scale = op->factor, *offset = op->slope;
    vi lanes;
    for (int i = 0; i < LANES; i++)
        lanes[i] = i;
    int64_t from, to;
    part_of(op->y.items * op->y.height * op->y.width, task, tasks, &from, &to);
    for (int64_t i = from; i < to; i++) {
        const Q *x = scene->work + op->x.offset + i * op->x.pitch;
        Q *y = scene->work + op->y.offset + i * op->y.pitch;
        vi sums = {}, squares = {};
        for (int64_t c = 0; c < channels; c += LANES) {
            vi values = values_at(op, x, c, lanes), negative = values < 0;
            sums += values;
            squares += mode == L1 ? (values ^ negative) - negative : values * values;
        }
        int64_t total_of_all = mode == LAYER ? sum_of(sums) : 0;
        double size = (double)sum_of(squares), sum = (double)total_of_all;
        if (mode == L1)
            size += added;
        else if (mode == LAYER)
            size = root_of(size * count - sum * sum + added);
        else
            size = root_of(size + added);
        if (mode == RMS)
            size = size / root_of(count);
        const float divisor = (float)size, middle = (float)total_of_all, times = mode == LAYER ? (float)channels : 1.0f;
        for (int64_t c = 0; c < room; c += LANES) {
            vf v = (to_float(values_at(op, x, c, lanes)) * times - middle) / divisor;
            v = v * load_f(scale + c) + load_f(offset + c);
            v = v / op->step;
            if (op->flags & ZERO_FIRST)
                v = v + op->first_low;
            vi stored = nearest(smaller(larger(v, all_f(op->low)), all_f(op->high))) + (int32_t)op->place;
            store_narrow(y + c, __builtin_convertvector(stored, vq_narrow));
        }
    }
}
