/* Matrices of products.c, and its products of few rows. */
#include <stdint.h>

#define GROUP 32
#define COLUMNS 128

enum kind { F16, BF16, W8, W4 };

/* [across, down, 32, 128] codes of a kind; [across, down, 128] scales as float16 bits, of integers only. */
struct matrix {
    intptr_t kind, across, down;
    const char *codes;
    const uint16_t *scales;
};

static const int tile_bytes[] = {2 * GROUP * COLUMNS, 2 * GROUP * COLUMNS, GROUP * COLUMNS, GROUP * COLUMNS / 2};

/* Tiles `first` to `end` of the matrix, counted as they lie, with up to 16 rows: their outputs of out (rows, across * 128).
 * Where the first tile is not the first one of its 128 outputs, the sums of that part of them go to rest (rows, 128). Tile `then` is what
 * is read next. */
void rknnlite_few(const struct matrix *m, intptr_t first, intptr_t end, intptr_t then, const float *x, intptr_t rows, float *out, float *rest);
