/* What is done with sums of floats before they are stored, as `_float_stage` of ops/requantise.py defines it. */
#ifndef RKNNLITE_FLOAT_STAGE_H
#define RKNNLITE_FLOAT_STAGE_H
#include "float_vectors.h"
#include "program.h"

/* The numbers of an op in registers: stores of values might change those in memory, as far as a compiler knows. */
struct float_stage {
    vf first_low, first_high, low, high;
    const float *bias, *slope;
    const half *table;
};

INLINE struct float_stage float_stage_of(const struct op *op)
{
    return (struct float_stage){all_f(op->first_low), all_f(op->first_high), all_f(op->low), all_f(op->high),
                                op->factor, op->slope, (const half *)op->table};
}

/* A NaN passes limits: of two operands the second one is what it is then. */
INLINE vf float_finished(const struct float_stage *stage, int64_t flags, vf v, int64_t channel, vf other)
{
    v = v + load_f(stage->bias + channel);
    if (flags & STORED)
        v = rounded(v);
    if (flags & LIMITED)
        v = smaller(stage->first_high, larger(stage->first_low, v));
    if (flags & SLOPED)
        v = rounded(sloped(v, load_f(stage->slope + channel), flags));
    if (flags & JOIN_ADD)
        v = v + other;
    if (flags & JOIN_MULTIPLY)
        v = v * other;
    if (flags & RECTIFY)
        v = smaller(stage->high, larger(stage->low, v));
    if (flags & LATE_SLOPED)
        v = sloped(v, load_f(stage->slope + channel), flags);
    return flags & FUNCTION ? looked_up(stage->table, v) : rounded(v);
}

INLINE const float *float_pixel(const struct scene *scene, const struct tensor *t, int64_t item, int64_t y, int64_t x)
{
    return (const float *)pixel(scene, t, item, y, x);
}
#endif
