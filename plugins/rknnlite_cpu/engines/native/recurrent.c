/* LSTM and GRU, as ops/ordered_recurrence.py defines them: float32, products added in the order of the inputs.
 *
 * Weights are [direction][LANES hidden values][input][gate][lane]; where the candidate of a GRU is reset first, those of its other two
 * gates come first and its own after them; W and then R, as float16 where that is all of them (flag HALVES). `slope`, where it is
 * there, has the float of each byte of x. A task has a direction and some items of the batch.
 */
#include "float_vectors.h"
#include "rational.h"

#define ROWS 4 /* operands that a product works on at a time */

/* What `op->sizes` holds: bytes from step to step, from item to item, from value to value of x and y, at last. */
enum size { STEPS, BATCH, INPUTS, HIDDEN, GATES, DIRECTIONS, REVERSE, RESET_LATE, X_STEP, X_ITEM, X_VALUE, Y_STEP, Y_DIRECTION, Y_ITEM, Y_VALUE };

/* Weights of some rows, and what their sums are multiplied by and added to. */
struct rows {
    const char *weights;
    const float *step, *bias;
};

struct recurrence {
    const struct op *op;
    int64_t hidden, blocks, gates, items; /* hidden: whole vectors */
    struct rows w, r;
    float *xs, *given, *h, *next, *c, *kept; /* [ROWS][...] */
};

static int64_t whole(int64_t count) { return (count + LANES - 1) / LANES * LANES; }

int64_t recurrent_tasks(const struct op *op, int threads)
{
    (void)threads;
    return op->sizes[DIRECTIONS] * ((op->sizes[BATCH] + ROWS - 1) / ROWS);
}

int64_t recurrent_scratch(const struct op *op)
{
    int64_t hidden = whole(op->sizes[HIDDEN]);
    return ROWS * (op->sizes[INPUTS] + 2 * LANES + hidden * (2 * op->sizes[GATES] + 4)) * (int64_t)sizeof(float);
}

/* LANES weights, the first of them `place` values on. */
INLINE vf weights_at(const char *weights, int64_t place, const int halves)
{
    return halves ? of_halves(load_h((const half *)weights + place)) : load_f((const float *)weights + place);
}

/* [block][row][gate] of some blocks: sums over the inputs in their order. */
INLINE void products(const int halves, const int rows, const int blocks, const int gates, const float *x, int64_t pitch,
                     int64_t inputs, const char *weights, vf sums[2][ROWS][4])
{
    const int64_t block = inputs * gates * LANES;
    UNROLL
    for (int b = 0; b < blocks; b++)
        UNROLL
        for (int g = 0; g < gates; g++) {
            vf w = weights_at(weights, b * block + g * LANES, halves);
            UNROLL
            for (int i = 0; i < rows; i++)
                sums[b][i][g] = w * x[i * pitch];
        }
    for (int64_t k = 1; k < inputs; k++) {
        UNROLL
        for (int b = 0; b < blocks; b++)
            UNROLL
            for (int g = 0; g < gates; g++) {
                vf w = weights_at(weights, b * block + (k * gates + g) * LANES, halves);
                UNROLL
                for (int i = 0; i < rows; i++)
                    sums[b][i][g] += w * x[i * pitch + k];
            }
    }
}

/* The same times the steps, bias included -> [row][gate][hidden]. */
INLINE void finished_products(const int halves, const int rows, const int blocks, const int gates, const float *x, int64_t pitch,
                              int64_t inputs, struct rows of, int64_t hidden, float *to, int64_t to_pitch)
{
    vf sums[2][ROWS][4];
    products(halves, rows, blocks, gates, x, pitch, inputs, of.weights, sums);
    UNROLL
    for (int b = 0; b < blocks; b++)
        UNROLL
        for (int g = 0; g < gates; g++) {
            const int64_t place = g * hidden + b * LANES;
            vf step = load_f(of.step + place), bias = load_f(of.bias + place);
            UNROLL
            for (int i = 0; i < rows; i++) {
                vf sum = sums[b][i][g] * step + bias;
                memcpy(to + i * to_pitch + place, &sum, sizeof sum);
            }
        }
}

typedef void (*products_fn)(const float *, int64_t, int64_t, struct rows, int64_t, float *, int64_t);

#define ONE(name, halves, many, blocks, gates)                                                                             \
    static void name(const float *x, int64_t pitch, int64_t inputs, struct rows of, int64_t hidden, float *to, int64_t to_pitch) \
    {                                                                                                                      \
        finished_products(halves, many, blocks, gates, x, pitch, inputs, of, hidden, to, to_pitch);                        \
    }
#define OF_GATES(kind, halves, gates)                                                                 \
    ONE(kind##_1_2_##gates, halves, 1, 2, gates) ONE(kind##_1_1_##gates, halves, 1, 1, gates)         \
    ONE(kind##_4_1_##gates, halves, ROWS, 1, gates)
OF_GATES(half, 1, 1) OF_GATES(half, 1, 2) OF_GATES(half, 1, 3) OF_GATES(half, 1, 4)
OF_GATES(single, 0, 1) OF_GATES(single, 0, 2) OF_GATES(single, 0, 3) OF_GATES(single, 0, 4)

#define NAMES(kind, gates) {kind##_1_2_##gates, kind##_1_1_##gates, kind##_4_1_##gates}
static const products_fn PRODUCTS[2][4][3] = {
    {NAMES(single, 1), NAMES(single, 2), NAMES(single, 3), NAMES(single, 4)},
    {NAMES(half, 1), NAMES(half, 2), NAMES(half, 3), NAMES(half, 4)},
};

INLINE int64_t width_of(const struct op *op) { return op->flags & HALVES ? sizeof(uint16_t) : sizeof(float); }

/* [rows][inputs] times all weights of some gates; where it is more than one row, ROWS are computed. */
static void all_products(const struct recurrence *self, int gates, int64_t rows, const float *x, int64_t pitch, int64_t inputs,
                         struct rows of, float *to, int64_t to_pitch)
{
    const products_fn *kernels = PRODUCTS[!!(self->op->flags & HALVES)][gates - 1];
    const int64_t block = inputs * gates * LANES * width_of(self->op);
    for (int64_t done = 0, blocks; done < self->blocks; done += blocks) {
        blocks = rows == 1 && done + 2 <= self->blocks ? 2 : 1;
        kernels[rows > 1 ? 2 : blocks == 1](x, pitch, inputs, of, self->hidden, to, to_pitch);
        of.weights += blocks * block, of.step += blocks * LANES, of.bias += blocks * LANES, to += blocks * LANES;
    }
}

INLINE vf sigmoid(const struct op *op, vf x) { return quotient(op->numbers, 4, x) + 0.5f; }
INLINE vf hyperbolic_tangent(const struct op *op, vf x) { return sigmoid(op, x * 2.0f) * 2.0f - 1.0f; }
INLINE void keep(float *to, vf v) { memcpy(to, &v, sizeof v); }

/* One step of all items; `given` [item][gate][hidden] is what x makes. The new state is in `next`. */
static void lstm_step(const struct recurrence *self, const float *given)
{
    const struct op *op = self->op;
    const int64_t hidden = self->hidden, pitch = 4 * hidden;
    all_products(self, 4, self->items, self->h, hidden, op->sizes[HIDDEN], self->r, self->kept, pitch);
    for (int64_t i = 0; i < self->items; i++)
        for (int64_t j = 0; j < hidden; j += LANES) {
            vf gates[4];
            UNROLL
            for (int g = 0; g < 4; g++)
                gates[g] = load_f(given + i * pitch + g * hidden + j) + load_f(self->kept + i * pitch + g * hidden + j);
            vf c = sigmoid(op, gates[2]) * load_f(self->c + i * hidden + j)
                   + sigmoid(op, gates[0]) * hyperbolic_tangent(op, gates[3]);
            keep(self->c + i * hidden + j, c);
            keep(self->next + i * hidden + j, sigmoid(op, gates[1]) * hyperbolic_tangent(op, c));
        }
}

static void gru_step(const struct recurrence *self, const float *given)
{
    const struct op *op = self->op;
    const int64_t hidden = self->hidden, pitch = 3 * hidden, inputs = op->sizes[HIDDEN];
    const int late = op->sizes[RESET_LATE] != 0;
    all_products(self, late ? 3 : 2, self->items, self->h, hidden, inputs, self->r, self->kept, pitch);
    for (int64_t i = 0; i < self->items; i++)
        for (int64_t j = 0; j < hidden; j += LANES) {
            float *kept = self->kept + i * pitch + j, *state = self->h + i * hidden + j;
            const float *from = given + i * pitch + j;
            vf z = sigmoid(op, load_f(from) + load_f(kept)), r = sigmoid(op, load_f(from + hidden) + load_f(kept + hidden));
            keep(kept, z);
            if (late) {
                vf candidate = hyperbolic_tangent(op, load_f(from + 2 * hidden) + r * load_f(kept + 2 * hidden));
                keep(self->next + i * hidden + j, (1.0f - z) * candidate + z * load_f(state));
            } else {
                keep(self->c + i * hidden + j, r * load_f(state));
            }
        }
    if (late)
        return;
    struct rows last = self->r;
    last.weights += 2 * inputs * hidden * width_of(op), last.step += 2 * hidden, last.bias += 2 * hidden;
    all_products(self, 1, self->items, self->c, hidden, inputs, last, self->kept + 2 * hidden, pitch);
    for (int64_t i = 0; i < self->items; i++)
        for (int64_t j = 0; j < hidden; j += LANES) {
            const float *kept = self->kept + i * pitch + j;
            vf z = load_f(kept);
            vf candidate = hyperbolic_tangent(op, load_f(given + i * pitch + 2 * hidden + j) + load_f(kept + 2 * hidden));
            keep(self->next + i * hidden + j, (1.0f - z) * candidate + z * load_f(self->h + i * hidden + j));
        }
}

static void read_row(const struct op *op, const struct scene *scene, int64_t step, int64_t item, float *to)
{
    const Q *from = scene->work + op->x.offset + step * op->sizes[X_STEP] + item * op->sizes[X_ITEM];
    const int64_t inputs = op->sizes[INPUTS], across = op->sizes[X_VALUE];
    const int32_t zero = (int32_t)op->x.zero;
    const float unit = op->unit, *table = op->slope;
    if (op->flags & FLOATS_IN)
        for (int64_t k = 0; k < inputs; k++)
            memcpy(to + k, from + k * across, sizeof *to);
    else if (table)
        for (int64_t k = 0; k < inputs; k++)
            to[k] = table[(uint8_t)from[k * across]];
    else
        for (int64_t k = 0; k < inputs; k++)
            to[k] = (float)((int32_t)from[k * across] - zero) * unit;
}

static void write_row(const struct op *op, const struct scene *scene, int64_t step, int64_t direction, int64_t item,
                      const float *from)
{
    const int64_t *sizes = op->sizes, across = sizes[Y_VALUE], hidden = sizes[HIDDEN];
    Q *to = scene->work + op->y.offset + step * sizes[Y_STEP] + direction * sizes[Y_DIRECTION] + item * sizes[Y_ITEM];
    for (int64_t j = 0; j < hidden; j += LANES, to += LANES * across) {
        const int64_t count = least(LANES, hidden - j);
        vf v = load_f(from + j);
        if (op->flags & (FLOATS_OUT | ROUNDED))
            v = rounded(v);
        if (op->flags & FLOATS_OUT) {
            float values[LANES];
            memcpy(values, &v, sizeof v);
            for (int64_t i = 0; i < count; i++)
                memcpy(to + i * across, values + i, sizeof *values);
            continue;
        }
        v = v / op->step;
        if (op->flags & ZERO_FIRST)
            v = v + op->first_low;
        vi stored = nearest(limited(v, op->low, op->high)) + (int32_t)op->place;
        int32_t values[LANES];
        memcpy(values, &stored, sizeof stored);
        for (int64_t i = 0; i < count; i++)
            to[i * across] = (Q)values[i];
    }
}

void recur(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    const int64_t *sizes = op->sizes, steps = sizes[STEPS], inputs = sizes[INPUTS], gates = sizes[GATES];
    const int64_t tiles = (sizes[BATCH] + ROWS - 1) / ROWS, direction = task / tiles, first = task % tiles * ROWS;
    const int64_t hidden = whole(sizes[HIDDEN]), count = sizes[DIRECTIONS] * gates * hidden;
    const int backwards = sizes[REVERSE] || direction == 1;
    (void)tasks;
    struct recurrence self = {.op = op, .hidden = hidden, .blocks = hidden / LANES, .gates = gates};
    self.items = least(ROWS, sizes[BATCH] - first);
    const float *numbers = op->numbers + NUMBERS;
    const char *weights = (const char *)(op->flags & HALVES ? (const void *)op->weights : op->factor);
    const int64_t here = direction * gates * hidden;
    self.w = (struct rows){weights + here * inputs * width_of(op), numbers + here, numbers + count + here};
    self.r = (struct rows){weights + (count * inputs + here * sizes[HIDDEN]) * width_of(op), numbers + 2 * count + here,
                           numbers + 3 * count + here};
    const int64_t states = sizes[DIRECTIONS] * sizes[BATCH] * hidden;
    const float *h = numbers + 4 * count + (direction * sizes[BATCH] + first) * hidden, *c = h + states;
    self.given = (float *)scene->scratch;
    self.kept = self.given + ROWS * gates * hidden;
    self.h = self.kept + ROWS * (gates > 3 ? gates : 3) * hidden;
    self.next = self.h + ROWS * hidden, self.c = self.next + ROWS * hidden, self.xs = self.c + ROWS * hidden;
    memset(scene->scratch, 0, recurrent_scratch(op)); /* rows that are not there are computed, too */
    memcpy(self.h, h, self.items * hidden * sizeof *h);
    memcpy(self.c, c, self.items * hidden * sizeof *c);
    const int64_t chunk = ROWS / self.items; /* steps whose products with W are made together */
    for (int64_t t = 0; t < steps; t += chunk) {
        int64_t together = least(chunk, steps - t);
        for (int64_t s = 0; s < together; s++)
            for (int64_t i = 0; i < self.items; i++)
                read_row(op, scene, backwards ? steps - 1 - t - s : t + s, first + i, self.xs + (s * self.items + i) * inputs);
        all_products(&self, (int)gates, together * self.items, self.xs, inputs, inputs, self.w, self.given,
                     gates * hidden);
        for (int64_t s = 0; s < together; s++) {
            const float *given = self.given + s * self.items * gates * hidden;
            if (gates == 4)
                lstm_step(&self, given);
            else
                gru_step(&self, given);
            float *last = self.h;
            self.h = self.next, self.next = last;
            for (int64_t i = 0; i < self.items; i++)
                write_row(op, scene, backwards ? steps - 1 - t - s : t + s, direction, first + i, self.h + i * hidden);
        }
    }
}
