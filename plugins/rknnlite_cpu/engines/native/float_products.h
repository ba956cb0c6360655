/* Products of matrices of floats in memory. */
#ifndef RKNNLITE_FLOAT_PRODUCTS_H
#define RKNNLITE_FLOAT_PRODUCTS_H
#include "float_vectors.h"

#define WIDE (FLOAT_ACROSS * LANES) /* columns at a time */

/* [rows, depth] times [depth, WIDE] -> [rows, WIDE] for up to FLOAT_TILE rows; `..._step` floats from row to row. */
void float_products(int64_t rows, const float *left, int64_t left_step, const float *right, int64_t right_step, int64_t depth,
                    float *to, int64_t to_step);
#endif
