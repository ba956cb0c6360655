/* Sums over lanes, and the functions of attention and activations: float32, by approximations. */
#include "vectors.h"

#if LANES == 16
#define LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define COUNTED 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#elif LANES == 8
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define COUNTED 0, 1, 2, 3, 4, 5, 6, 7
#else
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#define COUNTED 0, 1, 2, 3
#endif
#if defined(__clang__)
#define ONE_BY_ONE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define ONE_BY_ONE(a, b, ...) __builtin_shuffle(a, b, (vi){__VA_ARGS__})
#endif

INLINE vf chosen(vi which, vf a, vf b) { return (vf)((which & (vi)a) | (~which & (vi)b)); }
INLINE vf all(float value) { return (vf){} + value; }
INLINE vf larger(vf a, vf b) { return chosen(a > b, a, b); }

/* Lane l is the sum of all lanes of sums[l]. */
INLINE vf folded(vf *sums)
{
    UNROLL for (int left = LANES / 2; left; left /= 2)
        UNROLL for (int i = 0; i < left; i++)
            sums[i] = ONE_BY_ONE(sums[i], sums[i + left], LOW) + ONE_BY_ONE(sums[i], sums[i + left], HIGH);
    return sums[0];
}

/* Every lane is the largest of all. */
INLINE vf largest(vf v)
{
    UNROLL for (int left = LANES / 2; left; left /= 2)
        v = larger(ONE_BY_ONE(v, v, LOW), ONE_BY_ONE(v, v, HIGH));
    return v;
}

/* Up to x = 88 within two units of the last place; below -87 it is 0, and what is no number stays none. */
INLINE vf exponential(vf x)
{
    const vf magic = all(12582912.0f); /* its last bit is worth 1 */
    vf shifted = x * 1.44269504f + magic, whole = shifted - magic;
    vf rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    vf sum = rest * 1.9875691500e-4f + 1.3981999507e-3f;
    sum = sum * rest + 8.3334519073e-3f;
    sum = sum * rest + 4.1665795894e-2f;
    sum = sum * rest + 1.6666665459e-1f;
    sum = sum * rest + 5.0000001201e-1f;
    sum = sum * (rest * rest) + rest + 1.0f;
    vf power = (vf)(((vi)shifted << 23) + (127 << 23));
    return chosen(x < -87.0f, all(0), sum * power);
}

INLINE vf hyperbolic_tangent(vf x)
{
    const vi sign = (vi){} + INT32_MIN;
    vf size = (vf)((vi)x & ~sign), square = x * x;
    vf sum = square * -5.70498872745e-3f + 2.06390887954e-2f;
    sum = sum * square - 5.37397155531e-2f;
    sum = sum * square + 1.33314422036e-1f;
    sum = sum * square - 3.33332819422e-1f;
    vf far = 1.0f - 2.0f / (exponential(2.0f * chosen(size > 10.0f, all(10), size)) + 1.0f);
    return chosen(size < 0.625f, x + x * square * sum, (vf)((vi)far | ((vi)x & sign)));
}
