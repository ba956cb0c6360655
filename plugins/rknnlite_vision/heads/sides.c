/* Boxes of a head with maps of sides and scores in 8 bits, channels first: what yolo_sides.Sides and suppression.nms compute with
 * numpy, in one walk. Which numbers pass, what they mean and what their exponentials are stands in tables that Python makes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64 }; /* cells that are looked at together */

struct stride {
    int32_t width, cells, pixels, bins;
    int32_t sides, scores, sums; /* numbers of outputs; sums may be -1 */
    int32_t flip_sides, flip_scores, flip_sums; /* 0x80 where the output is uint8: it then compares as int8 */
    float sides_scale, sides_zero;
    const float *meanings;     /* of the 256 scores, least first */
    const float *exponentials; /* of a bin that is 0, 1, ... 255 steps below the highest */
};

struct limits {
    int32_t classes, across, most;
    float overlap;
    const int32_t *least; /* of each stride: the least score and the least sum that pass, as int8; 128 where none does */
};

struct box {
    float corners[4], score;
    int32_t kind, place;
};

struct found {
    struct box *boxes;
    int count, room;
};

static struct box *added(struct found *found) {
    if (found->count == found->room) {
        int room = found->room ? 2 * found->room : 256;
        struct box *boxes = realloc(found->boxes, (size_t)room * sizeof *boxes);
        if (!boxes) return NULL;
        found->boxes = boxes, found->room = room;
    }
    return &found->boxes[found->count++];
}

static int at(const uint8_t *bytes, int flip, size_t place) { return (int8_t)(bytes[place] ^ flip); }

static float distance(const struct stride *s, const uint8_t *bytes, int side, int cell) {
    int steps[256], most = -128;
    float all = 0, mean = 0;
    if (s->bins == 1) return ((float)at(bytes, s->flip_sides, (size_t)side * s->cells + cell) - s->sides_zero) * s->sides_scale;
    for (int bin = 0; bin < s->bins; bin++) {
        steps[bin] = at(bytes, s->flip_sides, (size_t)(side * s->bins + bin) * s->cells + cell);
        if (steps[bin] > most) most = steps[bin];
    }
    for (int bin = 0; bin < s->bins; bin++) {
        float weight = s->exponentials[most - steps[bin]];
        all += weight;
        mean += weight * (float)bin;
    }
    return mean / all;
}

static int place_box(struct found *found, const struct stride *s, const uint8_t *sides, int cell, int kind, int score, int start) {
    struct box *box = added(found);
    if (!box) return -1;
    float x = (float)(cell % s->width) + 0.5f, y = (float)(cell / s->width) + 0.5f, pixels = (float)s->pixels;
    box->corners[0] = (x - distance(s, sides, 0, cell)) * pixels;
    box->corners[1] = (y - distance(s, sides, 1, cell)) * pixels;
    box->corners[2] = (x + distance(s, sides, 2, cell)) * pixels;
    box->corners[3] = (y + distance(s, sides, 3, cell)) * pixels;
    box->score = s->meanings[score + 128];
    box->kind = kind, box->place = start + cell;
    return 0;
}

/* The best of each cell, plane by plane: a loop that the compiler makes wide. */
static void best_of_cells(const uint8_t *scores, int flip, int classes, int cells, int8_t *best) {
    memset(best, -128, (size_t)cells);
    for (int kind = 0; kind < classes; kind++)
        for (int cell = 0; cell < cells; cell++) {
            int8_t score = (int8_t)(scores[(size_t)kind * cells + cell] ^ flip);
            best[cell] = score > best[cell] ? score : best[cell];
        }
}

/* Whether any of the cells may pass: few parts of a picture hold something, and this loop is wide. */
static int any_passes(const uint8_t *ruling, int flip, int first, int cells) {
    int any = 0;
    for (int cell = 0; cell < cells; cell++) any |= (int8_t)(ruling[cell] ^ flip) >= first;
    return any;
}

static int candidate(struct found *found, const struct stride *s, const uint8_t *const *outputs, int classes, int least, int cell,
                     int start) {
    const uint8_t *scores = outputs[s->scores] + cell;
    int best = -129, kind = 0;
    for (int c = 0; c < classes; c++, scores += s->cells) {
        int score = (int8_t)(*scores ^ s->flip_scores);
        if (score > best) best = score, kind = c;
    }
    return best >= least ? place_box(found, s, outputs[s->sides], cell, kind, best, start) : 0;
}

/* ``ruling``: of each cell a number that is at least ``first`` where the cell may pass. */
static int walk(struct found *found, const struct stride *s, const uint8_t *const *outputs, int classes, int least, int start,
                const uint8_t *ruling, int flip, int first) {
    for (int from = 0; from < s->cells; from += BLOCK) {
        int cells = s->cells - from < BLOCK ? s->cells - from : BLOCK;
        if (!any_passes(ruling + from, flip, first, cells)) continue;
        for (int cell = from; cell < from + cells; cell++)
            if (at(ruling, flip, (size_t)cell) >= first && candidate(found, s, outputs, classes, least, cell, start)) return -1;
    }
    return 0;
}

static int candidates(struct found *found, const struct stride *s, const uint8_t *const *outputs, int classes, const int32_t *least,
                      int start) {
    if (s->sums >= 0) return walk(found, s, outputs, classes, least[0], start, outputs[s->sums], s->flip_sums, least[1]);
    int8_t *best = malloc((size_t)s->cells);
    if (!best) return -1;
    best_of_cells(outputs[s->scores], s->flip_scores, classes, s->cells, best);
    int result = walk(found, s, outputs, classes, least[0], start, (const uint8_t *)best, 0, least[0]);
    free(best);
    return result;
}

static int better(const void *a, const void *b) {
    const struct box *one = a, *other = b;
    if (one->score != other->score) return one->score > other->score ? -1 : 1;
    return one->place < other->place ? -1 : 1;
}

static float lesser(float a, float b) { return a < b ? a : b; }
static float greater(float a, float b) { return a > b ? a : b; }

static int close_by(const struct box *a, const struct box *b, float limit) {
    float wide = lesser(a->corners[2], b->corners[2]) - greater(a->corners[0], b->corners[0]);
    float high = lesser(a->corners[3], b->corners[3]) - greater(a->corners[1], b->corners[1]);
    float shared = greater(wide, 0) * greater(high, 0);
    float one = (a->corners[2] - a->corners[0]) * (a->corners[3] - a->corners[1]);
    float other = (b->corners[2] - b->corners[0]) * (b->corners[3] - b->corners[1]);
    return shared / (one + other - shared) > limit;
}

/* Boxes that stay, moved to the front. Each is compared with those of its kind that stayed, the last first. */
static int suppressed(struct found *found, const struct limits *limits) {
    int kinds = limits->across ? 1 : limits->classes, kept = 0;
    int *last = malloc(((size_t)kinds + (size_t)found->count) * sizeof *last), *before = last ? last + kinds : NULL;
    if (!last) return -1;
    memset(last, -1, (size_t)kinds * sizeof *last);
    qsort(found->boxes, (size_t)found->count, sizeof *found->boxes, better);
    for (int row = 0; row < found->count && kept < limits->most; row++) {
        struct box box = found->boxes[row];
        int kind = limits->across ? 0 : box.kind, other = last[kind];
        while (other >= 0 && !close_by(&found->boxes[other], &box, limits->overlap)) other = before[other];
        if (other >= 0) continue;
        before[kept] = last[kind], last[kind] = kept;
        found->boxes[kept++] = box;
    }
    free(last);
    return kept;
}

/* Rows of the best boxes in ``rows``, which has room for ``most``; how many there are, or -1 without memory. */
int rknnlite_sides(const struct stride *strides, int count, const uint8_t *const *outputs, const struct limits *limits,
                   struct box *rows) {
    struct found found = {0};
    int start = 0, result = 0;
    for (int part = 0; part < count && !result; start += strides[part++].cells)
        result = candidates(&found, &strides[part], outputs, limits->classes, limits->least + 2 * part, start);
    if (!result) result = suppressed(&found, limits);
    if (result > 0) memcpy(rows, found.boxes, (size_t)result * sizeof *rows);
    free(found.boxes);
    return result;
}
