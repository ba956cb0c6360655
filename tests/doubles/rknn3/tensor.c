/* Elements of tensors: where they lie and what they are worth. */
#include "double3.h"

#include <math.h>
#include <string.h>

size_t type_size(rknn3_tensor_type type) {
    static const unsigned char sizes[] = {4, 2, 1, 1, 2, 2, 4, 4, 8, 8, 1, 1};
    return sizes[type];
}

static uint32_t lanes(const tensor *t) { return type_size(t->type) == 1 ? 32 : 16; }

size_t elements(const tensor *t) {
    size_t count = 1;
    for (uint32_t i = 0; i < t->rank; i++) count *= t->dims[i];
    return count;
}

static void native_shape(const tensor *t, uint32_t *shape, uint32_t *rank) {
    memcpy(shape, t->dims, sizeof t->dims);
    *rank = t->rank;
    if (t->layout != RKNN3_TENSOR_NC1HWC2) return;
    uint32_t c2 = lanes(t);
    uint32_t five[5] = {t->dims[0], (t->dims[1] + c2 - 1) / c2, t->dims[2], t->dims[3], c2};
    memcpy(shape, five, sizeof five);
    *rank = 5;
}

size_t stored_size(const tensor *t) {
    uint32_t shape[16], rank;
    size_t count = type_size(t->type);
    native_shape(t, shape, &rank);
    for (uint32_t i = 0; i < rank; i++) count *= shape[i];
    return (count + 63) / 64 * 64;
}

/* Position in memory of the element that has this position in logical order, which is NCHW for images. */
size_t place(const tensor *t, size_t i) {
    if (t->rank != 4 || (t->layout != RKNN3_TENSOR_NHWC && t->layout != RKNN3_TENSOR_NC1HWC2)) return i;
    int nhwc = t->layout == RKNN3_TENSOR_NHWC;
    size_t C = t->dims[nhwc ? 3 : 1], H = t->dims[nhwc ? 1 : 2], W = t->dims[nhwc ? 2 : 3];
    size_t w = i % W, h = i / W % H, c = i / W / H % C, n = i / W / H / C, c2 = lanes(t);
    if (nhwc) return ((n * H + h) * W + w) * C + c;
    return (((n * ((C + c2 - 1) / c2) + c / c2) * H + h) * W + w) * c2 + c % c2;
}

float float_of(float16 half) {
    int sign = half >> 15, exponent = half >> 10 & 31, fraction = half & 1023;
    double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(1024 + fraction, exponent - 25);
    return sign ? -value : value;
}

float16 half_of(float value) {
    if (isnan(value)) return 0x7e00;
    float16 sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    if (size < ldexp(1, -14)) return sign | (float16)nearbyint(ldexp(size, 24));
    int exponent;
    double fraction = frexp(size, &exponent); /* 0.5 .. 1 */
    int mantissa = (int)nearbyint(fraction * 2048), scale = exponent + 14;
    if (mantissa == 2048) mantissa = 1024, scale++;
    return scale > 30 ? sign | 0x7c00 : sign | (float16)(scale << 10 | (mantissa & 1023));
}

static double load(rknn3_tensor_type type, const unsigned char *p) {
    switch (type) {
    case RKNN3_TENSOR_FLOAT32: return *(const float *)p;
    case RKNN3_TENSOR_FLOAT16: return float_of(*(const float16 *)p);
    case RKNN3_TENSOR_INT16: return *(const int16_t *)p;
    case RKNN3_TENSOR_UINT16: return *(const uint16_t *)p;
    case RKNN3_TENSOR_INT32: return *(const int32_t *)p;
    case RKNN3_TENSOR_UINT32: return *(const uint32_t *)p;
    case RKNN3_TENSOR_INT64: return *(const int64_t *)p;
    case RKNN3_TENSOR_UINT64: return *(const uint64_t *)p;
    case RKNN3_TENSOR_UINT8:
    case RKNN3_TENSOR_BOOL: return *p;
    default: return *(const int8_t *)p;
    }
}

static double clamp(double value, double low, double high) {
    return value < low ? low : value > high ? high : value;
}

static void store(rknn3_tensor_type type, unsigned char *p, double v) {
    switch (type) {
    case RKNN3_TENSOR_FLOAT32: *(float *)p = v; break;
    case RKNN3_TENSOR_FLOAT16: *(float16 *)p = half_of(v); break;
    case RKNN3_TENSOR_INT16: *(int16_t *)p = clamp(nearbyint(v), -32768, 32767); break;
    case RKNN3_TENSOR_UINT16: *(uint16_t *)p = clamp(nearbyint(v), 0, 65535); break;
    case RKNN3_TENSOR_INT32: *(int32_t *)p = nearbyint(v); break;
    case RKNN3_TENSOR_UINT32: *(uint32_t *)p = nearbyint(v); break;
    case RKNN3_TENSOR_INT64: *(int64_t *)p = nearbyint(v); break;
    case RKNN3_TENSOR_UINT64: *(uint64_t *)p = nearbyint(v); break;
    case RKNN3_TENSOR_BOOL: *p = v != 0; break;
    case RKNN3_TENSOR_UINT8: *p = clamp(nearbyint(v), 0, 255); break;
    default: *(int8_t *)p = clamp(nearbyint(v), -128, 127);
    }
}

double read_real(const tensor *t, const unsigned char *data, size_t i) {
    double raw = load(t->type, data + place(t, i) * type_size(t->type));
    return t->quantised ? (raw - t->zp) * t->scale : raw;
}

void write_real(const tensor *t, unsigned char *data, size_t i, double v) {
    store(t->type, data + place(t, i) * type_size(t->type), t->quantised ? v / t->scale + t->zp : v);
}

/* The attribute that the caller has to follow; with origin the shape as the network was written. */
void describe(const tensor *t, uint32_t index, int origin, rknn3_tensor_attr *attr) {
    memset(attr, 0, sizeof *attr);
    attr->index = index;
    memcpy(attr->name, t->name, sizeof attr->name);
    attr->layout = t->layout;
    native_shape(t, attr->shape, &attr->n_dims);
    if (origin && t->layout == RKNN3_TENSOR_NC1HWC2) {
        attr->layout = RKNN3_TENSOR_NCHW;
        memcpy(attr->shape, t->dims, sizeof t->dims);
        attr->n_dims = t->rank;
    }
    attr->aligned_size = stored_size(t);
    attr->n_stride = attr->n_dims;
    attr->n_elems = 1;
    for (uint32_t i = attr->n_dims; i-- > 0;) {
        attr->stride[i] = attr->n_elems;
        attr->n_elems *= attr->shape[i];
    }
    attr->dtype = t->type;
    attr->qnt_type = t->quantised ? RKNN3_TENSOR_PER_LAYER_ASYMMETRIC : RKNN3_TENSOR_QNT_NONE;
    attr->qnt_info.scale = t->scale;
    attr->qnt_info.zero_point = t->zp;
    attr->core_id = t->core;
#ifdef LATER
    attr->n_orig_dims = t->rank;
    memcpy(attr->orig_shape, t->dims, sizeof t->dims);
    attr->orig_layout = t->layout == RKNN3_TENSOR_NC1HWC2 ? RKNN3_TENSOR_NCHW : t->layout;
#endif
}
