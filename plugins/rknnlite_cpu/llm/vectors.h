/* Vectors of float32 as wide as the processor's registers, for what is built on the machine. */
#include <stdint.h>
#include <string.h>
#if defined(__SSE4_1__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define LANES 16
#define FEW_ROWS 4
#elif defined(__AVX2__)
#define LANES 8
#define FEW_ROWS 2
#else
#define LANES 4
#define FEW_ROWS 4
#endif
#define STRIP 4                      /* vectors that are summed at a time for FEW_ROWS rows */

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef int16_t v16 __attribute__((vector_size(2 * LANES)));
typedef int8_t v8 __attribute__((vector_size(LANES)));

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

INLINE vf load(const float *from) { vf v; memcpy(&v, from, sizeof v); return v; }
INLINE void store(float *to, vf v) { memcpy(to, &v, sizeof v); }

INLINE vf half_to_float(const uint16_t *from)
{
#if defined(__AVX512F__)
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
#elif defined(__AVX2__) && defined(__F16C__)
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
#else /* sign, exponent and mantissa to their places, then the exponent's bias; subnormals stay exact */
    v16 bits;
    memcpy(&bits, from, sizeof bits);
    vi wide = (__builtin_convertvector(bits, vi) << 13) & ((vi){} + (int32_t)0x8FFFFFFF);
    return (vf)wide * 0x1p112f;
#endif
}

/* LANES bytes as integers; compilers before GCC 13 take a general conversion apart, one lane after another. */
INLINE vi signed_bytes(const void *from)
{
#if defined(__AVX512F__)
    return (vi)_mm512_cvtepi8_epi32(_mm_loadu_si128(from));
#elif defined(__AVX2__)
    return (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64(from));
#else
    int32_t four;
    memcpy(&four, from, sizeof four);
#if defined(__SSE4_1__)
    return (vi)_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four));
#elif defined(__ARM_NEON)
    return (vi)vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8((uint32_t)four))));
#else
    v8 codes;
    memcpy(&codes, from, sizeof codes);
    return __builtin_convertvector(codes, vi);
#endif
#endif
}
