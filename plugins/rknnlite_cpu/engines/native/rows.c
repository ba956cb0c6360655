/* What is done row by row: padding, joins, tables, pooling, moving, and the way from and to Python's arrays. */
#include "program.h"

static void padding_of(const struct op *op, int64_t padding[4])
{
    for (int i = 0; i < 2; i++) {
        int64_t from = i ? op->x.width : op->x.height, to = i ? op->y.width : op->y.height;
        padding[i] = op->pads[i];
        padding[2 + i]
            = (to - 1) * op->strides[i] + op->dilations[i] * (op->kernel[i] - 1) + 1 - from - op->pads[i];
    }
}

int64_t padded(const struct op *op)
{
    int64_t padding[4];
    padding_of(op, padding);
    return padding[0] != 0 || padding[1] != 0 || padding[2] > 0 || padding[3] > 0;
}

int64_t band_bytes(const struct op *op, int64_t lines, int64_t pitch)
{
    if (!padded(op))
        return 0;
    int64_t height = (lines - 1) * op->strides[0] + op->dilations[0] * (op->kernel[0] - 1) + 1;
    return height * ((op->y.width - 1) * op->strides[1] + op->dilations[1] * (op->kernel[1] - 1) + 1) * pitch;
}

struct band band_of(const struct op *op, const struct scene *scene, int64_t item, const int64_t rows[2],
                    const int64_t channels[2], Q *copy)
{
    int64_t first = rows[0] * op->strides[0] - op->pads[0];
    if (!padded(op)) {
        const Q *from = pixel(scene, &op->x, item, first, 0) + channels[0];
        return (struct band){from, op->x.width * op->x.pitch, op->x.pitch};
    }
    int64_t padding[4], pitch = channels[1] - channels[0];
    padding_of(op, padding);
    int64_t height = (rows[1] - rows[0] - 1) * op->strides[0] + op->dilations[0] * (op->kernel[0] - 1) + 1;
    int64_t width = (op->y.width - 1) * op->strides[1] + op->dilations[1] * (op->kernel[1] - 1) + 1;
    int64_t left = most(0, least(width, op->pads[1])), start = most(0, -op->pads[1]);
    int64_t inside = most(0, least(op->x.width - start, width - left)), zero = op->x.zero;
    for (int64_t y = 0; y < height; y++) {
        Q *to = copy + y * width * pitch;
        if (first + y < 0 || first + y >= op->x.height) {
            memset(to, (int)zero, width * pitch);
            continue;
        }
        const Q *from = pixel(scene, &op->x, item, first + y, start) + channels[0];
        memset(to, (int)zero, left * pitch);
        if (pitch == op->x.pitch)
            memcpy(to + left * pitch, from, inside * pitch);
        else
            for (int64_t x = 0; x < inside; x++)
                memcpy(to + (left + x) * pitch, from + x * op->x.pitch, pitch);
        memset(to + (left + inside) * pitch, (int)zero, (width - left - inside) * pitch);
    }
    return (struct band){copy, width * pitch, pitch};
}

/* Sums and products of two tensors, the second of one position or of all; both in real numbers as numpy computes them. */
INLINE void join(const struct op *op, const int adds, vi a[4], vi b[4])
{
    UNROLL
    for (int j = 0; j < 4; j++) {
        vf v = to_float(a[j] - (int32_t)op->x.zero) * op->unit;
        vf w = to_float(b[j] - (int32_t)op->other.zero) * op->other_unit;
        if (adds && op->flags & ZERO_FIRST) { /* see NodeView.steps_of_sum */
            v = ((v + op->first_low) + (w + op->first_high)) * op->step;
        } else {
            v = adds ? v + w : v * w;
            if (op->flags & RECTIFY)
                v = larger(v, (vf){});
            v = v / op->step;
            if (op->flags & ZERO_FIRST)
                v = v + op->first_low;
        }
        a[j] = nearest(smaller(larger(v, all_f(op->low)), all_f(op->high))) + (int32_t)op->place;
    }
}

/* Times `slope`, which is one per channel, and `factor` added; SLOPED: those below zero times it. */
static void scale_pixel(const struct op *op, const Q *x, Q *y)
{
    const int64_t room = room_of(&op->y);
    const vf unit = all_f(op->unit), step = all_f(op->step), first = all_f(op->first_low);
    const vf low = all_f(op->low), high = all_f(op->high);
    for (int64_t c = 0; c < room; c += LANES) {
        vf v = to_float(__builtin_convertvector(load_narrow(x + c), vi) - (int32_t)op->x.zero) * unit;
        vf product = v * load_f(op->slope + c);
        if (op->flags & SLOPED)
            v = (vf)(((vi)product & (v < 0)) | ((vi)v & ~(v < 0)));
        else
            v = product + load_f(op->factor + c);
        if (op->flags & RECTIFY)
            v = larger(v, (vf){});
        v = v / step;
        if (op->flags & ZERO_FIRST)
            v = v + first;
        vi stored = nearest(smaller(larger(v, low), high)) + (int32_t)op->place;
        store_narrow(y + c, __builtin_convertvector(stored, vq_narrow));
    }
}

/* Every byte by a table; bytes behind the last one of `from` are read, too. */
INLINE void look_up_all(const struct table *table, const Q *from, Q *to, int64_t count)
{
    int64_t c = 0;
    for (; c + BYTES <= count; c += BYTES) {
        vq found = look_up(table, load_q(from + c));
        memcpy(to + c, &found, BYTES);
    }
    if (c == count)
        return;
    vq found = look_up(table, load_q(from + c));
    const Q *rest = (const Q *)&found;
    for (; c + 16 <= count; c += 16, rest += 16)
        memcpy(to + c, rest, 16);
    memcpy(to + c, rest, count - c);
}

void elementwise(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    int64_t plane = op->y.height * op->y.width, from, to;
    part_of(op->y.items * plane, task, tasks, &from, &to);
    if (op->kind == TABLE) {
        struct table table = table_at(op->table);
        for (int64_t i = from; i < to; i++)
            look_up_all(&table, scene->work + op->x.offset + i * op->x.pitch, scene->work + op->y.offset + i * op->y.pitch,
                        op->y.channels);
        return;
    }
    if (op->kind == SCALE) {
        for (int64_t i = from; i < to; i++)
            scale_pixel(op, scene->work + op->x.offset + i * op->x.pitch, scene->work + op->y.offset + i * op->y.pitch);
        return;
    }
    int whole = op->other.height * op->other.width > 1 || plane == 1;
    int64_t room = room_of(&op->y);
    for (int64_t i = from; i < to; i++) {
        const Q *x = scene->work + op->x.offset + i * op->x.pitch;
        const Q *other = scene->work + op->other.offset + (whole ? i : i / plane) * op->other.pitch;
        Q *y = scene->work + op->y.offset + i * op->y.pitch;
        for (int64_t c = 0; c < room; c += BYTES) {
            vi a[4], b[4];
            unpacked(load_q(x + c), a);
            unpacked(load_q(other + c), b);
            join(op, op->kind == ADD, a, b);
            vq stored = packed(a);
            if (room - c >= BYTES)
                memcpy(y + c, &stored, BYTES);
            else
                memcpy(y + c, &stored, room - c);
        }
    }
}

void pool(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    int64_t from, to;
    part_of(op->y.items * op->y.height, task, tasks, &from, &to);
    int64_t room = room_of(&op->y), across = op->dilations[1] * op->x.pitch, down = op->dilations[0] * op->x.width * op->x.pitch;
    for (int64_t line = from; line < to; line++) {
        int64_t item = line / op->y.height, top = line % op->y.height * op->strides[0] - op->pads[0], rows[2], columns[2];
        taps_inside(top, op->dilations[0], op->kernel[0], op->x.height, rows);
        for (int64_t ox = 0; ox < op->y.width; ox++) {
            int64_t left = ox * op->strides[1] - op->pads[1];
            taps_inside(left, op->dilations[1], op->kernel[1], op->x.width, columns);
            const Q *first = pixel(scene, &op->x, item, 0, 0) + (top * op->x.width + left) * op->x.pitch;
            Q *y = pixel(scene, &op->y, item, line % op->y.height, ox);
            for (int64_t c = 0; c < room; c += BYTES) {
                vq best = (vq){} + (Q)(Q_OFFSET ? 0 : -128);
                for (int64_t ky = rows[0]; ky < rows[1]; ky++)
                    for (int64_t kx = columns[0]; kx < columns[1]; kx++) {
                        vq here = load_q(first + ky * down + kx * across + c), greater = (vq)(here > best);
                        best = (here & greater) | (best & ~greater);
                    }
                if (room - c >= BYTES)
                    memcpy(y + c, &best, BYTES);
                else
                    memcpy(y + c, &best, room - c);
            }
        }
    }
}

static void take(const struct op *op, const struct scene *scene, int64_t item, int64_t row)
{
    const struct tensor *t = &op->y;
    const float *from = scene->inputs[op->place];
    Q *to = pixel(scene, t, item, row, 0);
    int32_t zero = (int32_t)t->zero;
    if (t->pitch == 4) { /* a pixel of a picture at a time */
        const float *plane[4];
        for (int64_t c = 0; c < 4; c++)
            plane[c] = from + ((item * t->channels + least(c, t->channels - 1)) * t->height + row) * t->width;
        int64_t x = 0;
        for (; x + LANES <= t->width; x += LANES) {
            vi four = {};
            UNROLL
            for (int c = 0; c < 4; c++)
                four |= ((__builtin_convertvector(load_f(plane[c] + x), vi) + zero) & 255) << (8 * c);
            memcpy(to + 4 * x, &four, sizeof four);
        }
        for (; x < t->width; x++)
            for (int c = 0; c < 4; c++)
                to[4 * x + c] = (Q)((int32_t)plane[c][x] + zero);
        return;
    }
    for (int64_t c = 0; c < t->channels; c++) {
        const float *plane = from + ((item * t->channels + c) * t->height + row) * t->width;
        for (int64_t x = 0; x < t->width; x++)
            to[x * t->pitch + c] = (Q)((int32_t)plane[x] + zero);
    }
}

static void give(const struct op *op, const struct scene *scene, int64_t item, int64_t row)
{
    const struct tensor *t = &op->x;
    float *to = scene->outputs[op->place];
    const Q *from = pixel(scene, t, item, row, 0);
    int32_t zero = (int32_t)t->zero;
    for (int64_t c = 0; c < t->channels; c++) {
        float *plane = to + ((item * t->channels + c) * t->height + row) * t->width;
        for (int64_t x = 0; x < t->width; x++)
            plane[x] = (float)((int32_t)from[x * t->pitch + c] - zero);
    }
}

static void copy(const struct op *op, const struct scene *scene, int64_t item, int64_t row, const struct table *table)
{
    for (int64_t ox = 0; ox < op->y.width; ox++) {
        const Q *from = pixel(scene, &op->x, item, row / op->strides[0], ox / op->strides[1]) + op->depth;
        Q *to = pixel(scene, &op->y, item, row, ox) + op->place;
        if (op->table != NULL)
            look_up_all(table, from, to, op->channels);
        else if (op->channels % 16 == 0)
            for (int64_t c = 0; c < op->channels; c += 16)
                memcpy(to + c, from + c, 16);
        else
            memcpy(to, from, op->channels);
    }
}

/* Zeros between the pixels. */
static void spread(const struct op *op, const struct scene *scene, int64_t item, int64_t row)
{
    Q *to = pixel(scene, &op->y, item, row, 0);
    int64_t room = room_of(&op->y), across = op->strides[1];
    for (int64_t x = 0; x < op->y.width; x++) {
        if (row % op->strides[0] == 0 && x % across == 0)
            memcpy(to + x * op->y.pitch, pixel(scene, &op->x, item, row / op->strides[0], x / across), room);
        else
            memset(to + x * op->y.pitch, (int)op->y.zero, room);
    }
}

void move(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    const struct tensor *t = op->kind == GIVE ? &op->x : &op->y;
    struct table table = {};
    if (op->kind == COPY && op->table != NULL)
        table = table_at(op->table);
    int64_t from, to;
    part_of(t->items * t->height, task, tasks, &from, &to);
    for (int64_t line = from; line < to; line++) {
        int64_t item = line / t->height, row = line % t->height;
        if (op->kind == TAKE)
            take(op, scene, item, row);
        else if (op->kind == GIVE)
            give(op, scene, item, row);
        else if (op->kind == SPREAD)
            spread(op, scene, item, row);
        else
            copy(op, scene, item, row, &table);
    }
}
