/* See float_products.h. */
#include "float_products.h"

INLINE void products(const float *left, int64_t left_step, const float *right, int64_t right_step, int64_t depth, float *to,
                     int64_t to_step, const int rows)
{
    vf sums[FLOAT_TILE][FLOAT_ACROSS];
    const float *at[(FLOAT_TILE + 2) / 3]; /* every third row: the others are one and two steps away */
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
        for (int v = 0; v < FLOAT_ACROSS; v++)
            sums[i][v] = (vf){};
    UNROLL
    for (int i = 0; i < rows; i += 3)
        at[i / 3] = left + i * left_step;
    for (int64_t k = 0; k < depth; k++, right += right_step) {
        vf some[FLOAT_ACROSS];
        UNROLL
        for (int v = 0; v < FLOAT_ACROSS; v++)
            some[v] = load_f(right + v * LANES);
        UNROLL
        for (int i = 0; i < rows; i++) {
            vf value = all_f(at[i / 3][i % 3 * left_step]);
            UNROLL
            for (int v = 0; v < FLOAT_ACROSS; v++)
                sums[i][v] = add_product(sums[i][v], value, some[v]);
        }
        UNROLL
        for (int i = 0; i < rows; i += 3)
            at[i / 3]++;
    }
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
        for (int v = 0; v < FLOAT_ACROSS; v++)
            memcpy(to + i * to_step + v * LANES, &sums[i][v], sizeof sums[i][v]);
}

typedef void (*products_fn)(const float *, int64_t, const float *, int64_t, int64_t, float *, int64_t);
#define ONE(rows)                                                                                                   \
    static void products_##rows(const float *left, int64_t left_step, const float *right, int64_t right_step,       \
                                int64_t depth, float *to, int64_t to_step)                                          \
    {                                                                                                               \
        products(left, left_step, right, right_step, depth, to, to_step, rows);                                     \
    }
ONE(1) ONE(2) ONE(3) ONE(4)
#if FLOAT_TILE >= 6
ONE(5) ONE(6)
#endif
#if FLOAT_TILE >= 12
ONE(7) ONE(8) ONE(9) ONE(10) ONE(11) ONE(12)
#endif
static const products_fn PRODUCTS[FLOAT_TILE] = {
    products_1, products_2, products_3, products_4,
#if FLOAT_TILE >= 6
    products_5, products_6,
#endif
#if FLOAT_TILE >= 12
    products_7, products_8, products_9, products_10, products_11, products_12,
#endif
};

void float_products(int64_t rows, const float *left, int64_t left_step, const float *right, int64_t right_step, int64_t depth,
                    float *to, int64_t to_step)
{
    PRODUCTS[rows - 1](left, left_step, right, right_step, depth, to, to_step);
}
