/* A square root of the processor's, without its library: compilers call that for numbers below zero. */
#ifndef RKNNLITE_ROOT_H
#define RKNNLITE_ROOT_H
#include "program.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

INLINE double root_of(double value)
{
#if defined(__SSE2__)
    __m128d wide = _mm_set_sd(value);
    return _mm_cvtsd_f64(_mm_sqrt_sd(wide, wide));
#elif defined(__aarch64__)
    return vget_lane_f64(vsqrt_f64(vdup_n_f64(value)), 0);
#else
    return __builtin_sqrt(value);
#endif
}
#endif
