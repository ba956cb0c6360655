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

    rknn_matmul_info info;
    rknn_matmul_io_attr io;
    rknn_matmul_ctx context = 0;
    memset(&info, 0, sizeof info);
    info.M = 4, info.K = 33, info.N = 64, info.type = RKNN_INT8_MM_INT8_TO_INT32; /* K is no multiple of 32 */
    FAILS(rknn_matmul_create(&context, &info, &io));
    FAILS(rknn_matmul_create(NULL, &info, &io));
    return 0;
}
