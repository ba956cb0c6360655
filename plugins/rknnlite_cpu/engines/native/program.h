/* A run of nodes as one program: what Python describes (description.py) and the kernels read. */
#ifndef RKNNLITE_PROGRAM_H
#define RKNNLITE_PROGRAM_H
#include "vectors.h"

/* Values [items, height, width] with `channels` side by side and `pitch` from pixel to pixel, as they lie in the workspace: a pixel
 * has more of them where a tensor is a part of another one. `zero` is what stands for 0. */
struct tensor {
    int64_t offset, items, height, width, channels, pitch, zero;
};

enum kind {
    CONVOLVE, DEPTHWISE, ADD, MULTIPLY, TABLE, MAX_POOL, COPY, SPREAD, TAKE, GIVE,
    RECURRENT, SHUFFLE, TO_FLOATS, TO_BYTES, ATTEND, NORMALISE, PICK, BILINEAR, PUT, SCALE,
    /* of float16 as float32, four of the bytes that `channels` counts each; `weights` and `table` are float16, `factor` a bias */
    FLOAT_CONVOLVE, FLOAT_DEPTHWISE, FLOAT_ADD, FLOAT_SUBTRACT, FLOAT_MULTIPLY, FLOAT_SCALE, FLOAT_TABLE, FLOAT_MAX_POOL,
    FLOAT_TAKE, FLOAT_GIVE, FLOAT_NORM, FLOAT_SCORES, FLOAT_WEIGH, FLOAT_RESHAPE, FLOAT_TRANSPOSE,
    FLOAT_PICK, FLOAT_MIX, FLOAT_SELECT
};
enum flags {
    LIMITED = 1,    /* before the operand joins: limits */
    SLOPED = 2,     /* before: negative ones times a slope per channel */
    JOIN_ADD = 4,
    JOIN_MULTIPLY = 8,
    LATE_SLOPED = 16,
    GENTLE = 32,    /* all slopes are between 0 and 1 */
    ZEROS = 64,     /* weights have zero points */
    ZERO_FIRST = 128,
    RECTIFY = 256,
    FUNCTION = 512, /* instead of all this a function of the sums: `function`, numbers of it in `numbers` */
    FLOATS_IN = 1024, /* RECURRENT: x is of floats */
    FLOATS_OUT = 2048,
    HALVES = 4096, /* weights are of float16 */
    ROUNDED = 8192, /* results are float16 before they become bytes */
    STORED = 1 << 16 /* FLOAT_*: sums are rounded before anything else is done */
};
enum function { TABLE_OF_INDICES, SIGMOID, TANH, SWISH, MISH, ELU, HARD_SWISH, HARD_SIGMOID };
enum number { REACH, FACTOR, COUNT, ABOVE, BELOW = ABOVE + 5, PARAMETER = BELOW + 5, NUMBERS };

struct op {
    int64_t kind, flags;
    struct tensor x, other, third, y;
    int64_t kernel[2], strides[2], dilations[2], pads[2];
    int64_t place;             /* COPY: first channel in y; TAKE, GIVE: which array; ADD, MULTIPLY: stored value of 0 */
    int64_t depth;             /* CONVOLVE: bytes of a run of taps; COPY: first channel in x */
    int64_t channels;          /* COPY: how many */
    const int8_t *weights;
    const int32_t *bias, *zeros;
    const float *factor, *slope, *numbers;
    const Q *table;
    const int8_t *ones;       /* CONVOLVE: 1 for every used value of a run, else 0 */
    const int64_t *sizes;     /* what a kernel says of them */
    int64_t function, entries; /* FUNCTION: which, and of `table` how many */
    float unit, other_unit, first_low, first_high, low, high, step;
    int32_t padding;
};

/* What one task needs beside its op. */
struct scene {
    Q *work;                   /* the workspace */
    Q *scratch;                /* this thread's own part of it */
    const float *const *inputs;
    float *const *outputs;
    int threads;
};

int64_t convolution_tasks(const struct op *op, int threads);
int64_t depthwise_tasks(const struct op *op, int threads);
int64_t convolution_scratch(const struct op *op, int threads);
int64_t depthwise_scratch(const struct op *op, int threads);
int64_t recurrent_tasks(const struct op *op, int threads);
int64_t recurrent_scratch(const struct op *op);
int64_t attention_tasks(const struct op *op, int threads);
int64_t attention_scratch(const struct op *op);
int64_t bilinear_scratch(const struct op *op);
int64_t float_convolution_tasks(const struct op *op, int threads);
int64_t float_depthwise_tasks(const struct op *op, int threads);
int64_t float_convolution_scratch(const struct op *op, int threads);
int64_t float_depthwise_scratch(const struct op *op);
int64_t float_attention_tasks(const struct op *op, int threads);
int64_t float_attention_scratch(const struct op *op);
int64_t tasks_of(const struct op *op, int threads);
void run_task(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);

void convolve(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void depthwise(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void elementwise(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void pool(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void float_convolve(const struct op *op, const struct scene *scene, int64_t task);
void float_depthwise(const struct op *op, const struct scene *scene, int64_t task);
void float_pixels(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void float_normalise(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void float_attend(const struct op *op, const struct scene *scene, int64_t task);
void float_place(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void float_select(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void float_reorder(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void float_move(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void move(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void recur(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void attend(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void normalise(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void pick_lines(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void bilinear(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void put(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void shuffle(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);
void convert(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);

/* What a function of sums makes of them, as stored. */
vi function_of(const struct op *op, vi sum, const float *factor);

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Bytes of a pixel that may be written: further ones may be another tensor's. */
INLINE int64_t room_of(const struct tensor *t) { return t->pitch < 16 ? t->pitch : (t->channels + 15) / 16 * 16; }

INLINE Q *pixel(const struct scene *scene, const struct tensor *t, int64_t item, int64_t y, int64_t x)
{
    return scene->work + t->offset + ((item * t->height + y) * t->width + x) * t->pitch;
}

/* Task `task` of `tasks` has the part [*from, *to) of `count`. */
INLINE void part_of(int64_t count, int64_t task, int64_t tasks, int64_t *from, int64_t *to)
{
    *from = count * task / tasks, *to = count * (task + 1) / tasks;
}

/* The part [part[0], part[1]) of `taps` taps, `dilation` apart from `first` on, that lies in `size` values. */
INLINE void taps_inside(int64_t first, int64_t dilation, int64_t taps, int64_t size, int64_t part[2])
{
    part[0] = first < 0 ? least(taps, (-first + dilation - 1) / dilation) : 0;
    part[1] = first >= size ? part[0] : most(part[0], least(taps, (size - first + dilation - 1) / dilation));
}

/* What some rows of y are made of, from the first value of the first window on, some channels of it. Where windows reach
 * over the edge it is a copy with what stands for 0 around it. */
struct band {
    const Q *first;
    int64_t row, pitch; /* bytes from row to row, from pixel to pixel */
};

struct band band_of(const struct op *op, const struct scene *scene, int64_t item, const int64_t rows[2],
                    const int64_t channels[2], Q *copy);
int64_t padded(const struct op *op);
int64_t band_bytes(const struct op *op, int64_t lines, int64_t pitch); /* of the copy of so many rows of y */

/* What the output stage makes of sums, as ops/requantise.py defines it. `flags` are the op's, a constant where that is known. */
INLINE vf sloped(vf v, vf slope, int64_t flags)
{
    if (flags & GENTLE)
        return larger(v, v * slope);
    return larger(v, (vf){}) + smaller(v, (vf){}) * slope;
}

/* The numbers of an op in registers: stores of values might change those in memory, as far as a compiler knows. */
struct stage {
    vf first_low, first_high, unit, low, high;
    vi other_zero, zero;
};

INLINE struct stage stage_of(const struct op *op)
{
    return (struct stage){all_f(op->first_low), all_f(op->first_high), all_f(op->unit), all_f(op->low), all_f(op->high),
                          all_i((int32_t)op->other.zero), all_i((int32_t)op->y.zero)};
}

INLINE vi finished(const struct stage *stage, int64_t flags, vi sum, const float *factor, const float *slope, vi other)
{
    vf v = to_float(sum) * load_f(factor);
    if (flags & LIMITED)
        v = smaller(larger(v, stage->first_low), stage->first_high);
    if (flags & SLOPED)
        v = sloped(v, load_f(slope), flags);
    if (flags & JOIN_ADD)
        v = v + to_float(other - stage->other_zero) * stage->unit;
    if (flags & JOIN_MULTIPLY)
        v = v * to_float(other - stage->other_zero);
    if (flags & LATE_SLOPED)
        v = sloped(v, load_f(slope), flags);
    return nearest(smaller(larger(v, stage->low), stage->high)) + stage->zero;
}
#endif
