/* The functions of librknn_api.so, toolkits 1.x, by those of librknnrt.so, which renamed.h calls later_*.
 *
 * Structures that both have alike (inputs, outputs, versions, figures) go through as they are. Attributes end at scale here and count
 * their dims from the innermost; memory has other fields; rknn_init has no extension, and a run's has a number alone.
 */
#include "rknnrt.h"

#include <stdlib.h>
#include <string.h>

#undef rknn_init
#undef rknn_init2
#undef rknn_destroy
#undef rknn_query
#undef rknn_inputs_set
#undef rknn_run
#undef rknn_outputs_get
#undef rknn_outputs_release
#undef rknn_create_mem
#undef rknn_destroy_mem
#undef rknn_set_io_mem

#define EXPORTED __attribute__((visibility("default")))
#define TAKEN_FLAGS 0xFu /* priority, asynchronous, figures; 16 and 32 mean other things later */
#define IN_NPU 0x10u
#define QUANTISED_DFP 1

struct first_attr {
    uint32_t index, n_dims, dims[RKNN_MAX_DIMS];
    char name[RKNN_MAX_NAME_LEN];
    uint32_t n_elems, size;
    int32_t fmt, type, qnt_type;
    int8_t fl;
    uint32_t zp;
    float scale;
};

struct first_mem {
    void *logical_addr;
    uint64_t physical_addr;
    int32_t fd;
    uint32_t size, handle;
    void *priv_data; /* the memory as the later functions have it */
    uint64_t reserved_flag;
};

struct first_run {
    uint64_t frame_id;
};

EXPORTED int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flag)
{
    if (!(flag & IN_NPU))
        return later_init(context, model, size, flag & TAKEN_FLAGS, NULL);
    char *path = model ? strndup(model, size ? size : RKNN_MAX_NAME_LEN * 16) : NULL; /* here the device is this machine */
    const int code = path ? later_init(context, path, 0, flag & TAKEN_FLAGS, NULL) : RKNN_ERR_PARAM_INVALID;
    free(path);
    return code;
}

EXPORTED int rknn_destroy(rknn_context context)
{
    return later_destroy(context);
}

/* Attributes of the tensor itself: a program's data that pass through lie so. */
static int native_attr(rknn_context context, bool is_input, uint32_t index, rknn_tensor_attr *attr)
{
    memset(attr, 0, sizeof *attr);
    attr->index = index;
    return later_query(context, is_input ? RKNN_QUERY_NATIVE_INPUT_ATTR : RKNN_QUERY_OUTPUT_ATTR, attr, sizeof *attr);
}

/* Of a scale that is a power of two. */
static int8_t fractional_bits(float scale)
{
    int8_t bits = 0;
    for (; scale < 1 && bits < INT8_MAX; bits++)
        scale *= 2;
    for (; scale > 1 && bits > INT8_MIN; bits--)
        scale /= 2;
    return bits;
}

static void tell(struct first_attr *told, const rknn_tensor_attr *attr)
{
    memset(told, 0, sizeof *told);
    told->index = attr->index;
    told->n_dims = attr->n_dims;
    for (uint32_t i = 0; i < attr->n_dims && i < RKNN_MAX_DIMS; i++)
        told->dims[i] = attr->dims[attr->n_dims - 1 - i];
    memcpy(told->name, attr->name, sizeof told->name);
    told->n_elems = attr->n_elems;
    told->size = attr->size;
    told->fmt = attr->fmt == RKNN_TENSOR_NHWC ? RKNN_TENSOR_NHWC : RKNN_TENSOR_NCHW;
    told->type = attr->type;
    told->qnt_type = attr->qnt_type;
    told->zp = (uint32_t)attr->zp;
    told->scale = attr->scale;
    const bool whole = attr->type == RKNN_TENSOR_INT8 || attr->type == RKNN_TENSOR_INT16;
    if (whole && attr->qnt_type != RKNN_TENSOR_QNT_NONE && attr->scale > 0) { /* a power of two, without a zero point */
        told->qnt_type = QUANTISED_DFP;
        told->fl = fractional_bits(attr->scale);
    }
}

EXPORTED int rknn_query(rknn_context context, rknn_query_cmd cmd, void *info, uint32_t size)
{
    if (cmd != RKNN_QUERY_INPUT_ATTR && cmd != RKNN_QUERY_OUTPUT_ATTR)
        return (int)cmd >= 0 && cmd <= RKNN_QUERY_SDK_VERSION ? later_query(context, cmd, info, size)
                                                              : RKNN_ERR_PARAM_INVALID;
    struct first_attr *told = info;
    if (!told || size != sizeof *told)
        return RKNN_ERR_PARAM_INVALID;
    rknn_tensor_attr attr;
    const int code = native_attr(context, cmd == RKNN_QUERY_INPUT_ATTR, told->index, &attr);
    if (code == RKNN_SUCC)
        tell(told, &attr);
    return code;
}

EXPORTED int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input inputs[])
{
    return later_inputs_set(context, n_inputs, inputs);
}

EXPORTED int rknn_run(rknn_context context, struct first_run *extend)
{
    rknn_run_extend later = {0};
    const int code = later_run(context, &later);
    if (extend)
        extend->frame_id = later.frame_id;
    return code;
}

EXPORTED int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output outputs[],
                              rknn_output_extend *extend)
{
    return later_outputs_get(context, n_outputs, outputs, extend);
}

EXPORTED int rknn_outputs_release(rknn_context context, uint32_t n_outputs, rknn_output outputs[])
{
    return later_outputs_release(context, n_outputs, outputs);
}

/* -- memory ------------------------------------------------------------------------------------------------ */

static int allocate(rknn_context context, uint64_t size, struct first_mem *mem)
{
    rknn_tensor_mem *later = size <= UINT32_MAX ? later_create_mem(context, (uint32_t)size) : NULL;
    if (!later)
        return RKNN_ERR_MALLOC_FAIL;
    *mem = (struct first_mem){.logical_addr = later->virt_addr, .physical_addr = later->phys_addr, .fd = later->fd,
                              .size = (uint32_t)size, .priv_data = later};
    return RKNN_SUCC;
}

static int give_back(rknn_context context, struct first_mem *mem)
{
    const int code = mem->priv_data ? later_destroy_mem(context, mem->priv_data) : RKNN_ERR_PARAM_INVALID;
    mem->priv_data = mem->logical_addr = NULL;
    return code;
}

static int unmap(rknn_context context, uint32_t count, struct first_mem mem[])
{
    int code = mem ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID;
    for (uint32_t i = 0; mem && i < count; i++) {
        const int one = give_back(context, &mem[i]);
        code = code == RKNN_SUCC ? one : code;
    }
    return code;
}

static int map(rknn_context context, bool is_input, uint32_t count, struct first_mem mem[])
{
    int code = mem ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID;
    for (uint32_t i = 0; code == RKNN_SUCC && i < count; i++) {
        rknn_tensor_attr attr;
        code = native_attr(context, is_input, i, &attr);
        const uint32_t size = attr.size_with_stride > attr.size ? attr.size_with_stride : attr.size;
        if (code == RKNN_SUCC)
            code = allocate(context, size, &mem[i]);
        if (code == RKNN_SUCC) {
            attr.pass_through = is_input;
            code = later_set_io_mem(context, mem[i].priv_data, &attr);
            if (code != RKNN_SUCC)
                unmap(context, i + 1, mem);
        } else if (i) {
            unmap(context, i, mem);
        }
    }
    return code;
}

static int sync_all(rknn_context context, uint32_t count, struct first_mem mem[], rknn_mem_sync_mode mode)
{
    int code = mem ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID;
    for (uint32_t i = 0; code == RKNN_SUCC && i < count; i++)
        code = mem[i].priv_data ? later_mem_sync(context, mem[i].priv_data, mode) : RKNN_ERR_PARAM_INVALID;
    return code;
}

EXPORTED int rknn_inputs_map(rknn_context context, uint32_t count, struct first_mem mem[])
{
    return map(context, true, count, mem);
}

EXPORTED int rknn_inputs_sync(rknn_context context, uint32_t count, struct first_mem mem[])
{
    return sync_all(context, count, mem, RKNN_MEMORY_SYNC_TO_DEVICE);
}

EXPORTED int rknn_inputs_unmap(rknn_context context, uint32_t count, struct first_mem mem[])
{
    return unmap(context, count, mem);
}

EXPORTED int rknn_outputs_map(rknn_context context, uint32_t count, struct first_mem mem[])
{
    return map(context, false, count, mem);
}

EXPORTED int rknn_outputs_sync(rknn_context context, uint32_t count, struct first_mem mem[])
{
    return sync_all(context, count, mem, RKNN_MEMORY_SYNC_FROM_DEVICE);
}

EXPORTED int rknn_outputs_unmap(rknn_context context, uint32_t count, struct first_mem mem[])
{
    return unmap(context, count, mem);
}

EXPORTED struct first_mem *rknn_create_mem(rknn_context context, uint64_t size)
{
    struct first_mem *mem = calloc(1, sizeof *mem);
    if (mem && allocate(context, size, mem) != RKNN_SUCC) {
        free(mem);
        return NULL;
    }
    if (mem)
        mem->reserved_flag = 1; /* the structure is ours */
    return mem;
}

EXPORTED int rknn_destroy_mem(rknn_context context, struct first_mem *mem)
{
    if (!mem)
        return RKNN_ERR_PARAM_INVALID;
    const bool ours = mem->reserved_flag == 1;
    const int code = give_back(context, mem);
    if (ours)
        free(mem);
    return code;
}

EXPORTED int rknn_set_io_mem(rknn_context context, struct first_mem *mem, struct first_attr *attr)
{
    rknn_input_output_num count;
    if (!mem || !mem->priv_data || !attr)
        return RKNN_ERR_PARAM_INVALID;
    const int code = later_query(context, RKNN_QUERY_IN_OUT_NUM, &count, sizeof count);
    if (code != RKNN_SUCC)
        return code;
    for (uint32_t i = 0; i < count.n_input + count.n_output; i++) {
        const bool is_input = i < count.n_input;
        rknn_tensor_attr later;
        if (native_attr(context, is_input, is_input ? i : i - count.n_input, &later) != RKNN_SUCC ||
            strncmp(later.name, attr->name, sizeof later.name) || later.index != attr->index)
            continue;
        later.pass_through = is_input && later.type == (rknn_tensor_type)attr->type;
        later.type = attr->type;
        return later_set_io_mem(context, mem->priv_data, &later);
    }
    return RKNN_ERR_PARAM_INVALID;
}
