/* Attention of 8 bits, as ops/matmul.py defines it: every sum is one of integers, exponentials come from a table.
 *
 * A task has a head and some of its queries. It lays keys and values as weights lie, [LANES keys][4 values][lane][4] and
 * [LANES values][4 keys][lane][4], and works on ROWS queries at a time.
 */
#include "program.h"

#define ROWS 8
#define MOST_DEPTH 512

enum number_of_attention { UNIT, SCORE_STEP, SCORE_LOW, SCORE_HIGH, WEIGHT_STEP, VALUE_UNIT, EXPONENTIALS };

static int64_t up(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

/* x are queries, `other` keys, `third` values; positions lie along the width. */
struct sizes {
    int64_t queries, keys, depth, channels, bands, room; /* room: keys in whole vectors of bytes */
};

static struct sizes sizes_of(const struct op *op, int threads)
{
    struct sizes n = {op->x.width, op->other.width, op->x.channels, op->y.channels, 1, up(op->other.width, 64)};
    if (threads > 1)
        n.bands = least((n.queries + ROWS - 1) / ROWS, most(1, 4 * threads / op->x.items));
    return n;
}

int64_t attention_tasks(const struct op *op, int threads) { return op->x.items * sizes_of(op, threads).bands; }

/* Where a task has what: counted from its scratch. */
struct places {
    int64_t key_weights, value_weights, key_sums, value_sums, scores, weights, end;
};

static struct places places_of(struct sizes n)
{
    struct places at = {0};
    at.value_weights = at.key_weights + n.room * n.depth;
    at.key_sums = at.value_weights + up(n.channels, 16) * n.room;
    at.value_sums = at.key_sums + n.room * (int64_t)sizeof(int32_t);
    at.scores = at.value_sums + up(n.channels, 16) * (int64_t)sizeof(int32_t);
    at.weights = at.scores + ROWS * n.room;
    at.end = at.weights + ROWS * n.room + 64;
    return at;
}

int64_t attention_scratch(const struct op *op) { return places_of(sizes_of(op, 1)).end; }

/* Keys [key][depth] -> weights, and the sum of each. */
static void lay_keys(const struct op *op, const Q *keys, struct sizes n, int8_t *weights, int32_t *sums)
{
    const uint32_t turned = Q_OFFSET ? UINT32_C(0x80808080) : 0;
    memset(weights, 0, n.room * n.depth);
    memset(sums, 0, n.room * sizeof *sums);
    for (int64_t key = 0; key < n.keys; key++, keys += op->other.pitch) {
        int8_t *to = weights + key / LANES * LANES * n.depth + key % LANES * 4;
        int32_t sum = 0;
        for (int64_t c = 0; c < n.depth; c += 4, to += BYTES) {
            uint32_t four;
            memcpy(&four, keys + c, sizeof four);
            four ^= turned;
            memcpy(to, &four, sizeof four);
        }
        for (int64_t c = 0; c < n.depth; c++)
            sum += keys[c];
        sums[key] = sum - Q_OFFSET * (int32_t)n.depth;
    }
}

/* Values [key][channel] -> weights, and the sum of each channel. */
static void lay_values(const Q *values, int64_t pitch, struct sizes n, int8_t *weights, int32_t *sums)
{
    for (int64_t c = 0; c < n.channels; c += LANES) {
        vi sum = {};
        for (int64_t key = 0; key < n.room; key += 4, weights += BYTES) {
            vi four = {};
            UNROLL
            for (int i = 0; i < 4; i++)
                if (key + i < n.keys) {
                    vi value = __builtin_convertvector(load_narrow(values + (key + i) * pitch + c), vi) - Q_OFFSET;
                    sum += value, four |= (value & 255) << (8 * i);
                }
            memcpy(weights, &four, BYTES);
        }
        memcpy(sums + c, &sum, sizeof sum);
    }
}

/* ROWS rows times one vector of weights. */
INLINE void products(const Q *rows, int64_t pitch, const int8_t *weights, int64_t fours, vi sums[ROWS])
{
    UNROLL
    for (int i = 0; i < ROWS; i++)
        sums[i] = (vi){};
    for (int64_t k = 0; k < fours; k++) {
        vq some;
        memcpy(&some, weights + k * BYTES, BYTES);
        UNROLL
        for (int i = 0; i < ROWS; i++)
            sums[i] = dot(sums[i], all_fours(rows + i * pitch + 4 * k), some);
    }
}

typedef uint8_t vb __attribute__((vector_size(BYTES)));

INLINE vb load_b(const uint8_t *from) { vb v; memcpy(&v, from, sizeof v); return v; }

/* Scores of one row, as bytes from the lowest one on and 0 behind the last -> weights as stored; gives the sum of the weights. */
static int32_t softmax(const struct op *op, const uint8_t *scores, struct sizes n, Q *weights)
{
    const float *numbers = op->numbers, *exponentials = numbers + EXPONENTIALS;
    vb best = {};
    for (int64_t i = 0; i < n.room; i += BYTES) {
        vb here = load_b(scores + i), greater = (vb)(here > best);
        best = (here & greater) | (best & ~greater);
    }
    int highest = 0;
    for (int i = 0; i < BYTES; i++)
        highest = best[i] > highest ? best[i] : highest;
    const float *at = exponentials + highest;
    double parts[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= n.keys; i += 4)
        UNROLL
        for (int j = 0; j < 4; j++)
            parts[j] += at[-scores[i + j]];
    for (; i < n.keys; i++)
        parts[0] += at[-scores[i]];
    const float sum = (float)(parts[0] + parts[1] + parts[2] + parts[3]);
    Q by_distance[256] __attribute__((aligned(64)));
    for (int64_t k = 0; k < 256; k += LANES) {
        vi whole = nearest(smaller(load_f(exponentials + k) / sum / numbers[WEIGHT_STEP], all_f(255))) - 128 + Q_OFFSET;
        store_narrow(by_distance + k, __builtin_convertvector(whole, vq_narrow));
    }
    struct table table = table_at(by_distance);
    vi sums = {};
    vq ones = (vq){} + 1;
    for (i = 0; i < n.room; i += BYTES) {
        vq found = look_up(&table, (vq)((vb){} + (uint8_t)highest - load_b(scores + i)));
        memcpy(weights + i, &found, BYTES);
        sums = dot(sums, found, ones);
    }
    int32_t all = total(sums);
    for (i = n.keys; i < n.room; i++)
        all -= weights[i];
    return all + (128 - Q_OFFSET) * (int32_t)n.keys;
}

static void attend_rows(const struct op *op, const struct scene *scene, struct sizes n, int64_t head, int64_t first, int64_t count)
{
    const struct places at = places_of(n);
    const float *numbers = op->numbers;
    const int8_t *key_weights = (int8_t *)scene->scratch + at.key_weights;
    const int8_t *value_weights = (int8_t *)scene->scratch + at.value_weights;
    const int32_t *key_sums = (int32_t *)(scene->scratch + at.key_sums);
    const int32_t *value_sums = (int32_t *)(scene->scratch + at.value_sums);
    uint8_t *scores = (uint8_t *)scene->scratch + at.scores;
    Q *weights = scene->scratch + at.weights, few[ROWS * MOST_DEPTH];
    const int32_t key_zero = (int32_t)op->other.zero - Q_OFFSET, value_zero = (int32_t)op->third.zero - Q_OFFSET;
    const int32_t zero = (int32_t)op->x.zero;
    const Q *rows = pixel(scene, &op->x, head, 0, first);
    int64_t pitch = op->x.pitch;
    if (count < ROWS) {
        for (int64_t i = 0; i < ROWS; i++)
            memcpy(few + i * n.depth, rows + least(i, count - 1) * pitch, n.depth);
        rows = few, pitch = n.depth;
    }
    int32_t row_sums[ROWS], totals[ROWS];
    for (int64_t i = 0; i < ROWS; i++) {
        row_sums[i] = -zero * (int32_t)n.depth;
        for (int64_t c = 0; c < n.depth; c++)
            row_sums[i] += rows[i * pitch + c];
    }
    for (int64_t key = 0; key < n.keys; key += LANES) {
        vi sums[ROWS], under = load_i(key_sums + key) * zero;
        products(rows, pitch, key_weights + key * n.depth, n.depth / 4, sums);
        for (int64_t i = 0; i < ROWS; i++) {
            vf score = to_float(sums[i] - under - key_zero * row_sums[i]) * numbers[UNIT] / numbers[SCORE_STEP];
            vi whole = nearest(smaller(larger(score, all_f(numbers[SCORE_LOW])), all_f(numbers[SCORE_HIGH])));
            vq_narrow stored = __builtin_convertvector(whole - (int32_t)numbers[SCORE_LOW], vq_narrow);
            memcpy(scores + i * n.room + key, &stored, sizeof stored);
        }
    }
    for (int64_t i = 0; i < ROWS; i++) {
        memset(scores + i * n.room + n.keys, 0, n.room - n.keys);
        totals[i] = softmax(op, scores + i * n.room, n, weights + i * n.room);
    }
    for (int64_t c = 0; c < n.channels; c += LANES) {
        vi sums[ROWS], under = load_i(value_sums + c) * (128 - Q_OFFSET);
        products(weights, n.room, value_weights + c * n.room, n.room / 4, sums);
        for (int64_t i = 0; i < count; i++) {
            vf v = to_float(sums[i] + under - value_zero * totals[i]) * numbers[VALUE_UNIT] / op->step;
            if (op->flags & ZERO_FIRST)
                v = v + op->first_low;
            vi stored = nearest(smaller(larger(v, all_f(op->low)), all_f(op->high))) + (int32_t)op->place;
            store_narrow(pixel(scene, &op->y, head, 0, first + i) + c, __builtin_convertvector(stored, vq_narrow));
        }
    }
}

void attend(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    const struct sizes n = sizes_of(op, scene->threads);
    const struct places at = places_of(n);
    int64_t head = task / n.bands, from, to;
    (void)tasks;
    part_of(n.queries, task % n.bands, n.bands, &from, &to);
    lay_keys(op, pixel(scene, &op->other, head, 0, 0), n, (int8_t *)scene->scratch + at.key_weights,
             (int32_t *)(scene->scratch + at.key_sums));
    lay_values(pixel(scene, &op->third, head, 0, 0), op->third.pitch, n, (int8_t *)scene->scratch + at.value_weights,
               (int32_t *)(scene->scratch + at.value_sums));
    for (int64_t first = from; first < to; first += ROWS) {
        int64_t start = to - first < ROWS && to - from >= ROWS ? to - ROWS : first; /* some once more */
        attend_rows(op, scene, n, head, start, least(ROWS, to - start));
    }
}
