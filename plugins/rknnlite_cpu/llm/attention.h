/* What attention.c is asked. */
#include <stdint.h>

#define MOST_WIDTH 512               /* numbers of a key: a block of them stays in the second cache, most in the first */

struct store;

/* Of each head of keys: rows (heads, rows, width) with `dim` numbers and zeros behind them, width a multiple of 16, in the order of
 * the query heads that share it, each with its `tokens`; keys and values lie in the store, the first one in `slot`. The first `keep`
 * keys are seen by `kept` rows, the others by `turned` ones. mask (tokens, keys), which is added to the scores, or 0; cap 0: none. */
struct attention {
    intptr_t rows, tokens, dim, width, keys, keep, slot;
    const float *turned, *kept, *mask;
    const struct store *store;
    float cap;
};

/* What rows of some heads see of the keys `first` to `end`: mixed (heads, rows, width), divided, with the largest score of each row and
 * the total of its exponentials beside that, by which results of other keys can be added. */
void rknnlite_attend(const struct attention *a, intptr_t head, intptr_t heads, intptr_t first, intptr_t end, float *mixed, float *peaks,
                     float *totals);
