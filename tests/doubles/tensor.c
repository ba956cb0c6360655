/* Elements, layouts and attributes. Logical order of rank 4 is NCHW for inputs and outputs alike. */
#include "double.h"

#include <math.h>
#include <string.h>

uint32_t type_size(rknn_tensor_type type) {
    static const uint32_t sizes[] = {4, 2, 1, 1, 2, 2, 4, 4, 8, 1};
    return type < sizeof sizes / sizeof *sizes ? sizes[type] : 1;
}

size_t elements(const tensor *t) {
    size_t count = 1;
    for (uint32_t i = 0; i < t->rank; i++) count *= t->dims[i];
    return count;
}

uint32_t c2_of(rknn_tensor_type type) { return type_size(type) == 1 ? 16 : 8; }

double get_element(rknn_tensor_type type, const unsigned char *data, size_t index) {
    switch (type) {
    case RKNN_TENSOR_FLOAT32: return ((const float *)data)[index];
    case RKNN_TENSOR_FLOAT16: return ((const _Float16 *)data)[index];
    case RKNN_TENSOR_INT8: return ((const int8_t *)data)[index];
    case RKNN_TENSOR_INT16: return ((const int16_t *)data)[index];
    case RKNN_TENSOR_UINT16: return ((const uint16_t *)data)[index];
    case RKNN_TENSOR_INT32: return ((const int32_t *)data)[index];
    case RKNN_TENSOR_UINT32: return ((const uint32_t *)data)[index];
    case RKNN_TENSOR_INT64: return ((const int64_t *)data)[index];
    default: return data[index];
    }
}

void put_element(rknn_tensor_type type, unsigned char *data, size_t index, double value) {
    switch (type) {
    case RKNN_TENSOR_FLOAT32: ((float *)data)[index] = value; break;
    case RKNN_TENSOR_FLOAT16: ((_Float16 *)data)[index] = (_Float16)value; break;
    case RKNN_TENSOR_INT8: ((int8_t *)data)[index] = fmin(fmax(rint(value), -128), 127); break;
    case RKNN_TENSOR_INT16: ((int16_t *)data)[index] = value; break;
    case RKNN_TENSOR_UINT16: ((uint16_t *)data)[index] = value; break;
    case RKNN_TENSOR_INT32: ((int32_t *)data)[index] = value; break;
    case RKNN_TENSOR_UINT32: ((uint32_t *)data)[index] = value; break;
    case RKNN_TENSOR_INT64: ((int64_t *)data)[index] = value; break;
    default: data[index] = fmin(fmax(rint(value), 0), 255);
    }
}

/* Real value -> what the tensor stores, as a number. */
double quantise(const tensor *t, double real) {
    if (t->quantised) {
        double low = t->type == RKNN_TENSOR_UINT8 ? 0 : -128;
        return fmin(fmax(rint((float)real / t->scale) + t->zp, low), low + 255);
    }
    return t->type == RKNN_TENSOR_FLOAT16 ? (double)(_Float16)real : real;
}

double real_of(const tensor *t, double stored) {
    return t->quantised ? (double)(((float)stored - t->zp) * t->scale) : stored;
}

static uint32_t up(uint32_t value, uint32_t to) { return (value + to - 1) / to * to; }

/* Index of a logical element (NCHW order) in a buffer. */
size_t where(const tensor *t, const placing *p, size_t logical, int dims_are_nhwc) {
    if (t->rank != 4 || p->fmt == RKNN_TENSOR_UNDEFINED) return logical;
    uint32_t C = t->dims[dims_are_nhwc ? 3 : 1], H = t->dims[dims_are_nhwc ? 1 : 2];
    uint32_t W = t->dims[dims_are_nhwc ? 2 : 3], stride = p->w_stride ? p->w_stride : W;
    size_t w = logical % W, h = logical / W % H, c = logical / W / H % C, n = logical / W / H / C;
    uint32_t c2 = p->c2 ? p->c2 : c2_of(p->type), c1 = (C + c2 - 1) / c2;
    switch (p->fmt) {
    case RKNN_TENSOR_NHWC: return ((n * H + h) * stride + w) * C + c;
    case RKNN_TENSOR_NC1HWC2: {
        uint32_t surface = dims_are_nhwc ? H * W : up(H * W, 4); /* of outputs: positions are padded */
        return ((n * c1 + c / c2) * surface + h * W + w) * c2 + c % c2;
    }
    default: return logical;
    }
}

/* Bytes of a tensor as the NPU keeps it. */
size_t stored_size(const tensor *t) {
    if (t->rank == 4 && t->native) {
        uint32_t c2 = c2_of(t->type);
        return (size_t)t->dims[0] * up(t->dims[1], c2) * up(t->dims[2] * t->dims[3], 4) * type_size(t->type);
    }
    return elements(t) * type_size(t->type);
}

static void set_dims(rknn_tensor_attr *attr, rknn_tensor_format fmt, uint32_t n, const uint32_t *dims) {
    attr->fmt = fmt;
    attr->n_dims = n;
    memcpy(attr->dims, dims, n * sizeof *dims);
    attr->n_elems = 1;
    for (uint32_t i = 0; i < n; i++) attr->n_elems *= dims[i];
}

static int wants_native(rknn_query_cmd cmd) {
    return cmd == RKNN_QUERY_NATIVE_INPUT_ATTR || cmd == RKNN_QUERY_NATIVE_OUTPUT_ATTR ||
           cmd == RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR || cmd == RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR;
}

static int wants_nhwc(rknn_query_cmd cmd) {
    return cmd == RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR || cmd == RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR ||
           cmd == RKNN_QUERY_CURRENT_OUTPUT_ATTR;
}

void describe(const tensor *t, uint32_t index, int is_input, rknn_query_cmd cmd, rknn_tensor_attr *attr) {
    memset(attr, 0, sizeof *attr);
    attr->index = index;
    memcpy(attr->name, t->name, sizeof attr->name);
    attr->type = t->type;
    int affine = t->quantised || t->type == RKNN_TENSOR_FLOAT16; /* then with scale 1 and zero point 0 */
    attr->qnt_type = affine ? RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC : RKNN_TENSOR_QNT_NONE;
    attr->scale = t->scale;
    attr->zp = t->zp;
    uint32_t width = 0;
    if (t->rank != 4) {
        set_dims(attr, RKNN_TENSOR_UNDEFINED, t->rank, t->dims);
    } else {
        const uint32_t *d = t->dims;
        uint32_t N = d[0], C = is_input ? d[3] : d[1], H = is_input ? d[1] : d[2], W = is_input ? d[2] : d[3];
        uint32_t nchw[] = {N, C, H, W}, nhwc[] = {N, H, W, C}, c2 = c2_of(t->type);
        uint32_t native[] = {N, (C + c2 - 1) / c2, H, W, c2};
        if (!is_input && H * W % 4) native[2] = 1, native[3] = up(H * W, 4);
        int image = C == 1 || C == 3 || C == 4;
        if (wants_native(cmd) && (is_input ? !image : t->native)) {
            set_dims(attr, RKNN_TENSOR_NC1HWC2, 5, native);
        } else if (is_input || wants_nhwc(cmd)) {
            set_dims(attr, RKNN_TENSOR_NHWC, 4, nhwc);
            if (is_input && wants_native(cmd)) width = up(W, 16);
        } else {
            set_dims(attr, RKNN_TENSOR_NCHW, 4, nchw);
        }
        attr->w_stride = width ? width : is_input && wants_native(cmd) ? W : 0;
        attr->size_with_stride = width ? N * H * width * C * type_size(t->type) : 0;
    }
    attr->size = attr->n_elems * type_size(t->type);
    if (!attr->size_with_stride) attr->size_with_stride = attr->size;
}

tensor input_of(const context *c, uint32_t index) {
    tensor t = c->net->in[index];
    if (c->net->n_shapes) memcpy(t.dims, c->net->in_dims[c->shape][index], sizeof t.dims);
    return t;
}

tensor output_of(const context *c, uint32_t index) {
    tensor t = c->net->out[index];
    if (c->net->n_shapes) memcpy(t.dims, c->net->out_dims[c->shape][index], sizeof t.dims);
    return t;
}

/* How data lie that a program describes with an attribute. */
void place(const tensor *t, const rknn_tensor_attr *attr, int is_input, placing *p) {
    p->type = attr->type;
    p->fmt = attr->fmt;
    p->pass_through = attr->pass_through || attr->type == t->type;
    p->w_stride = 0;
    p->c2 = attr->fmt == RKNN_TENSOR_NC1HWC2 ? attr->dims[4] : 0; /* another type keeps the layout's lanes */
    uint32_t C = t->rank == 4 ? t->dims[is_input ? 3 : 1] : 0;
    if (is_input && (C == 1 || C == 3 || C == 4) && type_size(attr->type) == type_size(t->type))
        p->w_stride = up(t->dims[2], 16);
}
