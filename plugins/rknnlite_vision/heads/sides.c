/* Boxes of a head with maps of sides and scores in 8 bits, channels first: what yolo_sides.Sides and suppression.nms compute with
 * numpy, in one walk. Which numbers pass, what they mean and what their exponentials are stands in tables that Python makes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64, MOST_BINS = 17 }; /* cells that are looked at together; bins of a side */

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

/* The four distances of a cell; sides are walked abreast, so no sum waits for the one before. */
static void distances(const struct stride *s, const uint8_t *bytes, int cell, float *means) {
    int bins = s->bins, most[4] = {-128, -128, -128, -128};
    int8_t steps[4 * MOST_BINS];
    float all[4] = {0};
    for (int n = 0; n < 4 * bins; n++) steps[n] = (int8_t)at(bytes, s->flip_sides, (size_t)n * s->cells + cell);
    if (bins == 1) {
        for (int side = 0; side < 4; side++) means[side] = ((float)steps[side] - s->sides_zero) * s->sides_scale;
        return;
    }
    for (int bin = 0; bin < bins; bin++)
        for (int side = 0; side < 4; side++)
            if (steps[side * bins + bin] > most[side]) most[side] = steps[side * bins + bin];
    for (int side = 0; side < 4; side++) means[side] = 0;
    for (int bin = 0; bin < bins; bin++)
        for (int side = 0; side < 4; side++) {
            float weight = s->exponentials[most[side] - steps[side * bins + bin]];
            all[side] += weight;
            means[side] += weight * (float)bin;
        }
    for (int side = 0; side < 4; side++) means[side] /= all[side];
}

static int place_box(struct found *found, const struct stride *s, const uint8_t *sides, int cell, int kind, int score, int start) {
    struct box *box = added(found);
    if (!box) return -1;
    float x = (float)(cell % s->width) + 0.5f, y = (float)(cell / s->width) + 0.5f, pixels = (float)s->pixels, reach[4];
    distances(s, sides, cell, reach);
    box->corners[0] = (x - reach[0]) * pixels;
    box->corners[1] = (y - reach[1]) * pixels;
    box->corners[2] = (x + reach[2]) * pixels;
    box->corners[3] = (y + reach[3]) * pixels;
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

/* A number that is the less the better the box: the score's bits, in an order of integers, then the row. */
static uint64_t key(float score, int row) {
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    bits = bits >> 31 ? bits : ~(bits | 0x80000000u);
    return (uint64_t)bits << 32 | (uint32_t)row;
}

/* Sorted keys, in ``keys`` or ``spare``: runs of twice the length at a time. */
static uint64_t *sorted(uint64_t *keys, uint64_t *spare, int count) {
    for (int width = 1; width < count; width *= 2) {
        for (int from = 0; from < count; from += 2 * width) {
            int middle = from + width < count ? from + width : count, end = middle + width < count ? middle + width : count;
            for (int one = from, other = middle, to = from; to < end; to++)
                spare[to] = other >= end || (one < middle && keys[one] < keys[other]) ? keys[one++] : keys[other++];
        }
        uint64_t *swapped = keys;
        keys = spare, spare = swapped;
    }
    return keys;
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

/* Boxes that stay, best first, to ``rows``. Each is compared with those of its kind that stayed, the last first. */
static int suppressed(const struct found *found, const struct limits *limits, struct box *rows) {
    int kinds = limits->across ? 1 : limits->classes, kept = 0;
    size_t count = (size_t)found->count;
    uint64_t *keys = malloc(2 * count * sizeof *keys + 1);
    int *last = malloc(((size_t)kinds + count) * sizeof *last), *before = last ? last + kinds : NULL;
    if (keys && last) {
        memset(last, -1, (size_t)kinds * sizeof *last);
        for (int row = 0; row < found->count; row++) keys[row] = key(found->boxes[row].score, row);
        const uint64_t *order = sorted(keys, keys + count, found->count);
        for (int n = 0; n < found->count && kept < limits->most; n++) {
            const struct box *box = &found->boxes[(uint32_t)order[n]];
            int kind = limits->across ? 0 : box->kind, other = last[kind];
            while (other >= 0 && !close_by(&rows[other], box, limits->overlap)) other = before[other];
            if (other >= 0) continue;
            before[kept] = last[kind], last[kind] = kept;
            rows[kept++] = *box;
        }
    }
    int result = keys && last ? kept : -1;
    free(keys);
    free(last);
    return result;
}

/* Rows of the best boxes in ``rows``, which has room for ``most``; how many there are, or -1 without memory. */
int rknnlite_sides(const struct stride *strides, int count, const uint8_t *const *outputs, const struct limits *limits,
                   struct box *rows) {
    struct found found = {0};
    int start = 0, result = 0;
    for (int part = 0; part < count && !result; start += strides[part++].cells)
        result = candidates(&found, &strides[part], outputs, limits->classes, limits->least + 2 * part, start);
    if (!result) result = suppressed(&found, limits, rows);
    free(found.boxes);
    return result;
}
