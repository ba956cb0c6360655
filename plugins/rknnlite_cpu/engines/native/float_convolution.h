/* The ways in which convolutions of floats are computed. */
#ifndef RKNNLITE_FLOAT_CONVOLUTION_H
#define RKNNLITE_FLOAT_CONVOLUTION_H
#include "float_stage.h"

/* Rows of y of one item, and blocks of FLOAT_ACROSS vectors of output channels, straight from x; `copy` is for its rows. */
void float_straight(const struct op *op, const struct scene *scene, int64_t item, const int64_t rows[2],
                    const int64_t blocks[2], Q *copy);

/* After Winograd, where that pays: the same for any number of threads. */
int float_winograd(const struct op *op);
int64_t float_winograd_tasks(const struct op *op, int threads);
int64_t float_winograd_scratch(const struct op *op, int threads);
void float_winograd_convolve(const struct op *op, const struct scene *scene, int64_t task);
#endif
