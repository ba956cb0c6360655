/* Vectors of 8-bit numbers and of 32-bit sums as wide as the processor's registers: what the kernels of networks stand on.
 *
 * Stored values are unsigned (x86) or signed (elsewhere): that is what the processor's dot product of 8 bits takes. `Q` is one,
 * `Q_OFFSET` what is added to an int8 value to store it.
 */
#ifndef RKNNLITE_VECTORS_H
#define RKNNLITE_VECTORS_H
#include <stdint.h>
#include <string.h>
#if defined(__SSE4_1__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512BW__) && defined(__AVX512VNNI__)
#define LANES 16
#define TILE 8 /* positions that a product works on at a time */
#define ACROSS 3 /* vectors of output channels */
#elif defined(__AVX2__)
#define LANES 8
#define TILE 4
#define ACROSS 2
#elif defined(__aarch64__)
#define LANES 4
#define TILE 6
#define ACROSS 4
#else
#define LANES 4
#define TILE 4
#define ACROSS 2
#endif
#define BYTES (4 * LANES)

#if defined(__x86_64__) || defined(__i386__)
typedef uint8_t Q;
#define Q_OFFSET 128
#else
typedef int8_t Q;
#define Q_OFFSET 0
#endif

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

typedef float vf __attribute__((vector_size(BYTES)));
typedef int32_t vi __attribute__((vector_size(BYTES)));
typedef Q vq __attribute__((vector_size(BYTES)));        /* four stored values for each sum */
typedef Q vq_narrow __attribute__((vector_size(LANES))); /* one for each sum */

INLINE vq load_q(const Q *from) { vq v; memcpy(&v, from, sizeof v); return v; }
INLINE vq_narrow load_narrow(const Q *from) { vq_narrow v; memcpy(&v, from, sizeof v); return v; }
INLINE void store_narrow(Q *to, vq_narrow v) { memcpy(to, &v, sizeof v); }
INLINE vi load_i(const int32_t *from) { vi v; memcpy(&v, from, sizeof v); return v; }
INLINE vf load_f(const float *from) { vf v; memcpy(&v, from, sizeof v); return v; }
INLINE vf all_f(float value) { return value - (vf){}; }
INLINE vi all_i(int32_t value) { return value - (vi){}; }
INLINE vf to_float(vi v) { return __builtin_convertvector(v, vf); }

/* The same four values for every sum. */
INLINE vq all_fours(const Q *from)
{
    int32_t four;
    memcpy(&four, from, sizeof four);
    return (vq)all_i(four);
}

/* sum + products of four stored values and four weights each, exact. */
INLINE vi dot(vi sum, vq values, vq weights)
{
#if defined(__AVX512BW__) && defined(__AVX512VNNI__)
    return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)values, (__m512i)weights);
#elif defined(__AVXVNNI__)
    return (vi)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)values, (__m256i)weights);
#elif defined(__AVX2__) /* products of 16 bits, of even and of odd ones: sums of 8 bits would be cut off */
    __m256i v = (__m256i)values, w = (__m256i)weights;
    __m256i even = _mm256_madd_epi16(
        _mm256_and_si256(v, _mm256_set1_epi16(255)), _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8));
    __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(v, 8), _mm256_srai_epi16(w, 8));
    return sum + (vi)even + (vi)odd;
#elif defined(__ARM_FEATURE_DOTPROD)
    return (vi)vdotq_s32((int32x4_t)sum, (int8x16_t)values, (int8x16_t)weights);
#elif defined(__aarch64__)
    int8x16_t v = (int8x16_t)values, w = (int8x16_t)weights;
    int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(v), vget_low_s8(w)));
    return sum + (vi)vpaddq_s32(low, vpaddlq_s16(vmull_high_s8(v, w)));
#else
    const int8_t *weight = (const int8_t *)&weights;
    for (int i = 0; i < BYTES; i++)
        sum[i / 4] += values[i] * weight[i];
    return sum;
#endif
}

/* All sums together. */
INLINE int32_t total(vi sums)
{
#if LANES == 16
    return _mm512_reduce_add_epi32((__m512i)sums);
#elif LANES == 8
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128((__m256i)sums), _mm256_extracti128_si256((__m256i)sums, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0xB1)));
#elif defined(__aarch64__)
    return vaddvq_s32((int32x4_t)sums);
#else
    return sums[0] + sums[1] + sums[2] + sums[3];
#endif
}

INLINE vf smaller(vf a, vf b)
{
#if defined(__AVX512F__) && LANES == 16
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__) && LANES == 8
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__aarch64__)
    return (vf)vminq_f32((float32x4_t)a, (float32x4_t)b);
#else
    return (vf)(((vi)a & (a < b)) | ((vi)b & ~(a < b)));
#endif
}

INLINE vf larger(vf a, vf b)
{
#if defined(__AVX512F__) && LANES == 16
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__) && LANES == 8
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__aarch64__)
    return (vf)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
#else
    return (vf)(((vi)a & (a > b)) | ((vi)b & ~(a > b)));
#endif
}

/* To the nearest integer, of two the even one; numbers are below 2^22. */
INLINE vi nearest(vf v)
{
#if defined(__AVX512F__) && LANES == 16
    return (vi)_mm512_cvtps_epi32((__m512)v);
#elif defined(__AVX2__) && LANES == 8
    return (vi)_mm256_cvtps_epi32((__m256)v);
#elif defined(__aarch64__)
    return (vi)vcvtnq_s32_f32((float32x4_t)v);
#else
    return __builtin_convertvector((v + 0x1.8p23f) - 0x1.8p23f, vi);
#endif
}

#if LANES == 16
typedef int64_t vl __attribute__((vector_size(BYTES)));
#define LOW8(a, b) (vq)_mm512_unpacklo_epi8((__m512i)(a), (__m512i)(b))
#define HIGH8(a, b) (vq)_mm512_unpackhi_epi8((__m512i)(a), (__m512i)(b))
#define LOW16(a, b) (vq)_mm512_unpacklo_epi16((__m512i)(a), (__m512i)(b))
#define HIGH16(a, b) (vq)_mm512_unpackhi_epi16((__m512i)(a), (__m512i)(b))
#elif LANES == 8
#define LOW8(a, b) (vq)_mm256_unpacklo_epi8((__m256i)(a), (__m256i)(b))
#define HIGH8(a, b) (vq)_mm256_unpackhi_epi8((__m256i)(a), (__m256i)(b))
#define LOW16(a, b) (vq)_mm256_unpacklo_epi16((__m256i)(a), (__m256i)(b))
#define HIGH16(a, b) (vq)_mm256_unpackhi_epi16((__m256i)(a), (__m256i)(b))
#elif defined(__aarch64__)
#define LOW8(a, b) (vq)vzip1q_s8((int8x16_t)(a), (int8x16_t)(b))
#define HIGH8(a, b) (vq)vzip2q_s8((int8x16_t)(a), (int8x16_t)(b))
#define LOW16(a, b) (vq)vzip1q_s16((int16x8_t)(a), (int16x8_t)(b))
#define HIGH16(a, b) (vq)vzip2q_s16((int16x8_t)(a), (int16x8_t)(b))
#else
typedef int16_t vw __attribute__((vector_size(BYTES)));
#define LOW8(a, b) __builtin_shuffle(a, b, (v_index){0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23})
#define HIGH8(a, b) __builtin_shuffle(a, b, (v_index){8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31})
#define LOW16(a, b) (vq)__builtin_shuffle((vw)(a), (vw)(b), (vw){0, 8, 1, 9, 2, 10, 3, 11})
#define HIGH16(a, b) (vq)__builtin_shuffle((vw)(a), (vw)(b), (vw){4, 12, 5, 13, 6, 14, 7, 15})
typedef Q v_index __attribute__((vector_size(BYTES)));
#endif

/* Four vectors of stored values -> for each channel its four values side by side. The sums of vector j belong to channels
 * 16 i + 4 j ... + 3 for each i; `packed` puts them back in order. */
INLINE void interleave(const vq from[4], vq to[4])
{
    vq a = LOW8(from[0], from[1]), b = LOW8(from[2], from[3]);
    vq c = HIGH8(from[0], from[1]), d = HIGH8(from[2], from[3]);
    to[0] = LOW16(a, b), to[1] = HIGH16(a, b), to[2] = LOW16(c, d), to[3] = HIGH16(c, d);
}

/* Four vectors of numbers that fit into stored values, in the order of `interleave` -> stored values. */
INLINE vq packed(const vi from[4])
{
#if LANES == 16
    __m512i low = _mm512_packs_epi32((__m512i)from[0], (__m512i)from[1]);
    return (vq)_mm512_packus_epi16(low, _mm512_packs_epi32((__m512i)from[2], (__m512i)from[3]));
#elif LANES == 8
    __m256i low = _mm256_packs_epi32((__m256i)from[0], (__m256i)from[1]);
    return (vq)_mm256_packus_epi16(low, _mm256_packs_epi32((__m256i)from[2], (__m256i)from[3]));
#else
    vq result;
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 4; i++)
            result[4 * j + i] = (Q)from[j][i];
    return result;
#endif
}

/* Stored values -> numbers, in the order of `interleave`. */
INLINE void unpacked(vq from, vi to[4])
{
    vq zero = {};
    vq four[4] = {from, zero, zero, zero}, bytes[4];
    interleave(four, bytes);
    UNROLL
    for (int j = 0; j < 4; j++)
        to[j] = Q_OFFSET ? (vi)bytes[j] : ((vi)bytes[j] << 24) >> 24;
}

/* A table of all bytes in registers, where they can be looked up there. */
#if defined(__AVX512VBMI__) && LANES == 16
struct table { __m512i part[4]; };
INLINE struct table table_at(const Q *entries)
{
    struct table table;
    UNROLL
    for (int i = 0; i < 4; i++)
        table.part[i] = _mm512_loadu_si512(entries + 64 * i);
    return table;
}
INLINE vq look_up(const struct table *table, vq bytes)
{
    __m512i low = _mm512_permutex2var_epi8(table->part[0], (__m512i)bytes, table->part[1]);
    __m512i high = _mm512_permutex2var_epi8(table->part[2], (__m512i)bytes, table->part[3]);
    return (vq)_mm512_mask_blend_epi8(_mm512_movepi8_mask((__m512i)bytes), low, high);
}
#elif defined(__aarch64__)
struct table { uint8x16x4_t part[4]; };
INLINE struct table table_at(const Q *entries)
{
    struct table table;
    UNROLL
    for (int i = 0; i < 4; i++)
        table.part[i] = vld1q_u8_x4((const uint8_t *)entries + 64 * i);
    return table;
}
INLINE vq look_up(const struct table *table, vq bytes)
{
    uint8x16_t index = (uint8x16_t)bytes, found = vqtbl4q_u8(table->part[0], index);
    UNROLL
    for (int i = 1; i < 4; i++)
        found = vqtbx4q_u8(found, table->part[i], vsubq_u8(index, vdupq_n_u8(64 * i)));
    return (vq)found;
}
#else
struct table { const Q *entries; };
INLINE struct table table_at(const Q *entries) { return (struct table){entries}; }
INLINE vq look_up(const struct table *table, vq bytes)
{
    for (int i = 0; i < BYTES; i++)
        bytes[i] = table->entries[(uint8_t)bytes[i]];
    return bytes;
}
#endif
#endif
