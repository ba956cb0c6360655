/* Matrix products: contexts of their own kind, on memory as other contexts use it. */
#include "rknnrt.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int create(const char *function, rknn_matmul_ctx *ctx, rknn_matmul_info *info, int count,
                  rknn_matmul_shape *shapes, rknn_matmul_io_attr *attrs)
{
    int code = 0;
    if (!ctx || !info || !attrs || count < 1 || count > RKNN_MAX_DYNAMIC_SHAPE_NUM)
        return failed(function, RKNN_ERR_PARAM_INVALID, "an argument is NULL, or %d shapes are none", count);
    struct channel *channel = channel_open(function, &library_hooks, &code);
    if (!channel)
        return code;
    size_t size = sizeof *info + (size_t)count * sizeof *shapes;
    char *payload = malloc(size);
    if (payload) {
        memcpy(payload, info, sizeof *info);
        memcpy(payload + sizeof *info, shapes, (size_t)count * sizeof *shapes);
    }
    struct talk talk = {.function = function, .call = CALL_MATMUL, .args = {(uint64_t)count}, .payload = payload, .size = size};
    code = payload ? channel_talk(channel, &talk) : RKNN_ERR_MALLOC_FAIL;
    if (!code && talk.answer_size == (size_t)count * sizeof *attrs) {
        memcpy(attrs, talk.answer, talk.answer_size);
        channel->matmul = true;
        channel_publish(channel);
        *ctx = (rknn_matmul_ctx)channel->id;
        channel_let_go(channel);
    } else {
        channel_drop(channel);
    }
    free(talk.answer);
    free(payload);
    return code;
}

FULL int rknn_matmul_create(rknn_matmul_ctx *ctx, rknn_matmul_info *info, rknn_matmul_io_attr *io_attr)
{
    rknn_matmul_shape shape = {0, 0, 0};
    if (info) {
        shape.M = info->M;
        shape.K = info->K;
        shape.N = info->N;
    }
    return create("rknn_matmul_create", ctx, info, 1, &shape, io_attr);
}

FULL int rknn_matmul_create_dynamic_shape(rknn_matmul_ctx *ctx, rknn_matmul_info *info, int shape_num,
                                            rknn_matmul_shape dynamic_shapes[], rknn_matmul_io_attr io_attrs[])
{
    if (!dynamic_shapes)
        return failed("rknn_matmul_create_dynamic_shape", RKNN_ERR_PARAM_INVALID, "dynamic_shapes is NULL");
    return create("rknn_matmul_create_dynamic_shape", ctx, info, shape_num, dynamic_shapes, io_attrs);
}

/* A call of a product; ``mem`` may be NULL. */
static int product(rknn_matmul_ctx ctx, struct talk *talk, rknn_tensor_mem *mem)
{
    int code = 0;
    struct channel *channel = channel_take(talk->function, ctx, &code);
    if (!channel)
        return code;
    if (!channel->matmul)
        code = failed(talk->function, RKNN_ERR_CTX_INVALID, "context %llu is a model's, not a product's", (unsigned long long)ctx);
    if (!code && mem)
        code = memory_import(channel, talk->function, mem, &talk->args[0]);
    memory_to_server();
    if (!code)
        code = channel_talk(channel, talk);
    memory_from_server();
    channel_let_go(channel);
    return code;
}

FULL int rknn_matmul_set_io_mem(rknn_matmul_ctx ctx, rknn_tensor_mem *mem, rknn_matmul_tensor_attr *attr)
{
    struct talk talk = {.function = "rknn_matmul_set_io_mem", .call = CALL_MATMUL_BIND, .payload = attr, .size = sizeof *attr};
    if (!mem || !attr)
        return failed(talk.function, RKNN_ERR_PARAM_INVALID, "%s is NULL", mem ? "attr" : "mem");
    uint64_t known = 0;
    int code = 0;
    struct channel *channel = channel_take(talk.function, ctx, &code);
    if (!channel)
        return code;
    code = memory_import(channel, talk.function, mem, &known);
    channel_let_go(channel);
    if (!code)
        memory_bound(known, attr->name[0] != 'C');
    if (!code)
        code = product(ctx, &talk, mem);
    free(talk.answer);
    return code;
}

FULL int rknn_matmul_set_core_mask(rknn_matmul_ctx context, rknn_core_mask core_mask)
{
    struct talk talk = {.function = "rknn_matmul_set_core_mask", .call = CALL_MATMUL_MASK, .args = {(uint32_t)core_mask}};
    int code = product(context, &talk, NULL);
    free(talk.answer);
    return code;
}

FULL int rknn_matmul_set_quant_params(rknn_matmul_ctx context, rknn_quant_params *params)
{
    struct talk talk = {.function = "rknn_matmul_set_quant_params", .call = CALL_MATMUL_QUANT};
    if (!params || (params->scale_len > 0 && !params->scale) || (params->zp_len > 0 && !params->zp))
        return failed(talk.function, RKNN_ERR_PARAM_INVALID, "params, or what it points to, is NULL");
    size_t scales = params->scale_len > 0 ? (size_t)params->scale_len : 0, zeros = params->zp_len > 0 ? (size_t)params->zp_len : 0;
    talk.size = sizeof params->name + scales * sizeof(float) + zeros * sizeof(int32_t);
    char *payload = malloc(talk.size);
    if (!payload)
        return failed(talk.function, RKNN_ERR_MALLOC_FAIL, "no memory for %zu scales", scales);
    memcpy(payload, params->name, sizeof params->name);
    if (scales)
        memcpy(payload + sizeof params->name, params->scale, scales * sizeof(float));
    if (zeros)
        memcpy(payload + sizeof params->name + scales * sizeof(float), params->zp, zeros * sizeof(int32_t));
    talk.payload = payload;
    talk.args[0] = scales;
    talk.args[1] = zeros;
    int code = product(context, &talk, NULL);
    free(talk.answer);
    free(payload);
    return code;
}

FULL int rknn_matmul_get_quant_params(rknn_matmul_ctx ctx, rknn_quant_params *params, float *scale)
{
    struct talk talk = {.function = "rknn_matmul_get_quant_params", .call = CALL_MATMUL_SCALE};
    if (!params || !scale)
        return failed(talk.function, RKNN_ERR_PARAM_INVALID, "%s is NULL", params ? "scale" : "params");
    talk.payload = params->name;
    talk.size = sizeof params->name;
    int code = product(ctx, &talk, NULL);
    if (!code && talk.answer_size == sizeof *scale)
        memcpy(scale, talk.answer, sizeof *scale);
    free(talk.answer);
    return code;
}

FULL int rknn_matmul_set_dynamic_shape(rknn_matmul_ctx ctx, rknn_matmul_shape *shape)
{
    struct talk talk = {.function = "rknn_matmul_set_dynamic_shape", .call = CALL_MATMUL_SHAPE, .payload = shape, .size = sizeof *shape};
    if (!shape)
        return failed(talk.function, RKNN_ERR_PARAM_INVALID, "shape is NULL");
    int code = product(ctx, &talk, NULL);
    free(talk.answer);
    return code;
}

FULL int rknn_matmul_run(rknn_matmul_ctx ctx)
{
    struct talk talk = {.function = "rknn_matmul_run", .call = CALL_MATMUL_RUN};
    int code = product(ctx, &talk, NULL);
    free(talk.answer);
    return code;
}

FULL int rknn_matmul_destroy(rknn_matmul_ctx ctx)
{
    return rknn_destroy(ctx);
}

/* Bits of an element of B; 0 for a type that is none. The server knows better, and says so. */
static size_t bits_of_b(rknn_matmul_type type)
{
    switch (type) {
    case RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32:
    case RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT16: return 16;
    case RKNN_FLOAT16_MM_INT4_TO_FLOAT32:
    case RKNN_FLOAT16_MM_INT4_TO_FLOAT16:
    case RKNN_INT4_MM_INT4_TO_INT16:
    case RKNN_INT8_MM_INT4_TO_INT32:
    case RKNN_FLOAT16_MM_INT4_TO_BFLOAT16:
    case RKNN_INT8_MM_INT4_TO_FLOAT16: return 4;
    default: return 8;
    }
}

FULL int rknn_B_normal_layout_to_native_layout(void *B_input, void *B_output, int K, int N, rknn_matmul_info *info)
{
    struct talk talk = {.function = "rknn_B_normal_layout_to_native_layout", .call = CALL_NATIVE_B};
    int code = 0;
    if (!B_input || !B_output || !info || K < 1 || N < 1)
        return failed(talk.function, RKNN_ERR_PARAM_INVALID, "an argument is NULL, or %d x %d is no matrix", K, N);
    size_t size = ((size_t)K * (size_t)N * bits_of_b(info->type) + 7) / 8;
    int fd = wire_memory(size);
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct channel *channel = at == MAP_FAILED ? NULL : channel_open(talk.function, &library_hooks, &code);
    if (channel) {
        memcpy(at, B_input, size);
        talk.args[0] = (uint64_t)K;
        talk.args[1] = (uint64_t)N;
        talk.args[2] = size;
        talk.payload = info;
        talk.size = sizeof *info;
        talk.fds = &fd;
        talk.n_fds = 1;
        code = channel_talk(channel, &talk);
        if (!code)
            memcpy(B_output, at, size);
        free(talk.answer);
        channel_drop(channel);
    } else if (!code) {
        code = failed(talk.function, RKNN_ERR_MALLOC_FAIL, "no memory of %zu bytes", size);
    }
    if (at != MAP_FAILED)
        munmap(at, size);
    if (fd >= 0)
        close(fd);
    return code;
}
