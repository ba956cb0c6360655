/* matmul_dynamic: one context for several M; B is bound once before the loop, A and C for each shape. */
#include "products.h"

int main(void)
{
    enum { SHAPES = 3, K = 64, N = 64, LIMIT = 100 };
    rknn_matmul_shape shapes[SHAPES] = {{1, K, N}, {5, K, N}, {32, K, N}};
    for (int native = 0; native < 2; native++) {
        rknn_matmul_info info;
        rknn_matmul_io_attr io[SHAPES];
        rknn_matmul_ctx context = 0;
        memset(&info, 0, sizeof info);
        memset(io, 0, sizeof io);
        info.type = RKNN_INT8_MM_INT8_TO_INT32;
        info.B_layout = info.AC_layout = (int16_t)native;
        OK(rknn_matmul_create_dynamic_shape(&context, &info, SHAPES, shapes, io));

        uint32_t size_a = 0, size_c = 0;
        for (int i = 0; i < SHAPES; i++) {
            CHECK(io[i].B.size == io[0].B.size && io[i].B.type == RKNN_TENSOR_INT8 && io[i].C.type == RKNN_TENSOR_INT32);
            size_a = io[i].A.size > size_a ? io[i].A.size : size_a;
            size_c = io[i].C.size > size_c ? io[i].C.size : size_c;
        }
        rknn_tensor_mem *a = rknn_create_mem(context, size_a), *b = rknn_create_mem(context, io[0].B.size),
                        *c = rknn_create_mem(context, size_c);
        CHECK(a && b && c);
        fill_b(b->virt_addr, &io[0].B, native, K, N, 3, LIMIT);
        OK(rknn_matmul_set_io_mem(context, b, &io[0].B));

        for (int round = 0; round < 2 * SHAPES; round++) {
            int i = (round * 2) % SHAPES; /* 0 2 1 0 2 1: up and down */
            OK(rknn_matmul_set_dynamic_shape(context, &shapes[i]));
            fill_a(a->virt_addr, &io[i].A, shapes[i].M, K, (unsigned)round, LIMIT);
            OK(rknn_matmul_set_io_mem(context, a, &io[i].A));
            OK(rknn_matmul_set_io_mem(context, c, &io[i].C));
            OK(rknn_matmul_run(context));
            check_product(c->virt_addr, &io[i].C, shapes[i], (unsigned)round, 3, LIMIT);
        }
        rknn_matmul_shape unknown = {7, K, N};
        FAILS(rknn_matmul_set_dynamic_shape(context, &unknown));
        OK(rknn_destroy_mem(context, a));
        OK(rknn_destroy_mem(context, b));
        OK(rknn_destroy_mem(context, c));
        OK(rknn_matmul_destroy(context));
    }
    return 0;
}
