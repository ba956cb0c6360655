/* What programs for hosts of RK182x need: the checks of the other programs, and tensors with memory. */
#ifndef CHECK3_H
#define CHECK3_H

#include "../programs/check.h"
#include "rknn3_api.h"

#undef OK
#define OK(call) CODE(RKNN3_SUCCESS, call)
#define ZERO(thing) memset(&(thing), 0, sizeof(thing))

/* A tensor with its attribute, and memory as that says. */
struct io {
    rknn3_tensor_attr attr;
    rknn3_tensor tensor;
};

static inline void make(rknn3_context context, rknn3_query_cmd command, uint32_t index, struct io *io)
{
    ZERO(*io);
    io->attr.index = index;
    OK(rknn3_query(context, command, &io->attr, sizeof io->attr));
    CHECK(io->attr.index == index && io->attr.n_dims > 0 && io->attr.aligned_size > 0);
    io->tensor.attr = &io->attr;
    io->tensor.mem = rknn3_create_mem(context, io->attr.aligned_size, io->attr.core_id, RKNN3_FLAG_MEMORY_FLAGS_DEFAULT);
    CHECK(io->tensor.mem && io->tensor.mem->virt_addr && io->tensor.mem->size >= io->attr.aligned_size);
}

static inline rknn3_context opened(const char *model)
{
    rknn3_context context = 0;
    OK(rknn3_init(&context, NULL));
    OK(rknn3_load_model_from_path(context, model, NULL));
    OK(rknn3_model_init(context, NULL));
    return context;
}

/* Fill a tensor from FOLDER/NAME. */
static inline void fill(rknn3_context context, struct io *io, const char *folder, const char *name)
{
    size_t size;
    void *data = load(folder, name, &size);
    CHECK(size <= io->tensor.mem->size);
    memcpy(io->tensor.mem->virt_addr, data, size);
    free(data);
    OK(rknn3_mem_sync(context, io->tensor.mem, RKNN3_MEMORY_SYNC_TO_DEVICE));
}

/* A network of at most four inputs and outputs. */
struct net {
    rknn3_context context;
    rknn3_input_output_num number;
    struct io in[4], out[4];
};

static inline void tensors(struct net *net)
{
    OK(rknn3_query(net->context, RKNN3_QUERY_IN_OUT_NUM, &net->number, sizeof net->number));
    CHECK(net->number.n_input <= 4 && net->number.n_output <= 4);
    for (uint32_t i = 0; i < net->number.n_input; i++)
        make(net->context, RKNN3_QUERY_INPUT_ATTR, i, &net->in[i]);
    for (uint32_t i = 0; i < net->number.n_output; i++)
        make(net->context, RKNN3_QUERY_OUTPUT_ATTR, i, &net->out[i]);
}

static inline void give_back(struct net *net)
{
    for (uint32_t i = 0; i < net->number.n_input; i++)
        OK(rknn3_destroy_mem(net->context, net->in[i].tensor.mem));
    for (uint32_t i = 0; i < net->number.n_output; i++)
        OK(rknn3_destroy_mem(net->context, net->out[i].tensor.mem));
}

/* One run: inputs from FOLDER/inI.i8, results as in FOLDER/outI.i8. */
static inline void run_net(struct net *net, const char *folder, const char *prefix, bool async)
{
    rknn3_tensor in[4], out[4];
    char name[64];
    for (uint32_t i = 0; i < net->number.n_input; i++) {
        snprintf(name, sizeof name, "%sin%u.i8", prefix, i);
        fill(net->context, &net->in[i], folder, name);
        in[i] = net->in[i].tensor;
    }
    for (uint32_t i = 0; i < net->number.n_output; i++) {
        memset(net->out[i].tensor.mem->virt_addr, 0x55, net->out[i].tensor.mem->size);
        out[i] = net->out[i].tensor;
    }
    if (async) {
        OK(rknn3_run_async(net->context, in, net->number.n_input, out, net->number.n_output));
        OK(rknn3_wait(net->context));
    } else {
        OK(rknn3_run(net->context, in, net->number.n_input, out, net->number.n_output));
    }
    for (uint32_t i = 0; i < net->number.n_output; i++) {
        OK(rknn3_mem_sync(net->context, out[i].mem, RKNN3_MEMORY_SYNC_FROM_DEVICE));
        snprintf(name, sizeof name, "%sout%u.i8", prefix, i);
        same(folder, name, out[i].mem->virt_addr, net->out[i].attr.n_elems);
    }
}

#endif
