/* A post-process plugin that computes in _Float16: twice the model's first output and an eighth. */
#include "rknn3_op.h"

static int op_output_num(rknn3_custom_op_context *ctx)
{
    (void)ctx;
    return 1;
}

static int op_attrs(rknn3_custom_op_context *ctx, rknn3_tensor_attr *inputs, uint32_t n_inputs,
                    rknn3_tensor_attr *outputs, uint32_t n_outputs)
{
    (void)ctx, (void)n_inputs, (void)n_outputs;
    if (inputs[0].dtype != RKNN3_TENSOR_FLOAT16)
        return -8;
    outputs[0] = inputs[0];
    outputs[0].name[0] = 'y';
    return 0;
}

static int op_compute(rknn3_custom_op_context *ctx, rknn3_tensor *inputs, uint32_t n_inputs,
                      rknn3_tensor *outputs, uint32_t n_outputs)
{
    const _Float16 *x = (const _Float16 *)((char *)inputs[0].mem->virt_addr + inputs[0].mem->offset);
    _Float16 *y = (_Float16 *)((char *)outputs[0].mem->virt_addr + outputs[0].mem->offset);

    (void)ctx, (void)n_inputs, (void)n_outputs;
    for (uint32_t i = 0; i < inputs[0].attr->n_elems; i++)
        y[i] = x[i] * (_Float16)2 + (_Float16)0.125f;
    return 0;
}

static rknn3_custom_op op = {
    .op_type = "TwicePostProcess",
    .plugin_type = RKNN3_OP_PLUGIN_TYPE_POSTPROCESS,
    .target = RKNN3_OP_TARGET_TYPE_CPU,
    .version = 1,
    .compute = op_compute,
    .get_output_num = op_output_num,
    .get_attrs = op_attrs,
};

rknn3_custom_op *rknn3_register_custom_ops_plugin(int index)
{
    return index == 0 ? &op : (rknn3_custom_op *)0;
}
