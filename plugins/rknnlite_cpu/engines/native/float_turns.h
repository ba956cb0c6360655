/* Pixels of floats to planes, and back. */
#ifndef RKNNLITE_FLOAT_TURNS_H
#define RKNNLITE_FLOAT_TURNS_H
#include "float_vectors.h"
#include "program.h"

#define AT_A_TIME 16 /* positions and channels: lines of the cache hold as many */

#if LANES == 16
/* Rows become columns. */
INLINE void turn(vf v[16])
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    UNROLL
    for (int step = 1; step < 16; step *= 2) {
        __mmask16 upper = _mm512_test_epi32_mask(lanes, _mm512_set1_epi32(step));
        __m512i low = _mm512_mask_add_epi32(lanes, upper, lanes, _mm512_set1_epi32(16 - step));
        __m512i high = _mm512_mask_add_epi32(_mm512_add_epi32(lanes, _mm512_set1_epi32(step)), upper, lanes, _mm512_set1_epi32(16));
        UNROLL
        for (int i = 0; i < 16; i++)
            if (!(i & step)) {
                __m512 a = (__m512)v[i], b = (__m512)v[i + step];
                v[i] = (vf)_mm512_permutex2var_ps(a, low, b), v[i + step] = (vf)_mm512_permutex2var_ps(a, high, b);
            }
    }
}

INLINE __mmask16 mask_of(int64_t count) { return (__mmask16)((1u << least(count, 16)) - 1); }

/* Planes of a picture, 16 positions of three channels. */
INLINE void take_three(const float *from, int64_t plane, float *to)
{
    __m512 a = _mm512_loadu_ps(from), b = _mm512_loadu_ps(from + plane), c = _mm512_loadu_ps(from + 2 * plane);
    UNROLL
    for (int k = 0; k < 3; k++) {
        int32_t places[16];
        UNROLL
        for (int j = 0; j < 16; j++)
            places[j] = (16 * k + j) / 3 + ((16 * k + j) % 3 == 1 ? 16 : 0);
        const __mmask16 third = k == 0 ? 0x4924 : k == 1 ? 0x2492 : 0x9249;
        __m512i index = _mm512_loadu_si512(places);
        __m512 found = _mm512_permutex2var_ps(a, index, b);
        _mm512_storeu_ps(to + 16 * k, _mm512_mask_permutexvar_ps(found, third, index, c));
    }
}
#endif

/* Some positions and channels of NCHW planes to pixels, of which `room` floats may be written. */
INLINE void take_block(const float *from, int64_t plane, float *to, int64_t pitch, int64_t count, int64_t channels, int64_t room)
{
#if LANES == 16
    if (channels == 3 && pitch == 3 && count == 16) {
        take_three(from, plane, to);
        return;
    }
    if (channels >= 8) {
        vf v[16];
        UNROLL
        for (int c = 0; c < 16; c++)
            v[c] = c < channels ? (vf)_mm512_maskz_loadu_ps(mask_of(count), from + c * plane) : (vf){};
        turn(v);
        UNROLL
        for (int i = 0; i < 16; i++)
            if (i < count)
                store_some(to + i * pitch, v[i], room);
        return;
    }
#endif
    (void)room;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < count; i++)
            to[i * pitch + c] = from[c * plane + i];
}

/* The other way round. */
INLINE void give_block(const float *from, int64_t pitch, float *to, int64_t plane, int64_t count, int64_t channels)
{
#if LANES == 16
    if (channels >= 8) {
        vf v[16];
        UNROLL
        for (int i = 0; i < 16; i++)
            v[i] = i < count ? load_f(from + i * pitch) : (vf){};
        turn(v);
        UNROLL
        for (int c = 0; c < 16; c++)
            if (c < channels)
                _mm512_mask_storeu_ps(to + c * plane, mask_of(count), (__m512)v[c]);
        return;
    }
#endif
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < count; i++)
            to[c * plane + i] = from[i * pitch + c];
}
#endif
