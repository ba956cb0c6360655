/* Matrix products: plain loops in double precision over the layouts of an RK3588 (RKNN user guide, table 3-5).

   Binding A or B takes a copy, as the genuine library repacks there: what is written later is not seen. */
#include "double.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_PRODUCTS 8
#define SEGMENT 8192
enum { INT4 = 10, BF16 = 11 };

typedef struct {
    char name[256];
    uint32_t n_dims, dims[16], size;
    int32_t type;
} matmul_tensor;

typedef struct {
    matmul_tensor A, B, C;
} matmul_io;

typedef struct {
    int32_t M, K, N;
} matmul_shape;

typedef struct {
    int32_t M, K, N, type;
    int16_t B_layout, B_quant_type, AC_layout, AC_quant_type;
    int32_t iommu_domain_id;
    int16_t group_size;
    int8_t reserved[34];
} matmul_info;

typedef struct {
    char name[256];
    float *scale;
    int32_t scale_len;
    int32_t *zp;
    int32_t zp_len;
} quant_params;

_Static_assert(sizeof(matmul_info) == 64 && sizeof(matmul_io) == 996, "layout of the C API");

typedef struct {
    int count;
    double *scale;
    int *zero;
} quant;

typedef struct {
    context base; /* tensor memory is created on it like on any context */
    matmul_info info;
    matmul_shape shapes[MAX_PRODUCTS];
    matmul_io ios[MAX_PRODUCTS];
    int n_shapes, current;
    quant q[3];
    double *a, *b;
    memory *c;
} product;

static const int types[16][3] = {
    [1] = {1, 1, 0}, [2] = {2, 2, 6}, [3] = {2, 2, 2}, [4] = {1, 1, 1}, [5] = {1, 2, 0}, [6] = {1, 2, 1},
    [7] = {1, INT4, 0}, [8] = {1, INT4, 1}, [9] = {2, 2, 0}, [10] = {INT4, INT4, 4}, [11] = {2, INT4, 6},
    [12] = {1, INT4, BF16}, [15] = {2, INT4, 1},
};

static int up(int value, int step) { return (value + step - 1) / step; }
static int bits(int type) { return type == INT4 ? 4 : type == BF16 ? 16 : 8 * (int)type_size(type); }
static int lanes(int type) { return type == INT4 ? 32 : 128 / bits(type); }
static int tile_n(int type) { return type == INT4 ? 64 : type == 1 ? 16 : 32; }

static void describe_tensor(matmul_tensor *t, const char *name, int type, int n, int d0, int d1, int d2, int d3) {
    memset(t, 0, sizeof *t);
    strcpy(t->name, name);
    t->type = type;
    t->n_dims = n;
    uint32_t dims[] = {d0, d1, d2, d3};
    memcpy(t->dims, dims, sizeof dims);
    uint64_t count = 1;
    for (int i = 0; i < n; i++) count *= dims[i];
    t->size = (count * bits(type) + 7) / 8;
}

static int fits(const product *p, const matmul_shape *s) {
    const int *t = types[p->info.type];
    if (s->M < 1 || s->K < 1 || s->N < 1) return 0;
    return s->K % 32 == 0 && s->N % (t[1] == INT4 ? 64 : 32) == 0;
}

static void describe_product(const product *p, const matmul_shape *s, matmul_io *io) {
    const int *t = types[p->info.type];
    int n = tile_n(t[1]);
    if (p->info.AC_layout) {
        describe_tensor(&io->A, "A", t[0], 3, up(s->K, lanes(t[0])), s->M, lanes(t[0]), 0);
        describe_tensor(&io->C, "C", t[2], 3, up(s->N, lanes(t[2])), s->M, lanes(t[2]), 0);
    } else {
        describe_tensor(&io->A, "A", t[0], 2, s->M, s->K, 0, 0);
        describe_tensor(&io->C, "C", t[2], 2, s->M, s->N, 0, 0);
    }
    if (p->info.B_layout == 1) describe_tensor(&io->B, "B", t[1], 4, up(s->N, n), up(s->K, 32), n, 32);
    else if (p->info.B_layout == 2) describe_tensor(&io->B, "B", t[1], 2, s->N, s->K, 0, 0);
    else describe_tensor(&io->B, "B", t[1], 2, s->K, s->N, 0, 0);
}

static product *get(rknn_context ctx) {
    product *p = (product *)(uintptr_t)ctx;
    return known(p, KIND_CONTEXT) ? p : NULL;
}

static int create(rknn_context *ctx, matmul_info *info, int n, const matmul_shape *shapes, matmul_io *ios) {
    if (!ctx || !info || !ios || n < 1 || n > MAX_PRODUCTS) return RKNN_ERR_PARAM_INVALID;
    if (info->type < 1 || info->type > 15 || types[info->type][0] == 0) return RKNN_ERR_PARAM_INVALID;
    product *p = calloc(1, sizeof *p);
    p->info = *info;
    p->n_shapes = n;
    for (int i = 0; i < 3; i++) p->q[i].count = 0;
    for (int i = 0; i < n; i++) {
        p->shapes[i] = shapes[i];
        if (!fits(p, &shapes[i])) {
            fprintf(stderr, "E RKNN: [00:00:00.000] matmul: K or N is not aligned\n");
            free(p);
            return RKNN_ERR_PARAM_INVALID;
        }
        describe_product(p, &shapes[i], &p->ios[i]);
        ios[i] = p->ios[i];
    }
    remember(p, KIND_CONTEXT);
    live(LIVE_CONTEXTS, 1);
    *ctx = (rknn_context)(uintptr_t)p;
    return RKNN_SUCC;
}

EXPORT int rknn_matmul_create(rknn_context *ctx, matmul_info *info, matmul_io *io) {
    int code = enter(ID_rknn_matmul_create);
    if (code) return code;
    matmul_shape shape = {0};
    if (info) shape = (matmul_shape){info->M, info->K, info->N};
    return create(ctx, info, 1, &shape, io);
}

EXPORT int rknn_matmul_create_dynamic_shape(rknn_context *ctx, matmul_info *info, int n, matmul_shape shapes[],
                                            matmul_io ios[]) {
    int code = enter(ID_rknn_matmul_create_dynamic_shape);
    return code ? code : create(ctx, info, n, shapes, ios);
}

static void drop(double **matrix) {
    free(*matrix);
    *matrix = NULL;
}

static void forget_memory(product *p) {
    drop(&p->a);
    drop(&p->b);
    p->c = NULL;
}

/* A matrix whose sizes stay keeps what was bound, as programs on boards rely on; the others are bound anew. */
static void follow_shape(product *p, int next) {
    matmul_shape old = p->shapes[p->current], new = p->shapes[next];
    p->current = next;
    if (old.M != new.M || old.K != new.K) drop(&p->a);
    if (old.K != new.K || old.N != new.N) drop(&p->b);
    if (old.M != new.M || old.N != new.N) p->c = NULL;
}

EXPORT int rknn_matmul_set_dynamic_shape(rknn_context ctx, matmul_shape *shape) {
    int code = enter(ID_rknn_matmul_set_dynamic_shape);
    product *p = get(ctx);
    if (code) return code;
    if (!p || !shape) return RKNN_ERR_PARAM_INVALID;
    for (int i = 0; i < p->n_shapes; i++)
        if (!memcmp(shape, &p->shapes[i], sizeof *shape)) {
            follow_shape(p, i);
            return RKNN_SUCC;
        }
    return RKNN_ERR_PARAM_INVALID;
}

EXPORT int rknn_matmul_set_core_mask(rknn_context ctx, rknn_core_mask mask) {
    int code = enter(ID_rknn_matmul_set_core_mask);
    if (code) return code;
    if (!get(ctx)) return RKNN_ERR_CTX_INVALID;
    return mask == 0xffff || (mask <= 7 && mask != 5 && mask != 6) ? RKNN_SUCC : RKNN_ERR_FAIL;
}

/* -- quantisation ----------------------------------------------------------------------------------------- */

static int index_of(const char *name) { return name[0] >= 'A' && name[0] <= 'C' && !name[1] ? name[0] - 'A' : -1; }

EXPORT int rknn_matmul_set_quant_params(rknn_context ctx, quant_params *params) {
    int code = enter(ID_rknn_matmul_set_quant_params);
    product *p = get(ctx);
    if (code) return code;
    if (!p || !params || index_of(params->name) < 0 || params->scale_len < 1 ||
        (params->zp_len && params->zp_len != params->scale_len)) /* the vendor's demo gives scales of groups alone */
        return RKNN_ERR_PARAM_INVALID;
    quant *q = &p->q[index_of(params->name)];
    q->scale = realloc(q->scale, params->scale_len * sizeof *q->scale);
    q->zero = realloc(q->zero, params->scale_len * sizeof *q->zero);
    q->count = params->scale_len;
    for (int i = 0; i < q->count; i++) {
        q->scale[i] = params->scale[i];
        q->zero[i] = params->zp_len ? params->zp[i] : 0;
    }
    return RKNN_SUCC;
}

static double largest(const quant *q) {
    double most = q->count ? q->scale[0] : 1;
    for (int i = 1; i < q->count; i++) most = fmax(most, q->scale[i]);
    return most;
}

EXPORT int rknn_matmul_get_quant_params(rknn_context ctx, quant_params *params, float *scale) {
    int code = enter(ID_rknn_matmul_get_quant_params);
    product *p = get(ctx);
    if (code) return code;
    if (!p || !scale) return RKNN_ERR_PARAM_INVALID;
    (void)params;
    *scale = largest(&p->q[1]);
    return RKNN_SUCC;
}

static int place_of(const product *p, const quant *q, int k, int n) {
    int N = p->shapes[p->current].N;
    if (q->count <= 1) return 0;
    return q->count == N ? n : k / p->info.group_size * N + n;
}
static double scale_of(const product *p, int m, int k, int n) {
    return p->q[m].count ? p->q[m].scale[place_of(p, &p->q[m], k, n)] : 1;
}
static double zero_of(const product *p, int m, int k, int n) {
    return p->q[m].count ? p->q[m].zero[place_of(p, &p->q[m], k, n)] : 0;
}

/* -- elements --------------------------------------------------------------------------------------------- */

static double element(int type, const unsigned char *data, size_t i) {
    if (type != INT4) return get_element(type, data, i);
    int half = i % 2 ? data[i / 2] >> 4 : data[i / 2] & 15;
    return half > 7 ? half - 16 : half;
}

static void store(int type, unsigned char *data, size_t i, double value) {
    if (type == BF16) {
        float real = (float)value;
        uint32_t raw;
        memcpy(&raw, &real, 4);
        raw = (raw + 0x7fff + (raw >> 16 & 1)) >> 16;
        put_element(RKNN_TENSOR_UINT16, data, i, raw);
        return;
    }
    if (type == RKNN_TENSOR_INT16) value = fmin(fmax(rint(value), -32768), 32767);
    if (type == RKNN_TENSOR_INT32) value = rint(value);
    put_element(type, data, i, value);
}

static size_t lane_place(const matmul_tensor *t, int row, int column) {
    if (t->n_dims == 2) return (size_t)row * t->dims[1] + column;
    return ((size_t)(column / t->dims[2]) * t->dims[1] + row) * t->dims[2] + column % t->dims[2];
}

static size_t tile_place(const product *p, const matmul_tensor *t, int k, int n) {
    if (t->n_dims == 2) return p->info.B_layout == 2 ? (size_t)n * t->dims[1] + k : (size_t)k * t->dims[1] + n;
    int K = p->shapes[p->current].K, first = k / SEGMENT * SEGMENT;
    int rows = K - first < SEGMENT ? K - first : SEGMENT, tn = t->dims[2], tk = t->dims[3];
    size_t start = (size_t)first * t->dims[0] * tn;
    k -= first;
    return start + (((size_t)(n / tn) * up(rows, tk) + k / tk) * tn + n % tn) * tk + k % tk;
}

static void take(product *p, int m, const unsigned char *data) {
    matmul_shape s = p->shapes[p->current];
    const matmul_tensor *t = m ? &p->ios[p->current].B : &p->ios[p->current].A;
    int rows = m ? s.K : s.M, columns = m ? s.N : s.K;
    double **to = m ? &p->b : &p->a;
    *to = realloc(*to, (size_t)rows * columns * sizeof **to);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            size_t from = m ? tile_place(p, t, r, c) : lane_place(t, r, c);
            (*to)[(size_t)r * columns + c] = element(t->type, data, from);
        }
}

EXPORT int rknn_matmul_set_io_mem(rknn_context ctx, rknn_tensor_mem *mem, matmul_tensor *attr) {
    int code = enter(ID_rknn_matmul_set_io_mem);
    product *p = get(ctx);
    if (code) return code;
    if (!p || !attr || !known(mem, KIND_MEMORY)) return RKNN_ERR_PARAM_INVALID;
    int m = index_of(attr->name);
    matmul_io *io = &p->ios[p->current];
    const matmul_tensor *t = m == 0 ? &io->A : m == 1 ? &io->B : &io->C;
    if (m < 0 || memcmp(t, attr, sizeof *t) || mem->size < t->size) return RKNN_ERR_PARAM_INVALID;
    if (m == 2) p->c = (memory *)mem;
    else take(p, m, (unsigned char *)mem->virt_addr + mem->offset);
    return RKNN_SUCC;
}

EXPORT int rknn_matmul_run(rknn_context ctx) {
    int code = enter(ID_rknn_matmul_run);
    product *p = get(ctx);
    if (code) return code;
    if (!p || !p->a || !p->b || !p->c) return RKNN_ERR_FAIL;
    known(p->c, KIND_MEMORY);
    int64_t started = now_us();
    matmul_shape s = p->shapes[p->current];
    const matmul_tensor *t = &p->ios[p->current].C;
    unsigned char *out = (unsigned char *)p->c->mem.virt_addr + p->c->mem.offset;
    int wide = t->type == RKNN_TENSOR_INT32 || t->type == RKNN_TENSOR_INT16, per_layer = p->info.B_quant_type == 0;
    double most = wide ? largest(&p->q[1]) : 1;
    for (int m = 0; m < s.M; m++)
        for (int n = 0; n < s.N; n++) {
            double sum = 0;
            for (int k = 0; k < s.K; k++) {
                double unit = scale_of(p, 1, k, n);
                if (wide) unit = per_layer ? 1 : unit / most;
                sum += (p->a[(size_t)m * s.K + k] - zero_of(p, 0, k, n)) *
                       (p->b[(size_t)k * s.N + n] - zero_of(p, 1, k, n)) * unit;
            }
            if (!wide) sum *= scale_of(p, 0, 0, 0);
            if (t->type == RKNN_TENSOR_INT8) sum = rint(sum / scale_of(p, 2, 0, 0)) + zero_of(p, 2, 0, 0);
            store(t->type, out, lane_place(t, m, n), sum);
        }
    sleep_until_us(started + extra_latency_us);
    return RKNN_SUCC;
}

EXPORT int rknn_matmul_destroy(rknn_context ctx) {
    int code = enter(ID_rknn_matmul_destroy);
    product *p = get(ctx);
    if (!p) return RKNN_ERR_CTX_INVALID;
    if (p->base.children) live(MISORDERED, 1);
    forget_memory(p);
    for (int i = 0; i < 3; i++) {
        free(p->q[i].scale);
        free(p->q[i].zero);
    }
    forget(p);
    free(p);
    live(LIVE_CONTEXTS, -1);
    return code;
}
