/* What is done with floats row by row: joins, tables, pooling, and the way from and to Python's arrays. */
#include "float_stage.h"

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
    for (int64_t i = from; i < to; i++) {
        int64_t item = i / plane, oy = i % plane / op->y.width, ox = i % op->y.width;
        int64_t top = oy * op->strides[0] - op->pads[0], left = ox * op->strides[1] - op->pads[1];
        float *y = (float *)pixel(scene, &op->y, item, oy, ox);
        for (int64_t c = 0; c < room; c += LANES) {
            vf best = all_f(-__builtin_inff());
            for (int64_t ky = 0; ky < op->kernel[0]; ky++) {
                int64_t row = top + ky * op->dilations[0];
                if (row < 0 || row >= op->x.height)
                    continue;
                for (int64_t kx = 0; kx < op->kernel[1]; kx++) {
                    int64_t column = left + kx * op->dilations[1];
                    if (column >= 0 && column < op->x.width)
                        best = larger(best, load_f(float_pixel(scene, &op->x, item, row, column) + c));
                }
            }
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

/* Rows of NCHW arrays, 16 channels at a time: lines of the cache hold as many of a pixel. */
void float_move(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    const struct tensor *t = &op->y;
    int64_t from, to, channels = t->channels / SIZE, pitch = t->pitch / SIZE, plane = t->height * t->width;
    part_of(t->items * t->height, task, tasks, &from, &to);
    for (int64_t line = from; line < to; line++) {
        int64_t item = line / t->height, row = line % t->height;
        float *pixels = (float *)pixel(scene, t, item, row, 0);
        int64_t first = item * channels * plane + row * t->width;
        for (int64_t block = 0; block < channels; block += 16)
            for (int64_t c = block; c < least(channels, block + 16); c++) {
                float *here = pixels + c;
                if (op->kind == FLOAT_TAKE) {
                    const float *there = scene->inputs[op->place] + first + c * plane;
                    for (int64_t x = 0; x < t->width; x++)
                        here[x * pitch] = there[x];
                } else {
                    float *there = scene->outputs[op->place] + first + c * plane;
                    for (int64_t x = 0; x < t->width; x++)
                        there[x] = here[x * pitch];
                }
            }
    }
}
