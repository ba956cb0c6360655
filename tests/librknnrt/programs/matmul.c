/* matmul: C = A * B in three pairs of types and three pairs of layouts, transposed B, and the host's own packing. */
#include "products.h"

typedef struct {
    rknn_matmul_type type;
    int M, K, N, limit;
} Kind;

static rknn_tensor_mem *bound(rknn_matmul_ctx context, rknn_matmul_tensor_attr *attr)
{
    rknn_tensor_mem *mem = rknn_create_mem(context, attr->size);
    CHECK(mem && mem->virt_addr && mem->size >= attr->size && mem->fd >= 0);
    return mem;
}

static void product(const Kind *kind, int b_layout, int ac_layout)
{
    rknn_matmul_info info;
    rknn_matmul_io_attr io;
    rknn_matmul_ctx context = 0;
    rknn_matmul_shape shape = {kind->M, kind->K, kind->N};
    memset(&info, 0, sizeof info);
    memset(&io, 0, sizeof io);
    info.M = kind->M;
    info.K = kind->K;
    info.N = kind->N;
    info.type = kind->type;
    info.B_layout = (int16_t)b_layout;
    info.AC_layout = (int16_t)ac_layout;
    OK(rknn_matmul_create(&context, &info, &io));
    CHECK(io.A.n_dims == (ac_layout ? 3u : 2u) && io.C.n_dims == io.A.n_dims);
    CHECK(io.B.n_dims == (b_layout == RKNN_MM_LAYOUT_NATIVE ? 4u : 2u));
    OK(rknn_matmul_set_core_mask(context, RKNN_NPU_CORE_0));

    rknn_tensor_mem *a = bound(context, &io.A), *b = bound(context, &io.B), *c = bound(context, &io.C);
    for (unsigned round = 1; round < 3; round++) { /* memory is bound again after every refill */
        fill_a(a->virt_addr, &io.A, kind->M, kind->K, round, kind->limit);
        fill_b(b->virt_addr, &io.B, b_layout, kind->K, kind->N, round + 7, kind->limit);
        OK(rknn_matmul_set_io_mem(context, a, &io.A));
        OK(rknn_matmul_set_io_mem(context, b, &io.B));
        OK(rknn_matmul_set_io_mem(context, c, &io.C));
        OK(rknn_matmul_run(context));
        check_product(c->virt_addr, &io.C, shape, round, round + 7, kind->limit);
    }
    if (b_layout == RKNN_MM_LAYOUT_NATIVE && io.B.type != RKNN_TENSOR_INT4) { /* the function packs as the loops above do */
        rknn_matmul_tensor_attr plain = io.B;
        plain.n_dims = 2;
        plain.dims[0] = (uint32_t)kind->K;
        plain.dims[1] = (uint32_t)kind->N;
        void *normal = malloc(io.B.size), *packed = calloc(1, io.B.size);
        CHECK(normal && packed);
        fill_b(normal, &plain, RKNN_MM_LAYOUT_NORM, kind->K, kind->N, 9, kind->limit);
        OK(rknn_B_normal_layout_to_native_layout(normal, packed, kind->K, kind->N, &info));
        CHECK(!memcmp(packed, b->virt_addr, io.B.size));
        free(normal);
        free(packed);
    }
    OK(rknn_destroy_mem(context, a));
    OK(rknn_destroy_mem(context, b));
    OK(rknn_destroy_mem(context, c));
    OK(rknn_matmul_destroy(context));
    FAILS(rknn_matmul_run(context));
}

/* A scale per column of B, given once for shapes of which the first has fewer columns; powers of two, so sums are exact. */
static void quantised(void)
{
    enum { M = 3, K = 64, LIMIT = 9, COLUMNS = 64 };
    rknn_matmul_shape shapes[] = {{M, K, 32}, {M, K, COLUMNS}};
    rknn_matmul_info info;
    rknn_matmul_io_attr io[2];
    rknn_matmul_ctx context = 0;
    float scales[COLUMNS], largest = 0;
    for (int n = 0; n < COLUMNS; n++)
        scales[n] = 1.0f / (float)(2 << n % 5);
    memset(&info, 0, sizeof info);
    info.M = M, info.K = K, info.N = COLUMNS;
    info.type = RKNN_INT8_MM_INT8_TO_FLOAT32;
    info.B_layout = RKNN_MM_LAYOUT_TP_NORM;
    info.B_quant_type = RKNN_QUANT_TYPE_PER_CHANNEL_SYM;
    OK(rknn_matmul_create_dynamic_shape(&context, &info, 2, shapes, io));

    rknn_quant_params params;
    memset(&params, 0, sizeof params);
    memcpy(params.name, io[0].B.name, sizeof params.name);
    params.scale = scales;
    params.scale_len = COLUMNS;
    OK(rknn_matmul_set_quant_params(context, &params));
    OK(rknn_matmul_get_quant_params(context, &params, &largest));
    CHECK(largest == 0.5f);
    memset(&params, 0, sizeof params); /* as programs leave it */
    OK(rknn_matmul_get_quant_params(context, &params, &largest));
    strcpy(params.name, "A");
    FAILS(rknn_matmul_get_quant_params(context, &params, &largest));

    rknn_tensor_mem *a = bound(context, &io[1].A), *b = bound(context, &io[1].B), *c = bound(context, &io[1].C);
    for (int i = 0; i < 2; i++) {
        int N = shapes[i].N;
        OK(rknn_matmul_set_dynamic_shape(context, &shapes[i]));
        fill_a(a->virt_addr, &io[i].A, M, K, 5, LIMIT);
        fill_b(b->virt_addr, &io[i].B, info.B_layout, K, N, 6, LIMIT);
        OK(rknn_matmul_set_io_mem(context, a, &io[i].A));
        OK(rknn_matmul_set_io_mem(context, b, &io[i].B));
        OK(rknn_matmul_set_io_mem(context, c, &io[i].C));
        OK(rknn_matmul_run(context));
        for (int m = 0; m < M; m++)
            for (int n = 0; n < N; n++) {
                int sum = 0;
                for (int k = 0; k < K; k++)
                    sum += number_at(5, m * K + k, LIMIT) * number_at(6, k * N + n, LIMIT);
                CHECK(((const float *)c->virt_addr)[m * N + n] == (float)sum * scales[n]);
            }
    }
    OK(rknn_destroy_mem(context, a));
    OK(rknn_destroy_mem(context, b));
    OK(rknn_destroy_mem(context, c));
    OK(rknn_matmul_destroy(context));
}

int main(void)
{
    static const Kind kinds[] = {
        {RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32, 4, 64, 32, 40},
        {RKNN_INT8_MM_INT8_TO_INT32, 7, 96, 64, 127},
        {RKNN_INT4_MM_INT4_TO_INT16, 8, 64, 128, 7},
    };
    static const int layouts[][2] = {
        {RKNN_MM_LAYOUT_NORM, RKNN_MM_LAYOUT_NORM},
        {RKNN_MM_LAYOUT_NATIVE, RKNN_MM_LAYOUT_NORM},
        {RKNN_MM_LAYOUT_NATIVE, RKNN_MM_LAYOUT_NATIVE},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (size_t j = 0; j < sizeof layouts / sizeof *layouts; j++) {
            product(&kinds[i], layouts[j][0], layouts[j][1]);
            printf("%s, B %d, AC %d\n", get_matmul_type_string(kinds[i].type), layouts[j][0], layouts[j][1]);
        }
    product(&kinds[0], RKNN_MM_LAYOUT_TP_NORM, RKNN_MM_LAYOUT_NORM);
    product(&kinds[1], RKNN_MM_LAYOUT_TP_NORM, RKNN_MM_LAYOUT_NATIVE);
    quantised();

    rknn_matmul_info info;
    rknn_matmul_io_attr io;
    rknn_matmul_ctx context = 0;
    memset(&info, 0, sizeof info);
    info.M = 4, info.K = 33, info.N = 64, info.type = RKNN_INT8_MM_INT8_TO_INT32; /* K is no multiple of 32 */
    FAILS(rknn_matmul_create(&context, &info, &io));
    FAILS(rknn_matmul_create(NULL, &info, &io));
    return 0;
}
