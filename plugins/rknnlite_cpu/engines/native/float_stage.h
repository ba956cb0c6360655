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
    int64_t function;
    float unit, added; /* of HARD_SIGMOID */
};

INLINE struct float_stage float_stage_of(const struct op *op)
{
    return (struct float_stage){all_f(op->first_low), all_f(op->first_high), all_f(op->low), all_f(op->high),
                                op->factor, op->slope, (const half *)op->table, op->function, op->unit, op->other_unit};
}

/* 2^x for |x| <= 126, to 2e-7 of it: a polynomial for what is left of the nearest whole number. */
INLINE vf power_of_two(vf x)
{
    vi whole = nearest(x);
    vf rest = x - to_float(whole), found = all_f(0x1.5f48c8p-10f);
    const float coefficients[] = {0x1.3d107cp-7f, 0x1.c6aeccp-5f, 0x1.ebf906p-3f, 0x1.62e43p-1f, 0x1.000002p0f};
    UNROLL
    for (int i = 0; i < 5; i++)
        found = add_product(all_f(coefficients[i]), found, rest);
    return (vf)((vi)found + (whole << 23));
}

INLINE vf float_function(const struct float_stage *stage, vf x)
{
    if (stage->function == HARD_SWISH)
        return rounded(x * smaller(larger(x / 6.0f + 0.5f, (vf){}), all_f(1)));
    if (stage->function == HARD_SIGMOID)
        return rounded(smaller(all_f(1), larger((vf){}, x * stage->unit + stage->added)));
    if (stage->function == TABLE_OF_INDICES)
        return looked_up(stage->table, x);
    /* below 2^-64 times the largest float16 nothing is left, and tiny numbers take the processor twice the time */
    vf power = smaller(larger(x * -0x1.715476p0f, all_f(-64)), all_f(64));
    vf found = 1.0f / (power_of_two(power) + 1.0f);
    if (stage->function == SWISH)
        return rounded(x * found);
    vi known = x == x;
    return rounded((vf)(((vi)found & known) | ((vi)x & ~known)));
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
    return flags & FUNCTION ? float_function(stage, rounded(v)) : rounded(v);
}

INLINE const float *float_pixel(const struct scene *scene, const struct tensor *t, int64_t item, int64_t y, int64_t x)
{
    return (const float *)pixel(scene, t, item, y, x);
}
#endif
