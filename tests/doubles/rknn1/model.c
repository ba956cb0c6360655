/* What a model of the double is: a field "double" among the JSON of a genuine container, read as words; and tensors.

   "in NAME TYPE QNT FMT SCALE ZP FL RANK DIMS...; out ...; affine A B; us N" with numbers for types, dims outermost
   first. Every output holds A * (first input) + B + its index. */
#include "double1.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int parse_tensor(char *words, tensor *t) {
    int used = 0;
    if (sscanf(words, "%255s %d %d %d %f %u %d %u%n", t->name, &t->type, &t->qnt, &t->fmt, &t->scale, &t->zp, &t->fl,
               &t->rank, &used) != 8 || t->rank > 16)
        return 0;
    for (uint32_t i = 0; i < t->rank; i++) {
        int more = 0;
        words += used;
        if (sscanf(words, "%u%n", &t->dims[i], &more) != 1) return 0;
        used = more;
    }
    return 1;
}

int parse_model(context *c, const unsigned char *data, uint32_t size) {
    static const char mark[] = "\"double\": \"";
    if (size < 24 || memcmp(data, "RKNN", 4)) return -6;
    const char *found = memmem(data, size, mark, sizeof mark - 1);
    if (!found) return -6;
    char text[4096], *rest = NULL;
    snprintf(text, sizeof text, "%s", found + sizeof mark - 1);
    *strchrnul(text, '"') = 0;
    c->a = 1;
    for (char *part = strtok_r(text, ";", &rest); part; part = strtok_r(NULL, ";", &rest)) {
        part += strspn(part, " ");
        if (!strncmp(part, "in ", 3) && c->n_in < MAX_IO) {
            if (!parse_tensor(part + 3, &c->in[c->n_in++])) return -6;
        } else if (!strncmp(part, "out ", 4) && c->n_out < MAX_IO) {
            if (!parse_tensor(part + 4, &c->out[c->n_out++])) return -6;
        } else if (sscanf(part, "affine %lf %lf", &c->a, &c->b) != 2 && sscanf(part, "us %" SCNd64, &c->latency_us) != 1) {
            return -6;
        }
    }
    return c->n_in && c->n_out ? 0 : -6;
}

uint32_t width_of(int type) { return type == FLOAT32 ? 4 : type == FLOAT16 || type == INT16 ? 2 : 1; }

uint32_t elements(const tensor *t) {
    uint32_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) n *= t->dims[i];
    return n;
}

uint32_t stored_size(const tensor *t) { return elements(t) * width_of(t->type); }

double load(int type, const unsigned char *data, uint32_t index) {
    switch (type) {
    case FLOAT32: return ((const float *)data)[index];
    case FLOAT16: return (double)((const _Float16 *)data)[index];
    case INT8: return ((const int8_t *)data)[index];
    case UINT8: return data[index];
    default: return ((const int16_t *)data)[index];
    }
}

static double clip(double value, double low, double high) { return value < low ? low : value > high ? high : value; }

void store(const tensor *t, unsigned char *data, uint32_t index, double real) {
    double q = real;
    if (t->qnt == QNT_AFFINE) q = nearbyint(real / t->scale) + t->zp;
    if (t->qnt == QNT_DFP) q = nearbyint(ldexp(real, t->fl));
    switch (t->type) {
    case FLOAT32: ((float *)data)[index] = (float)q; break;
    case FLOAT16: ((_Float16 *)data)[index] = (_Float16)q; break;
    case INT8: ((int8_t *)data)[index] = (int8_t)clip(q, -128, 127); break;
    case UINT8: data[index] = (unsigned char)clip(q, 0, 255); break;
    default: ((int16_t *)data)[index] = (int16_t)clip(q, -32768, 32767);
    }
}

double real_of(const tensor *t, const unsigned char *data, uint32_t index) {
    double q = load(t->type, data, index);
    if (t->qnt == QNT_AFFINE) return (q - t->zp) * t->scale;
    return t->qnt == QNT_DFP ? ldexp(q, -t->fl) : q;
}
