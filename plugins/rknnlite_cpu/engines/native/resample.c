/* Planes made of other places of a plane: axes in another order, rows and columns by their numbers, sums of four corners. */
#include "program.h"

#define AXES 6

/* `count` runs of `bytes`. */
INLINE void move_runs(Q *to, const Q *from, const int64_t bytes, int64_t count, int64_t down, int64_t across)
{
    for (int64_t i = 0; i < count; i++, to += down, from += across)
        memcpy(to, from, bytes);
}

/* Value after value of `count`, from place to place: [axis] sizes, bytes in x, bytes in y; x begins at `depth`, y at `place`. */
void shuffle(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    const int64_t *count = op->sizes, *across = count + AXES, *down = across + AXES;
    const Q *x = scene->work + op->x.offset + op->depth;
    Q *y = scene->work + op->y.offset + op->place;
    const int64_t n = count[AXES - 1], step = across[AXES - 1], stride = down[AXES - 1];
    const int runs = step == 1 && stride == 1, axes = runs ? AXES - 2 : AXES - 1; /* of lines: runs of bytes, or bytes */
    int64_t outer = 1, from, to;
    for (int i = 0; i < axes; i++)
        outer *= count[i];
    part_of(outer, task, tasks, &from, &to);
    for (int64_t line = from; line < to; line++) {
        const Q *source = x;
        Q *target = y;
        int64_t rest = line;
        for (int i = axes - 1; i >= 0; i--) {
            source += rest % count[i] * across[i], target += rest % count[i] * down[i];
            rest /= count[i];
        }
        if (runs && n == 4)
            move_runs(target, source, 4, count[axes], down[axes], across[axes]);
        else if (runs)
            move_runs(target, source, n, count[axes], down[axes], across[axes]);
        else
            for (int64_t i = 0; i < n; i++)
                target[i * stride] = source[i * step];
    }
}

/* `sizes`: for each row and then each column of y which one of x it is; below 0 what stands for 0. */
void pick_lines(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    const int64_t *rows = op->sizes, *columns = rows + op->y.height, room = room_of(&op->y);
    int64_t from, to;
    part_of(op->y.items * op->y.height, task, tasks, &from, &to);
    for (int64_t line = from; line < to; line++) {
        int64_t item = line / op->y.height, row = rows[line % op->y.height];
        Q *y = pixel(scene, &op->y, item, line % op->y.height, 0);
        for (int64_t x = 0; x < op->y.width; x++, y += op->y.pitch)
            if (row < 0 || columns[x] < 0)
                memset(y, (int)op->place, room);
            else
                memcpy(y, pixel(scene, &op->x, item, row, columns[x]), room);
    }
}

int64_t bilinear_scratch(const struct op *op) { return 2 * op->x.width * room_of(&op->x) * (int64_t)sizeof(float) + 64; }

static void read_line(const struct op *op, const struct scene *scene, int64_t item, int64_t row, float *to)
{
    const int64_t room = room_of(&op->x);
    const Q *from = pixel(scene, &op->x, item, row, 0);
    for (int64_t x = 0; x < op->x.width; x++, from += op->x.pitch, to += room)
        for (int64_t c = 0; c < room; c += LANES) {
            vf v = to_float(__builtin_convertvector(load_narrow(from + c), vi) - (int32_t)op->x.zero) * op->unit;
            memcpy(to + c, &v, sizeof v);
        }
}

/* `sizes`: lower rows, upper rows, lower columns, upper columns; `numbers`: what each of them counts. */
void bilinear(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    const int64_t height = op->y.height, width = op->y.width, room = room_of(&op->x);
    const int64_t *rows = op->sizes, *columns = rows + 2 * height;
    const float *down = op->numbers, *across = down + 2 * height;
    float *lines[2] = {(float *)scene->scratch, (float *)scene->scratch + op->x.width * room};
    int64_t held[2] = {-1, -1}, from, to;
    part_of(op->y.items * height, task, tasks, &from, &to);
    for (int64_t line = from; line < to; line++) {
        int64_t item = line / height, row = line % height;
        const float *ends[2];
        for (int i = 0; i < 2; i++) {
            int64_t wanted = item * op->x.height + rows[i * height + row], place = wanted & 1;
            if (held[place] != wanted)
                read_line(op, scene, item, rows[i * height + row], lines[place]), held[place] = wanted;
            ends[i] = lines[place];
        }
        const float above = down[row], below = down[height + row];
        Q *y = pixel(scene, &op->y, item, row, 0);
        for (int64_t x = 0; x < width; x++, y += op->y.pitch) {
            const int64_t left = columns[x] * room, right = columns[width + x] * room;
            const float low = across[x], high = across[width + x];
            const float weights[4] = {low * above, high * above, low * below, high * below};
            for (int64_t c = 0; c < room; c += LANES) {
                vf v = load_f(ends[0] + left + c) * weights[0];
                v = v + load_f(ends[0] + right + c) * weights[1];
                v = v + load_f(ends[1] + left + c) * weights[2];
                v = v + load_f(ends[1] + right + c) * weights[3];
                v = v / op->step;
                if (op->flags & ZERO_FIRST)
                    v = v + op->first_low;
                vi stored = nearest(smaller(larger(v, all_f(op->low)), all_f(op->high))) + (int32_t)op->place;
                store_narrow(y + c, __builtin_convertvector(stored, vq_narrow));
            }
        }
    }
}

/* What the file stores, as it lies. */
void put(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    int64_t from, to, bytes = op->y.width * op->y.pitch;
    part_of(op->y.items * op->y.height, task, tasks, &from, &to);
    memcpy(scene->work + op->y.offset + from * bytes, op->table + from * bytes, (to - from) * bytes);
}
