/* Functions of sums, as ops/requantise.py and rknnlite_graph/unary_functions.py define them: sums, products and quotients that
 * IEEE 754 rounds one by one, in the same order, so that the bits are the same. */
#include "rational.h"

static vi of_table(const struct op *op, vf index)
{
    float last = op->first_low + (float)(op->entries - 1);
    vi place = nearest(limited(index + op->numbers[PARAMETER], op->first_low, last) - op->first_low);
    for (int i = 0; i < LANES; i++)
        place[i] = ((const Q *)op->table)[place[i]];
    return place;
}

vi function_of(const struct op *op, vi sum, const float *factor)
{
    const float *numbers = op->numbers;
    vf x = to_float(sum) * load_f(factor), y;
    switch (op->function) {
    case TABLE_OF_INDICES:
        return of_table(op, x);
    case SIGMOID:
        y = step_of(numbers, x);
        break;
    case TANH:
        y = step_of(numbers, x * 2.0f) * 2.0f - 1.0f;
        break;
    case SWISH:
        y = x * step_of(numbers, numbers[PARAMETER] == 1 ? x : x * numbers[PARAMETER]);
        break;
    case MISH: {
        vf rest = 1.0f - step_of(numbers, x), square = rest * rest;
        y = x * (1.0f - square) / (square + 1.0f);
        break;
    }
    case ELU: {
        vf part = step_of(numbers, limited(x, -numbers[REACH], 0));
        y = larger(x, (vf){}) + (part * 2.0f - 1.0f) / (1.0f - part) * numbers[PARAMETER];
        break;
    }
    default:
        y = x * limited(x / 6.0f + 0.5f, 0, 1);
    }
    y = y / op->step;
    if (op->flags & ZERO_FIRST)
        y = y + op->first_high;
    return nearest(limited(y, op->low, op->high)) + (int32_t)op->place;
}
