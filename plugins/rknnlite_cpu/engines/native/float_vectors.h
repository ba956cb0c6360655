/* float16 beside vectors.h: values lie in the workspace as float32 that float16 holds, weights and tables as float16. */
#ifndef RKNNLITE_FLOAT_VECTORS_H
#define RKNNLITE_FLOAT_VECTORS_H
#include "vectors.h"

#if LANES == 16
#define FLOAT_TILE 12 /* positions that a product works on at a time */
#define FLOAT_ACROSS 2 /* vectors of output channels */
#elif LANES == 8
#define FLOAT_TILE 6
#define FLOAT_ACROSS 2
#elif defined(__aarch64__)
#define FLOAT_TILE 6
#define FLOAT_ACROSS 4
#else
#define FLOAT_TILE 4
#define FLOAT_ACROSS 2
#endif

typedef uint16_t half;
typedef half vh __attribute__((vector_size(2 * LANES)));

INLINE vh load_h(const half *from) { vh v; memcpy(&v, from, sizeof v); return v; }

#if LANES == 16
INLINE vf of_halves(vh v) { return (vf)_mm512_cvtph_ps((__m256i)v); }
INLINE vh to_halves(vf v) { return (vh)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
#elif LANES == 8 && defined(__F16C__)
INLINE vf of_halves(vh v) { return (vf)_mm256_cvtph_ps((__m128i)v); }
INLINE vh to_halves(vf v) { return (vh)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT); }
#elif defined(__aarch64__)
INLINE vf of_halves(vh v) { return (vf)vcvt_f32_f16((float16x4_t)v); }
INLINE vh to_halves(vf v) { return (vh)vcvt_f16_f32((float32x4_t)v); }
#else
/* Ties to even, infinite from 65520 on; below 2^-14 in steps of 2^-24, which are those of numbers from 0.5 on. */
INLINE half half_of(float value)
{
    uint32_t bits, rest;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000)
        return (half)(sign | 0x7e00 | (size >> 13 & 0x3ff));
    if (size >= 0x477ff000)
        return (half)(sign | 0x7c00);
    if (size < 0x38800000) {
        float small;
        memcpy(&small, &size, sizeof small);
        small += 0.5f;
        memcpy(&rest, &small, sizeof rest);
        return (half)(sign | (rest - 0x3f000000));
    }
    return (half)(sign | ((size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13));
}
INLINE float single_of(half value)
{
    uint32_t sign = (uint32_t)(value & 0x8000) << 16, size = value & 0x7fff, bits = size << 13;
    float found;
    if (size < 0x400) {
        found = (float)size * 0x1p-24f;
        memcpy(&bits, &found, sizeof bits);
    } else {
        bits += size < 0x7c00 ? 0x38000000 : 0x70000000;
    }
    bits |= sign;
    memcpy(&found, &bits, sizeof found);
    return found;
}
INLINE vf of_halves(vh v) { vf w; for (int i = 0; i < LANES; i++) w[i] = single_of(v[i]); return w; }
INLINE vh to_halves(vf v) { vh w; for (int i = 0; i < LANES; i++) w[i] = half_of(v[i]); return w; }
#endif

INLINE vf rounded(vf v) { return of_halves(to_halves(v)); }

/* sum + a * b, rounded once where the processor does that. */
INLINE vf add_product(vf sum, vf a, vf b)
{
#if LANES == 16
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
#elif LANES == 8 && defined(__FMA__)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
#elif defined(__aarch64__)
    return (vf)vfmaq_f32((float32x4_t)sum, (float32x4_t)a, (float32x4_t)b);
#else
    return sum + a * b;
#endif
}

/* The first `room` values; multiples of four, or more than there are. */
INLINE void store_some(float *to, vf v, int64_t room)
{
    if (room >= LANES) {
        memcpy(to, &v, sizeof v);
        return;
    }
#if LANES == 16
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << room) - 1), (__m512)v);
#else
    for (int64_t i = 0; i < room; i++)
        to[i] = v[i];
#endif
}

/* What a table of all float16 has for values rounded to them. */
INLINE vf looked_up(const half *table, vf v)
{
    vh found = to_halves(v);
#if LANES == 16
    __m512i places = _mm512_cvtepu16_epi32((__m256i)found);
    found = (vh)_mm512_cvtepi32_epi16(_mm512_i32gather_epi32(places, table, 2));
#else
    for (int i = 0; i < LANES; i++)
        found[i] = table[found[i]];
#endif
    return of_halves(found);
}
#endif
