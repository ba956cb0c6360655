/* Values in float32 that are no more than a way between kernels, and values of any order of axes.
 *
 * A tensor of reals lies as one value after the other in the order of its axes, four bytes each.
 */
#include "program.h"

#define AXES 6

/* Value after value of `count`, from place to place: [axis] sizes, bytes in x, bytes in y; x begins at `depth`, y at `place`. */
void shuffle(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    const int64_t *count = op->sizes, *across = count + AXES, *down = across + AXES;
    const Q *x = scene->work + op->x.offset + op->depth;
    Q *y = scene->work + op->y.offset + op->place;
    int64_t outer = 1, from, to;
    for (int i = 0; i < AXES - 1; i++)
        outer *= count[i];
    part_of(outer, task, tasks, &from, &to);
    const int64_t n = count[AXES - 1], step = across[AXES - 1], stride = down[AXES - 1];
    for (int64_t line = from; line < to; line++) {
        const Q *source = x;
        Q *target = y;
        int64_t rest = line;
        for (int i = AXES - 2; i >= 0; i--) {
            source += rest % count[i] * across[i], target += rest % count[i] * down[i];
            rest /= count[i];
        }
        if (step == 1 && stride == 1)
            memcpy(target, source, n);
        else
            for (int64_t i = 0; i < n; i++)
                target[i * stride] = source[i * step];
    }
}

/* Reals of the values `from` to `to` of a plane, counted in the order of its axes. */
static void to_reals(const struct op *op, const struct scene *scene, int64_t from, int64_t to)
{
    const struct tensor *t = &op->x;
    const int64_t plane = t->height * t->width, pitch = t->pitch;
    float *y = (float *)(scene->work + op->y.offset);
    for (int64_t above = from / plane, first = from % plane; from < to; above++, first = 0) {
        const Q *x = pixel(scene, t, above / t->channels, 0, first) + above % t->channels;
        int64_t run = least(plane - first, to - from);
        for (int64_t i = 0; i < run; i++)
            y[from + i] = op->factor[(uint8_t)x[i * pitch]];
        from += run;
    }
}

/* A row of every channel; reals behind the last one are read, too. */
static void to_bytes(const struct op *op, const struct scene *scene, int64_t line)
{
    const struct tensor *t = &op->y;
    int64_t item = line / t->height, row = line % t->height;
    Q *to = pixel(scene, t, item, row, 0);
    for (int64_t c = 0; c < t->channels; c++) {
        const float *from = (const float *)(scene->work + op->x.offset) + ((item * t->channels + c) * t->height + row) * t->width;
        for (int64_t x = 0; x < t->width; x += LANES) {
            vf v = load_f(from + x) / op->step;
            if (op->flags & ZERO_FIRST)
                v = v + op->first_low;
            vi stored = nearest(smaller(larger(v, all_f(op->low)), all_f(op->high))) + (int32_t)op->place;
            for (int64_t i = 0; i < least(LANES, t->width - x); i++)
                to[(x + i) * t->pitch + c] = (Q)stored[i];
        }
    }
}

void move_reals(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    const struct tensor *t = op->kind == GIVE_REALS ? &op->x : &op->y;
    int64_t from, to;
    part_of(t->items * t->height, task, tasks, &from, &to);
    float *x = (float *)(scene->work + op->x.offset), *y = (float *)(scene->work + op->y.offset);
    switch (op->kind) {
    case TAKE_REALS:
        memcpy(y + from, scene->inputs[op->place] + from, (to - from) * sizeof *y);
        break;
    case GIVE_REALS:
        memcpy(scene->outputs[op->place] + from, x + from, (to - from) * sizeof *x);
        break;
    case TO_REALS:
        to_reals(op, scene, from, to);
        break;
    default:
        for (int64_t line = from; line < to; line++)
            to_bytes(op, scene, line);
    }
}
