/* Matrix products by plain loops, and the NPU's layouts of matrices from their dimensions alone. */
#ifndef PRODUCTS_H
#define PRODUCTS_H

#include "check.h"
#include "rknn_matmul_api.h"

/* float16 of an integer from -2048 to 2048, which it holds exactly. */
static inline uint16_t half_of(int value)
{
    uint16_t sign = value < 0 ? 0x8000 : 0;
    unsigned size = (unsigned)abs(value), exponent = 0;
    if (!size)
        return sign;
    while (size >> (exponent + 1))
        exponent++;
    return (uint16_t)(sign | ((exponent + 15) << 10) | ((size << (10 - exponent)) & 0x3ff));
}

static inline int integer_of(uint16_t half)
{
    int exponent = (half >> 10 & 31) - 25, bits = (half & 0x3ff) | 0x400;
    if (!(half & 0x7fff))
        return 0;
    int size = exponent >= 0 ? bits << exponent : bits >> -exponent;
    return half & 0x8000 ? -size : size;
}

/* Small numbers without a pattern that a mistake in a layout could meet. */
static inline int number_at(unsigned seed, int index, int limit)
{
    uint32_t x = seed * 2654435761u + (uint32_t)index * 40503u + 12345u;
    x ^= x >> 13;
    x *= 0x5bd1e995u;
    x ^= x >> 15;
    return (int)(x % (2u * (unsigned)limit + 1)) - limit;
}

/* Element `index` of memory, by its type. */
static inline void put(void *memory, rknn_tensor_type type, size_t index, int value)
{
    unsigned char *bytes = (unsigned char *)memory;
    switch (type) {
    case RKNN_TENSOR_FLOAT16:
        ((uint16_t *)memory)[index] = half_of(value);
        break;
    case RKNN_TENSOR_INT8:
        ((int8_t *)memory)[index] = (int8_t)value;
        break;
    case RKNN_TENSOR_INT4: /* the even element in the low half */
        if (index % 2)
            bytes[index / 2] = (unsigned char)((bytes[index / 2] & 0x0f) | (value & 15) << 4);
        else
            bytes[index / 2] = (unsigned char)((bytes[index / 2] & 0xf0) | (value & 15));
        break;
    default:
        CHECK(!"a type of matrices");
    }
}

static inline int get(const void *memory, rknn_tensor_type type, size_t index)
{
    switch (type) {
    case RKNN_TENSOR_FLOAT32:
        return (int)((const float *)memory)[index];
    case RKNN_TENSOR_INT32:
        return ((const int32_t *)memory)[index];
    case RKNN_TENSOR_INT16:
        return ((const int16_t *)memory)[index];
    case RKNN_TENSOR_FLOAT16:
        return integer_of(((const uint16_t *)memory)[index]);
    case RKNN_TENSOR_INT8:
        return ((const int8_t *)memory)[index];
    default:
        CHECK(!"a type of products");
    }
    return 0;
}

/* Place of [row, column] in A or C: [rows, columns], or natively [columns / x, rows, x]. */
static inline size_t place_in_ac(const rknn_matmul_tensor_attr *attr, int row, int column)
{
    if (attr->n_dims == 2)
        return (size_t)row * attr->dims[1] + (size_t)column;
    size_t x = attr->dims[2];
    return ((size_t)column / x * attr->dims[1] + (size_t)row) * x + (size_t)column % x;
}

/* Place of [k, n] in B: [K, N], transposed [N, K], or natively [N / subN, K / subK, subN, subK]. */
static inline size_t place_in_b(const rknn_matmul_tensor_attr *attr, int layout, int k, int n)
{
    if (layout == RKNN_MM_LAYOUT_NORM)
        return (size_t)k * attr->dims[1] + (size_t)n;
    if (layout == RKNN_MM_LAYOUT_TP_NORM)
        return (size_t)n * attr->dims[1] + (size_t)k;
    size_t sub_n = attr->dims[2], sub_k = attr->dims[3];
    size_t block = (size_t)n / sub_n * attr->dims[1] + (size_t)k / sub_k;
    return (block * sub_n + (size_t)n % sub_n) * sub_k + (size_t)k % sub_k;
}

/* Fill A and B with numbers. */
static inline void fill_a(void *memory, const rknn_matmul_tensor_attr *attr, int M, int K, unsigned seed, int limit)
{
    memset(memory, 0, attr->size);
    for (int m = 0; m < M; m++)
        for (int k = 0; k < K; k++)
            put(memory, attr->type, place_in_ac(attr, m, k), number_at(seed, m * K + k, limit));
}

static inline void fill_b(void *memory, const rknn_matmul_tensor_attr *attr, int layout, int K, int N, unsigned seed, int limit)
{
    memset(memory, 0, attr->size);
    for (int k = 0; k < K; k++)
        for (int n = 0; n < N; n++)
            put(memory, attr->type, place_in_b(attr, layout, k, n), number_at(seed, k * N + n, limit));
}

/* Whether C is the product of the numbers that fill_a and fill_b wrote. */
static inline void check_product(const void *memory, const rknn_matmul_tensor_attr *attr, rknn_matmul_shape shape,
                                 unsigned seed_a, unsigned seed_b, int limit)
{
    for (int m = 0; m < shape.M; m++)
        for (int n = 0; n < shape.N; n++) {
            int sum = 0;
            for (int k = 0; k < shape.K; k++)
                sum += number_at(seed_a, m * shape.K + k, limit) * number_at(seed_b, k * shape.N + n, limit);
            int found = get(memory, attr->type, place_in_ac(attr, m, n));
            if (found != sum) {
                fprintf(stderr, "C[%d, %d] of %d x %d x %d is %d, not %d\n", m, n, shape.M, shape.K, shape.N, found, sum);
                exit(1);
            }
        }
}

#endif
