/* Bytes to floats and back: planes of the same pixels, of which one has four bytes for each channel. */
#include "program.h"

static void to_floats(const struct op *op, const Q *x, Q *y)
{
    for (int64_t i = 0; i < op->y.width; i++, x += op->x.pitch, y += op->y.pitch)
        for (int64_t c = 0; c < op->x.channels; c++)
            memcpy(y + c * sizeof(float), op->factor + (uint8_t)x[c], sizeof(float));
}

INLINE vi stored_of(const struct op *op, vf v)
{
    v = v / op->step;
    if (op->flags & ZERO_FIRST)
        v = v + op->first_low;
    return nearest(smaller(larger(v, all_f(op->low)), all_f(op->high))) + (int32_t)op->place;
}

/* LANES channels of a pixel, or where it has one only LANES pixels. */
static void to_bytes(const struct op *op, const Q *x, Q *y)
{
    const int64_t channels = op->y.channels, width = op->y.width;
    const int alone = channels == 1;
    const int64_t outer = alone ? 1 : width, inner = alone ? width : channels;
    const int64_t across = alone ? op->x.pitch : (int64_t)sizeof(float), down = alone ? op->y.pitch : 1;
    for (int64_t i = 0; i < outer; i++, x += op->x.pitch, y += op->y.pitch)
        for (int64_t c = 0; c < inner; c += LANES) {
            const int64_t count = least(LANES, inner - c);
            float values[LANES] = {0};
            for (int64_t j = 0; j < count; j++)
                memcpy(values + j, x + (c + j) * across, sizeof(float));
            vi stored = stored_of(op, load_f(values));
            for (int64_t j = 0; j < count; j++)
                y[(c + j) * down] = (Q)stored[j];
        }
}

void convert(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    int64_t from, to;
    part_of(op->y.items * op->y.height, task, tasks, &from, &to);
    for (int64_t line = from; line < to; line++) {
        const Q *x = pixel(scene, &op->x, line / op->y.height, line % op->y.height, 0);
        Q *y = pixel(scene, &op->y, line / op->y.height, line % op->y.height, 0);
        if (op->kind == TO_FLOATS)
            to_floats(op, x, y);
        else
            to_bytes(op, x, y);
    }
}
