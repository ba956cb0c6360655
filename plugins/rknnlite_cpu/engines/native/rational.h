/* Rational functions of float32, as rknnlite_graph/unary_functions.py defines them: IEEE 754 rounds every step by itself. */
#ifndef RKNNLITE_RATIONAL_H
#define RKNNLITE_RATIONAL_H
#include "program.h"

/* A NaN passes: of two operands the second one is what it is then. */
INLINE vf limited(vf v, float low, float high) { return smaller(all_f(high), larger(all_f(low), v)); }

INLINE vf polynomial(const float *coefficients, const int count, vf square)
{
    vf found = square + coefficients[count - 1];
    UNROLL
    for (int i = count - 2; i >= 0; i--)
        found = found * square + coefficients[i];
    return found;
}

INLINE vf quotient(const float *numbers, const int count, vf x)
{
    vf near = limited(x, -numbers[REACH], numbers[REACH]), square = near * near;
    return near * numbers[FACTOR] * polynomial(numbers + ABOVE, count, square)
           / polynomial(numbers + BELOW, count, square);
}

INLINE vf step_of(const float *numbers, vf x)
{
    return (numbers[COUNT] == 4 ? quotient(numbers, 4, x) : quotient(numbers, 5, x)) + 0.5f;
}
#endif
