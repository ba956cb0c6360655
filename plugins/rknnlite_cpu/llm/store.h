/* The KV cache of one layer as kv_cache_storage.py lays it out, which is the definition: rows that are read as float32, and one token
 * that is put there. What is rounded is rounded as there, to the bit. */
#include <math.h>
#include "functions.h"

enum kept_as { SINGLE, HALF, GROUPED };

#define LARGEST_HALF 65504.0f

/* Keys and values (heads, slots, dim) of `kind`; GROUPED ones are codes of `bits` with float16 scales, of keys (heads, slots / group,
 * dim), of values (heads, slots, dim / group), and `tail` (heads, group, dim) float16 has the keys of the group filled[0] that is not
 * full, filled[1] of them. table: numbers of the codes, 0: integers; between: what lies in the middle of two positive ones. fp8: what
 * is read is rounded to FP8. */
struct store {
    intptr_t kind, heads, slots, dim, group, bits, fp8, middles;
    char *keys, *values;
    uint16_t *key_scales, *value_scales, *tail;
    int64_t *filled;
    const float *table, *between;
    float top;
};

INLINE intptr_t row_bytes(const struct store *s)
{
    return s->kind == SINGLE ? 4 * s->dim : s->kind == HALF ? 2 * s->dim : s->dim * s->bits / 8;
}
INLINE char *key_at(const struct store *s, intptr_t head, intptr_t slot) { return s->keys + (head * s->slots + slot) * row_bytes(s); }
INLINE char *value_at(const struct store *s, intptr_t head, intptr_t slot) { return s->values + (head * s->slots + slot) * row_bytes(s); }

/* LANES numbers from `at`; zeros for those from `end` on. */
INLINE vf halves(const void *from, intptr_t at, intptr_t end)
{
    const uint16_t *half = from;
    if (at + LANES <= end)
        return half_to_float(half + at);
    uint16_t some[LANES] = {0};
    if (at < end)
        memcpy(some, half + at, (end - at) * sizeof *some);
    return half_to_float(some);
}

INLINE vf rounded_to_fp8(vf v)
{
    const vi sign = (vi){} + INT32_MIN;
    const vf magic = all(12582912.0f); /* its last bit is worth 1 */
    vi bits = (vi)v;
    vf size = (vf)(bits & ~sign);
    vf normal = (vf)((bits + 0x7FFFF + (bits >> 20 & 1)) & ~0xFFFFF);
    vf tiny = ((chosen(size < 0x1p-6f, size, all(0)) * 512.0f + magic) - magic) * 0x1p-9f;
    tiny = (vf)((vi)tiny | (bits & sign));
    vf found = chosen(size < 0x1p-6f, tiny, normal);
    found = chosen(found > 448.0f, all(448.0f), found);
    return chosen(found < -448.0f, all(-448.0f), found);
}

/* Codes of LANES channels as numbers; of four bits from the low or the high ones. */
INLINE vf decoded(const struct store *s, const char *from, int shift)
{
    vi codes = signed_bytes(from);
    if (!s->table)
        return __builtin_convertvector(s->bits == 8 ? codes : codes << (28 - shift) >> 28, vf);
    codes = codes >> shift & (s->bits == 8 ? 255 : 15);
#if defined(__AVX512F__)
    return (vf)_mm512_i32gather_ps((__m512i)codes, s->table, 4);
#elif defined(__AVX2__)
    return (vf)_mm256_i32gather_ps(s->table, (__m256i)codes, 4);
#else
    vf found;
    UNROLL for (int l = 0; l < LANES; l++)
        found[l] = s->table[codes[l]];
    return found;
#endif
}

/* `count` codes from `from` to `to`, which has room for LANES more. */
INLINE void decode(const struct store *s, const char *from, intptr_t count, int shift, float *to)
{
    intptr_t at = 0;
    for (; at + LANES <= count; at += LANES)
        store(to + at, decoded(s, from + at, shift));
    if (at < count) {
        char some[LANES] = {0};
        memcpy(some, from + at, count - at);
        store(to + at, decoded(s, some, shift));
    }
}

INLINE void decode_row(const struct store *s, const char *codes, float *row)
{
    decode(s, codes, s->bits == 8 ? s->dim : s->dim / 2, 0, row);
    if (s->bits == 4)
        decode(s, codes, s->dim / 2, 4, row + s->dim / 2);
}

/* float32 or float16 from `from` to row, zeros from `dim` to `width`. */
INLINE void read_plain(const struct store *s, const char *from, float *row, intptr_t width)
{
    if (s->kind == SINGLE) {
        memcpy(row, from, s->dim * sizeof *row);
        memset(row + s->dim, 0, (width - s->dim) * sizeof *row);
    } else {
        for (intptr_t at = 0; at < width; at += LANES)
            store(row + at, halves(from, at, s->dim));
    }
}

/* Rounds, and gives row its zeros from `dim` to `width`. */
INLINE void finish_row(const struct store *s, const float *from, float *row, intptr_t width)
{
    for (intptr_t at = 0; at < width; at += LANES)
        store(row + at, s->fp8 ? rounded_to_fp8(load(from + at)) : load(from + at));
    memset(row + s->dim, 0, (width - s->dim) * sizeof *row);
}

#define ROOM (512 + 2 * LANES)

INLINE void read_key(const struct store *s, intptr_t head, intptr_t slot, float *row, intptr_t width)
{
    if (s->kind != GROUPED) {
        read_plain(s, key_at(s, head, slot), row, width);
        return;
    }
    float wide[ROOM];
    intptr_t group = slot / s->group, inside = slot % s->group;
    if (group == s->filled[0] && inside < s->filled[1]) {
        const uint16_t *tail = s->tail + (head * s->group + inside) * s->dim;
        for (intptr_t at = 0; at < width; at += LANES)
            store(wide + at, halves(tail, at, s->dim));
    } else {
        const uint16_t *scales = s->key_scales + (head * (s->slots / s->group) + group) * s->dim;
        decode_row(s, key_at(s, head, slot), wide);
        for (intptr_t at = 0; at < width; at += LANES)
            store(wide + at, load(wide + at) * halves(scales, at, s->dim));
    }
    finish_row(s, wide, row, width);
}

INLINE float half_number(uint16_t half)
{
    uint16_t some[LANES] = {half};
    return half_to_float(some)[0];
}

INLINE void read_value(const struct store *s, intptr_t head, intptr_t slot, float *row, intptr_t width)
{
    if (s->kind != GROUPED) {
        read_plain(s, value_at(s, head, slot), row, width);
        return;
    }
    float wide[ROOM];
    const uint16_t *scales = s->value_scales + (head * s->slots + slot) * (s->dim / s->group);
    decode_row(s, value_at(s, head, slot), wide);
    for (intptr_t first = 0; first < s->dim; first += s->group) {
        const float scale = half_number(*scales++);
        for (intptr_t at = first; at < first + s->group; at++)
            wide[at] *= scale;
    }
    finish_row(s, wide, row, width);
}

/* To the nearest, ties to even. */
INLINE uint16_t to_half(float value)
{
    uint32_t bits, sign;
    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7FFFFFFF;
    if (bits >= 0x47800000)          /* too large, or no number */
        return sign | (bits > 0x7F800000 ? 0x7E00 : 0x7C00);
    if (bits < 0x38800000) {         /* subnormal: the sum's last bit is worth one */
        float size, half = 0.5f;
        memcpy(&size, &bits, sizeof size);
        size += half;
        memcpy(&bits, &size, sizeof bits);
        return sign | (uint16_t)(bits - 0x3F000000);
    }
    bits += 0xC8000FFF + (bits >> 13 & 1); /* the other bias, and half of the last bit */
    return sign | (uint16_t)(bits >> 13);
}

INLINE uint16_t to_finite_half(float value)
{
    return to_half(value > LARGEST_HALF ? LARGEST_HALF : value < -LARGEST_HALF ? -LARGEST_HALF : value);
}

INLINE uint8_t encoded(const struct store *s, float value)
{
    value = value > s->top ? s->top : value < -s->top ? -s->top : value;
    if (!s->table)
        return (uint8_t)(int8_t)((value + 12582912.0f) - 12582912.0f);
    const float size = fabsf(value);
    intptr_t low = 0, high = s->middles; /* as many as are below: at a tie the lower code, unless it is odd */
    while (low < high) {
        intptr_t middle = (low + high) / 2;
        if (s->between[middle] < size)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < s->middles && s->between[low] == size)
        low += low & 1;
    return (uint8_t)(low | (signbit(value) ? 1 << (s->bits - 1) : 0));
}

/* Numbers that lie `step` apart share a scale: their codes to codes[0], codes[step], ... */
INLINE uint16_t quantise(const struct store *s, const float *from, intptr_t count, intptr_t step, uint8_t *codes)
{
    float top = 0;
    for (intptr_t i = 0; i < count; i++)
        top = fabsf(from[i * step]) > top ? fabsf(from[i * step]) : top;
    const uint16_t scale = to_half(top / s->top);
    const float stored = half_number(scale), divisor = stored == 0 ? 1 : stored;
    for (intptr_t i = 0; i < count; i++)
        codes[i * step] = encoded(s, from[i * step] / divisor);
    return scale;
}

INLINE void pack(const struct store *s, const uint8_t *codes, char *to)
{
    const intptr_t half = s->dim / 2;
    if (s->bits == 8)
        memcpy(to, codes, s->dim);
    else
        for (intptr_t i = 0; i < half; i++)
            to[i] = (char)((codes[i] & 15) | codes[i + half] << 4);
}

/* A group of keys has come to its end. */
static inline void end_group(const struct store *s, intptr_t head, intptr_t number)
{
    float column[256];
    uint8_t codes[256];
    const uint16_t *tail = s->tail + head * s->group * s->dim;
    uint16_t *scales = s->key_scales + (head * (s->slots / s->group) + number) * s->dim;
    for (intptr_t c = 0; c < s->dim; c++) {
        for (intptr_t i = 0; i < s->group; i++)
            column[i] = half_number(tail[i * s->dim + c]);
        scales[c] = quantise(s, column, s->group, 1, codes);
        for (intptr_t i = 0; i < s->group; i++) {
            uint8_t *to = (uint8_t *)key_at(s, head, number * s->group + i);
            if (s->bits == 8)
                to[c] = codes[i];
            else if (c < s->dim / 2)
                to[c] = codes[i] & 15;
            else
                to[c - s->dim / 2] |= (uint8_t)(codes[i] << 4);
        }
    }
}

/* What numpy's `_resume` does: the tail gets the keys before `inside` where filling goes on after a truncation. */
static inline void resume(const struct store *s, intptr_t number, intptr_t inside)
{
    if (!inside || (s->filled[0] == number && s->filled[1] >= inside))
        return;
    float wide[ROOM];
    for (intptr_t head = 0; head < s->heads; head++)
        for (intptr_t i = 0; i < inside; i++) {
            const uint16_t *scales = s->key_scales + (head * (s->slots / s->group) + number) * s->dim;
            decode_row(s, key_at(s, head, number * s->group + i), wide);
            for (intptr_t c = 0; c < s->dim; c++)
                s->tail[(head * s->group + i) * s->dim + c] = to_finite_half(wide[c] * half_number(scales[c]));
        }
}

/* What `Grouped.rounded` does, (dim). */
static inline void rounded_row(const struct store *s, const float *from, float *row)
{
    uint16_t half[ROOM];
    for (intptr_t c = 0; c < s->dim; c++)
        half[c] = to_finite_half(from[c]);
    for (intptr_t at = 0; at < s->dim; at += LANES) {
        vf v = halves(half, at, s->dim);
        store(row + at, s->fp8 ? rounded_to_fp8(v) : v);
    }
}

/* One token: keys and values (heads, dim) into `slot`, rounded first as numpy's attention does. */
static inline void put_token(const struct store *s, intptr_t slot, const float *keys, const float *values)
{
    uint8_t codes[ROOM];
    float row[ROOM];
    const intptr_t number = s->kind == GROUPED ? slot / s->group : 0, inside = s->kind == GROUPED ? slot % s->group : 0;
    if (s->kind == GROUPED)
        resume(s, number, inside);
    for (intptr_t head = 0; head < s->heads; head++, keys += s->dim, values += s->dim) {
        if (s->kind == SINGLE) {
            memcpy(key_at(s, head, slot), keys, s->dim * sizeof *keys);
            memcpy(value_at(s, head, slot), values, s->dim * sizeof *values);
        } else if (s->kind == HALF) {
            uint16_t *key = (uint16_t *)key_at(s, head, slot), *value = (uint16_t *)value_at(s, head, slot);
            for (intptr_t c = 0; c < s->dim; c++)
                key[c] = to_finite_half(keys[c]), value[c] = to_finite_half(values[c]);
        } else {
            uint16_t *scales = s->value_scales + (head * s->slots + slot) * (s->dim / s->group);
            rounded_row(s, values, row);
            for (intptr_t c = 0; c < s->dim; c += s->group)
                *scales++ = quantise(s, row + c, s->group, 1, codes + c);
            pack(s, codes, value_at(s, head, slot));
            rounded_row(s, keys, row);
            for (intptr_t c = 0; c < s->dim; c++)
                s->tail[(head * s->group + inside) * s->dim + c] = to_finite_half(row[c]);
            if (inside + 1 == s->group)
                end_group(s, head, number);
        }
    }
    if (s->kind == GROUPED)
        s->filled[0] = number, s->filled[1] = inside + 1 == s->group ? 0 : inside + 1;
}
