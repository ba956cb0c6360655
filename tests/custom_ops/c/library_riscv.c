/* A post-process plugin in two objects (-DPLUGIN, -DHELPER) that uses what a C library offers. Output n has n + 1
 * numbers: sqrt(index) + log(1 + size) + number of the run. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "rknn3_op.h"

float helper(float x);

#ifdef HELPER

float helper(float x)
{
    return logf(1 + x);
}

#else

typedef struct {
    int outputs;
    float *roots;
} state;

static int runs; /* static data, zero and not */
static int classes[3] = {'a', '7', ' '};

static int op_init(rknn3_custom_op_context *ctx)
{
    rknn3_input_output_num num;
    state *mine = malloc(sizeof *mine);

    errno = 0;
    if (strtol("999999999999999999999999", NULL, 10) <= 0 || errno != ERANGE)
        return -11;
    if (!isalpha(classes[0]) || !isdigit(classes[1]) || !isspace(classes[2]) || isupper(classes[0]) || ispunct('x'))
        return -12;
    if (mine == NULL || rknn3_query(ctx->rknn_ctx, RKNN3_QUERY_IN_OUT_NUM, &num, sizeof num) != 0)
        return -13;
    mine->outputs = 2 * num.n_output + 1;
    mine->roots = calloc(mine->outputs, sizeof(float));
    for (int i = 0; i < mine->outputs; i++)
        mine->roots[i] = sqrtf(i);
    ctx->user_data = mine;
    return 0;
}

static int op_output_num(rknn3_custom_op_context *ctx)
{
    return ((state *)ctx->user_data)->outputs;
}

static int op_attrs(rknn3_custom_op_context *ctx, rknn3_tensor_attr *in, uint32_t n_in, rknn3_tensor_attr *out,
                    uint32_t n_out)
{
    for (uint32_t i = 0; i < n_out; i++) {
        out[i].n_dims = 1;
        out[i].shape[0] = i + 1;
        out[i].dtype = RKNN3_TENSOR_FLOAT32;
        out[i].aligned_size = (i + 1) * sizeof(float);
    }
    return 0;
}

static int op_compute(rknn3_custom_op_context *ctx, rknn3_tensor *in, uint32_t n_in, rknn3_tensor *out, uint32_t n_out)
{
    runs++;
    for (uint32_t i = 0; i < n_out; i++)
        for (uint32_t k = 0; k <= i; k++)
            ((float *)out[i].mem->virt_addr)[k] = ((state *)ctx->user_data)->roots[k] + helper(i + 1) + runs;
    return 0;
}

static int op_deinit(rknn3_custom_op_context *ctx)
{
    free(((state *)ctx->user_data)->roots); /* crashes when init has not succeeded */
    free(ctx->user_data);
    return 0;
}

static rknn3_custom_op ops[] = {
    {.op_type = "NotThis", .plugin_type = 1, .target = RKNN3_OP_TARGET_TYPE_CPU, .version = 1},
    {.op_type = "Library",
     .plugin_type = RKNN3_OP_PLUGIN_TYPE_POSTPROCESS,
     .target = RKNN3_OP_TARGET_TYPE_CPU,
     .version = 1,
     .init = op_init,
     .compute = op_compute,
     .deinit = op_deinit,
     .get_output_num = op_output_num,
     .get_attrs = op_attrs},
};

rknn3_custom_op *rknn3_register_custom_ops_plugin(int index)
{
    return index < 2 ? &ops[index] : NULL;
}
#endif
