/* What networks of tokens are made of: normalisation over channels, attention, reshaping, and rows that change with channels. */
#include "float_products.h"
#include "float_stage.h"
#include "float_turns.h"
#include "root.h"

#define SIZE ((int64_t)sizeof(float))

/* The first `count` lanes, zeros behind them. */
INLINE vf first_of(vf v, int64_t count)
{
    vi lanes;
    UNROLL
    for (int i = 0; i < LANES; i++)
        lanes[i] = i;
    return (vf)((vi)v & (lanes < all_i((int32_t)least(count, LANES))));
}

INLINE float sum_of(vf v)
{
    float sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += v[i];
    return sum;
}

enum norm { LAYER, RMS, L2 };

void float_normalise(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    int64_t from, to, count = op->y.channels / SIZE, room = room_of(&op->y) / SIZE;
    part_of(op->y.items * op->y.height * op->y.width, task, tasks, &from, &to);
    for (int64_t i = from; i < to; i++) {
        const float *x = (const float *)(scene->work + op->x.offset + i * op->x.pitch);
        float *y = (float *)(scene->work + op->y.offset + i * op->y.pitch);
        float mean = 0;
        vf sums = {};
        if (op->place == LAYER) {
            for (int64_t c = 0; c < count; c += LANES)
                sums += first_of(load_f(x + c), count - c);
            mean = sum_of(sums) / (float)count;
            sums = (vf){};
        }
        for (int64_t c = 0; c < count; c += LANES) {
            vf v = first_of(load_f(x + c) - mean, count - c);
            sums += v * v;
        }
        float size = op->place == L2 ? sum_of(sums) : sum_of(sums) / (float)count;
        float root = (float)root_of(size + op->unit); /* as rounded as one in single precision */
        for (int64_t c = 0; c < count; c += LANES) {
            vf v = (load_f(x + c) - mean) / root;
            store_some(y + c, rounded(v * load_f(op->slope + c) + load_f(op->factor + c)), room - c);
        }
    }
}

static int64_t to_wide(int64_t count) { return (count + WIDE - 1) / WIDE * WIDE; }

/* The smallest share of rows of an item that a task of an attention has. */
static int64_t parts_of(const struct op *op, int threads)
{
    int64_t wanted = threads == 1 ? 1 : (4 * threads + op->y.items - 1) / op->y.items;
    return most(1, least(wanted, op->y.height * op->y.width / FLOAT_TILE));
}

int64_t float_attention_tasks(const struct op *op, int threads) { return op->y.items * parts_of(op, threads); }

int64_t float_attention_scratch(const struct op *op)
{
    int64_t tokens = op->other.height * op->other.width, depth = op->other.channels / SIZE;
    int64_t right = op->kind == FLOAT_SCORES ? depth * to_wide(tokens) : tokens * to_wide(depth);
    return (right + FLOAT_TILE * to_wide(op->y.channels / SIZE)) * SIZE + 64;
}

/* exp(unit * row) in shares of their sum. */
static void softmax(float *row, int64_t count, float unit)
{
    vf largest = all_f(-__builtin_inff()), sums = {};
    int64_t whole = count / LANES * LANES;
    for (int64_t c = 0; c < whole; c += LANES)
        largest = larger(largest, load_f(row + c) * unit);
    float top = largest[0];
    for (int i = 1; i < LANES; i++)
        top = largest[i] > top ? largest[i] : top;
    for (int64_t c = whole; c < count; c++)
        top = row[c] * unit > top ? row[c] * unit : top;
    for (int64_t c = 0; c < count; c += LANES) {
        vf power = (load_f(row + c) * unit - top) * 0x1.715476p0f;
        vf found = power_of_two(smaller(all_f(126), larger(all_f(-126), power)));
        memcpy(row + c, &found, sizeof found);
        sums += first_of(found, count - c);
    }
    vf sum = all_f(sum_of(sums));
    for (int64_t c = 0; c < count; c += LANES) {
        vf found = load_f(row + c) / sum;
        memcpy(row + c, &found, sizeof found);
    }
}

/* FLOAT_SCORES: softmax of products of x's pixels with those of `other`; FLOAT_WEIGH: sums of `other`'s pixels times those. */
void float_attend(const struct op *op, const struct scene *scene, int64_t task)
{
    int64_t parts = parts_of(op, scene->threads), item = task / parts, from, to;
    int64_t tokens = op->other.height * op->other.width, depth = op->other.channels / SIZE;
    int64_t scores = op->kind == FLOAT_SCORES, results = op->y.channels / SIZE, room = room_of(&op->y) / SIZE;
    int64_t step = to_wide(results), inner = scores ? depth : tokens, pitch = op->x.pitch / SIZE;
    float *right = (float *)scene->scratch, *rows = right + inner * step;
    part_of(op->y.height * op->y.width, task % parts, parts, &from, &to);
    memset(right, 0, inner * step * SIZE);
    const float *others = float_pixel(scene, &op->other, item, 0, 0);
    int64_t other_pitch = op->other.pitch / SIZE;
    if (scores)
        for (int64_t block = 0; block < depth; block += 16) /* lines of the cache have as many tokens */
            for (int64_t t = 0; t < tokens; t++)
                for (int64_t c = block; c < least(depth, block + 16); c++)
                    right[c * step + t] = others[t * other_pitch + c];
    else
        for (int64_t t = 0; t < tokens; t++)
            memcpy(right + t * step, others + t * other_pitch, depth * SIZE);
    const float *left = float_pixel(scene, &op->x, item, 0, 0);
    for (int64_t first = from; first < to; first += FLOAT_TILE) {
        int64_t count = least(FLOAT_TILE, to - first);
        for (int64_t c = 0; c < step; c += WIDE)
            float_products(count, left + first * pitch, pitch, right + c, step, inner, rows + c, step);
        for (int64_t i = 0; i < count; i++) {
            float *row = rows + i * step, *y = (float *)pixel(scene, &op->y, item, 0, first + i);
            if (scores)
                softmax(row, results, op->unit);
            for (int64_t c = 0; c < results; c += LANES)
                store_some(y + c, scores ? load_f(row + c) : rounded(load_f(row + c)), room - c);
        }
    }
}

/* The same values in NCHW order with other sides. */
static void reshape(const struct op *op, const struct scene *scene, int64_t from, int64_t to)
{
    int64_t plane = op->y.height * op->y.width, there = op->x.height * op->x.width;
    int64_t channels = op->y.channels / SIZE, others = op->x.channels / SIZE;
    for (int64_t i = from; i < to; i++) { /* pixels of y */
        float *y = (float *)(scene->work + op->y.offset + i * op->y.pitch);
        int64_t first = i / plane * channels * plane + i % plane;
        for (int64_t c = 0, run; plane == there && c < channels; c += run) { /* channels of a pixel lie together */
            int64_t channel = i / plane * channels + c, source = channel / others * plane + i % plane;
            run = least(channels - c, others - channel % others);
            memcpy(y + c, (float *)(scene->work + op->x.offset + source * op->x.pitch) + channel % others, run * SIZE);
        }
        for (int64_t c = 0; plane != there && c < channels; c++) {
            int64_t value = first + c * plane, item = value / (others * there), rest = value % (others * there);
            y[c] = *((const float *)(scene->work + op->x.offset + (item * there + rest % there) * op->x.pitch) + rest / there);
        }
    }
}

/* Columns become channels, channels columns. */
static void transpose(const struct op *op, const struct scene *scene, int64_t from, int64_t to)
{
    int64_t channels = op->y.channels / SIZE, pitch = op->x.pitch / SIZE, count;
    for (int64_t i = from; i < to; i += count) {
        int64_t row = i / op->y.width, column = i % op->y.width;
        const float *x = (const float *)(scene->work + op->x.offset + row * op->x.width * op->x.pitch) + column;
        float *y = (float *)(scene->work + op->y.offset + i * op->y.pitch);
        count = least(AT_A_TIME, least(to - i, op->y.width - column));
        for (int64_t c = 0; c < channels; c += AT_A_TIME)
            give_block(x + c * pitch, pitch, y + c, op->y.pitch / SIZE, least(AT_A_TIME, channels - c), count);
    }
}

void float_reorder(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    int64_t from, to;
    part_of(op->y.items * op->y.height * op->y.width, task, tasks, &from, &to);
    if (op->kind == FLOAT_RESHAPE)
        reshape(op, scene, from, to);
    else
        transpose(op, scene, from, to);
}
