/* What is done with floats row by row: joins, tables, pooling, and the way from and to Python's arrays. */
#include "float_stage.h"
#include "float_turns.h"

#define SIZE ((int64_t)sizeof(float))

INLINE vf joined(const struct op *op, const int64_t kind, vf a, vf b)
{
    vf v = kind == FLOAT_ADD ? a + b : kind == FLOAT_SUBTRACT ? a - b : a * b;
    return rounded(op->flags & RECTIFY ? larger((vf){}, v) : v);
}

INLINE void join_pixels(const struct op *op, const int64_t kind, const struct scene *scene, int64_t from, int64_t to)
{
    int64_t plane = op->y.height * op->y.width, room = room_of(&op->y) / SIZE;
    int whole = op->other.height * op->other.width > 1 || plane == 1;
    for (int64_t i = from; i < to; i++) {
        const float *x = (const float *)(scene->work + op->x.offset + i * op->x.pitch);
        const float *other = (const float *)(scene->work + op->other.offset + (whole ? i : i / plane) * op->other.pitch);
        float *y = (float *)(scene->work + op->y.offset + i * op->y.pitch);
        for (int64_t c = 0; c < room; c += LANES)
            store_some(y + c, joined(op, kind, load_f(x + c), load_f(other + c)), room - c);
    }
}

/* x times a number per channel (`slope`), and another one (`factor`) added. */
static void scale_pixels(const struct op *op, const struct scene *scene, int64_t from, int64_t to)
{
    int64_t room = room_of(&op->y) / SIZE;
    for (int64_t i = from; i < to; i++) {
        const float *x = (const float *)(scene->work + op->x.offset + i * op->x.pitch);
        float *y = (float *)(scene->work + op->y.offset + i * op->y.pitch);
        for (int64_t c = 0; c < room; c += LANES) {
            vf v = load_f(x + c), slope = load_f(op->slope + c);
            v = op->flags & SLOPED ? sloped(v, slope, op->flags) : v * slope + load_f(op->factor + c);
            store_some(y + c, rounded(op->flags & RECTIFY ? larger((vf){}, v) : v), room - c);
        }
    }
}

static void look_up_pixels(const struct op *op, const struct scene *scene, int64_t from, int64_t to)
{
    int64_t room = room_of(&op->y) / SIZE;
    for (int64_t i = from; i < to; i++) {
        const float *x = (const float *)(scene->work + op->x.offset + i * op->x.pitch);
        float *y = (float *)(scene->work + op->y.offset + i * op->y.pitch);
        for (int64_t c = 0; c < room; c += LANES)
            store_some(y + c, looked_up((const half *)op->table, load_f(x + c)), room - c);
    }
}

static void pool_pixels(const struct op *op, const struct scene *scene, int64_t from, int64_t to)
{
    int64_t room = room_of(&op->y) / SIZE, plane = op->y.height * op->y.width;
    int64_t across = op->dilations[1] * op->x.pitch / SIZE, down = op->dilations[0] * op->x.width * op->x.pitch / SIZE;
    for (int64_t i = from; i < to; i++) {
        int64_t item = i / plane, oy = i % plane / op->y.width, ox = i % op->y.width, rows[2], columns[2];
        int64_t top = oy * op->strides[0] - op->pads[0], left = ox * op->strides[1] - op->pads[1];
        taps_inside(top, op->dilations[0], op->kernel[0], op->x.height, rows);
        taps_inside(left, op->dilations[1], op->kernel[1], op->x.width, columns);
        const float *first = float_pixel(scene, &op->x, item, 0, 0) + (top * op->x.width + left) * (op->x.pitch / SIZE);
        float *y = (float *)pixel(scene, &op->y, item, oy, ox);
        for (int64_t c = 0; c < room; c += LANES) {
            vf best = all_f(-__builtin_inff());
            for (int64_t ky = rows[0]; ky < rows[1]; ky++)
                for (int64_t kx = columns[0]; kx < columns[1]; kx++)
                    best = larger(best, load_f(first + ky * down + kx * across + c));
            store_some(y + c, best, room - c);
        }
    }
}

void float_pixels(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    int64_t from, to;
    part_of(op->y.items * op->y.height * op->y.width, task, tasks, &from, &to);
    switch (op->kind) {
    case FLOAT_ADD: join_pixels(op, FLOAT_ADD, scene, from, to); break;
    case FLOAT_SUBTRACT: join_pixels(op, FLOAT_SUBTRACT, scene, from, to); break;
    case FLOAT_MULTIPLY: join_pixels(op, FLOAT_MULTIPLY, scene, from, to); break;
    case FLOAT_SCALE: scale_pixels(op, scene, from, to); break;
    case FLOAT_TABLE: look_up_pixels(op, scene, from, to); break;
    default: pool_pixels(op, scene, from, to);
    }
}

/* NCHW arrays: pixels of a tensor are made of them, or they of those. */
void float_move(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    const struct tensor *t = &op->y;
    int64_t channels = t->channels / SIZE, pitch = t->pitch / SIZE, plane = t->height * t->width, room = room_of(t) / SIZE;
    int64_t from, to, count;
    part_of(t->items * plane, task, tasks, &from, &to);
    for (int64_t i = from; i < to; i += count) {
        int64_t first = i / plane * channels * plane + i % plane;
        float *pixels = (float *)(scene->work + t->offset + i * t->pitch);
        count = least(AT_A_TIME, least(to - i, plane - i % plane));
        for (int64_t c = 0; c < channels; c += AT_A_TIME) {
            int64_t some = least(AT_A_TIME, channels - c);
            if (op->kind == FLOAT_TAKE)
                take_block(scene->inputs[op->place] + first + c * plane, plane, pixels + c, pitch, count, some, room - c);
            else
                give_block(pixels + c, pitch, scene->outputs[op->place] + first + c * plane, plane, count, some);
        }
    }
}
