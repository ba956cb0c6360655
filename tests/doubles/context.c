/* Contexts: life, queries, settings, and the common path. */
#include "double.h"

#ifdef MINI /* zero-copy only: the functions of the common path are there and refuse */
#define LIBRARY "librknnmrt"
#define HAS_COMMON_PATH 0
#else
#define LIBRARY "librknnrt"
#define HAS_COMMON_PATH 1
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* strings finds this line in the file, as in the genuine library. */
__attribute__((used)) static const char version_line[] =
    LIBRARY " version: " VERSION " (double@2026-11-21T00:00:00)";
static const char perf_table[] =
    "---------------------------------------------------------------------------------------------------\n"
    "                                  Network Layer Information Table\n"
    "---------------------------------------------------------------------------------------------------\n"
    "ID   OpType           DataType Target InputShape                   OutputShape      Cycles(DDR/NPU/Total)    "
    "Time(us)  MacUsage(%)          WorkLoad(0/1/2)      RW(KB)       FullName\n"
    "---------------------------------------------------------------------------------------------------\n"
    "1    InputOperator    UINT8    CPU    \\                            (1,3,224,224)    0/0/0                    "
    "5         \\                    0.0%/0.0%/0.0%       0            InputOperator:image\n"
    "2    ConvRelu         INT8     NPU    (1,3,224,224),(16,3,3,3)     (1,16,112,112)   10/20/20                 "
    "120       40.00/0.00/0.00      100.0%/0.0%/0.0% - Up:0.0% 330 Conv:conv 1\n"
    "3    OutputOperator   INT8     CPU    (1,1000)                     \\                0/0/0                    "
    "7         \\                    0.0%/0.0%/0.0%       4            OutputOperator:scores\n"
    "Total Operator Elapsed Per Frame Time(us): 132\n"
    "---------------------------------------------------------------------------------------------------\n";

static context *get(rknn_context ctx) {
    context *c = (context *)(uintptr_t)ctx;
    return known(c, KIND_CONTEXT) ? c : NULL;
}

static void buffers(context *c, int make) {
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < c->net->n_out; i++) {
            tensor t = output_of(c, i);
            free(c->out[k][i]);
            c->out[k][i] = make ? calloc(1, stored_size(&t) + 16) : NULL;
        }
    for (uint32_t i = 0; i < c->net->n_in; i++) {
        free(c->in[i].data);
        memset(&c->in[i], 0, sizeof c->in[i]);
    }
}

static context *new_context(model *net, context *parent, uint32_t flags) {
    context *c = calloc(1, sizeof *c);
    c->net = net;
    c->flags = flags;
    if ((c->parent = parent)) parent->children++;
    buffers(c, 1);
    remember(c, KIND_CONTEXT);
    live(LIVE_CONTEXTS, 1);
    return c;
}

EXPORT int rknn_init(rknn_context *ctx, void *data, uint32_t size, uint32_t flag, rknn_init_extend *extend) {
    int code = enter(ID_rknn_init);
    if (code) return code;
    if (!ctx || !data) return RKNN_ERR_PARAM_INVALID;
    context *master = NULL;
    memory *buffer = NULL;
    if (flag & RKNN_FLAG_SHARE_WEIGHT_MEM) {
        if (!extend || !(master = get(extend->ctx))) return RKNN_ERR_CTX_INVALID;
    }
    if (flag & RKNN_FLAG_MODEL_BUFFER_ZERO_COPY) {
        buffer = memory_at(data);
        if (!extend || !buffer || extend->model_buffer_fd != buffer->mem.fd || extend->real_model_size > size)
            return RKNN_ERR_PARAM_INVALID;
    }
    model *net;
    last_flags = flag;
    if ((code = read_model(data, size, &net))) return code;
    context *c = new_context(net, master, flag);
    if ((c->model_memory = buffer)) buffer->pinned++;
    *ctx = (rknn_context)(uintptr_t)c;
    return RKNN_SUCC;
}

EXPORT int rknn_dup_context(rknn_context *in, rknn_context *out) {
    int code = enter(ID_rknn_dup_context);
    if (code) return code;
    context *c = in ? get(*in) : NULL;
    if (!c || !out) return c ? RKNN_ERR_PARAM_INVALID : RKNN_ERR_CTX_INVALID;
    if (c->net->n_shapes) return RKNN_ERR_FAIL;
    c->net->users++;
    *out = (rknn_context)(uintptr_t)new_context(c->net, c, c->flags);
    return RKNN_SUCC;
}

/* A fault here is reported after the context is gone. */
EXPORT int rknn_destroy(rknn_context ctx) {
    int code = enter(ID_rknn_destroy);
    context *c = get(ctx);
    if (!c) return RKNN_ERR_CTX_INVALID;
    if (c->children || c->busy) live(MISORDERED, 1);
    drop_custom(c);
    buffers(c, 0);
    if (c->model_memory) c->model_memory->pinned--;
    if (c->parent) {
        known(c->parent, KIND_CONTEXT);
        c->parent->children--;
    }
    free_model(c->net);
    forget(c);
    free(c);
    live(LIVE_CONTEXTS, -1);
    return code;
}

/* -- queries --------------------------------------------------------------------------------------------- */

static int query_attr(context *c, rknn_query_cmd cmd, rknn_tensor_attr *attr, uint32_t size) {
    int is_input = cmd == RKNN_QUERY_INPUT_ATTR || cmd == RKNN_QUERY_NATIVE_INPUT_ATTR ||
                   cmd == RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR || cmd == RKNN_QUERY_CURRENT_INPUT_ATTR ||
                   cmd == RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR;
    if (size < sizeof *attr || attr->index >= (is_input ? c->net->n_in : c->net->n_out))
        return RKNN_ERR_PARAM_INVALID;
    tensor t = is_input ? input_of(c, attr->index) : output_of(c, attr->index);
    describe(&t, attr->index, is_input, cmd, attr);
    return RKNN_SUCC;
}

static int query_range(context *c, rknn_input_range *range, uint32_t size) {
    if (size < sizeof *range || range->index >= c->net->n_in) return RKNN_ERR_PARAM_INVALID;
    if (!c->net->n_shapes) {
        fprintf(stderr, "W RKNN: [00:00:00.000] query RKNN_QUERY_INPUT_DYNAMIC_RANGE error, rknn model is static "
                        "shape type\n");
        return RKNN_ERR_MODEL_INVALID;
    }
    const tensor *t = &c->net->in[range->index];
    range->shape_number = c->net->n_shapes;
    range->n_dims = t->rank;
    range->fmt = t->rank == 4 ? RKNN_TENSOR_NHWC : RKNN_TENSOR_UNDEFINED;
    memcpy(range->name, t->name, sizeof range->name);
    for (uint32_t k = 0; k < c->net->n_shapes; k++)
        memcpy(range->dyn_range[k], c->net->in_dims[k][range->index], sizeof range->dyn_range[k]);
    return RKNN_SUCC;
}

EXPORT int rknn_query(rknn_context ctx, rknn_query_cmd cmd, void *info, uint32_t size) {
    int code = enter(ID_rknn_query);
    if (code) return code;
    context *c = get(ctx);
    if (!c) return RKNN_ERR_CTX_INVALID;
    if (!info) return RKNN_ERR_PARAM_INVALID;
    if (is_short(ID_rknn_query)) return RKNN_SUCC;
    if ((c->flags & RKNN_FLAG_COLLECT_MODEL_INFO_ONLY) && cmd != RKNN_QUERY_MEM_SIZE) return RKNN_ERR_FAIL;
    switch ((int)cmd) {
    case RKNN_QUERY_IN_OUT_NUM:
        if (size < sizeof(rknn_input_output_num)) return RKNN_ERR_PARAM_INVALID;
        *(rknn_input_output_num *)info = (rknn_input_output_num){c->net->n_in, c->net->n_out};
        return RKNN_SUCC;
    case RKNN_QUERY_PERF_DETAIL:
        if (size < sizeof(rknn_perf_detail) || !(c->flags & RKNN_FLAG_COLLECT_PERF_MASK) || !c->has_run)
            return RKNN_ERR_PARAM_INVALID;
        *(rknn_perf_detail *)info = (rknn_perf_detail){(char *)perf_table, sizeof perf_table};
        return RKNN_SUCC;
    case RKNN_QUERY_PERF_RUN:
        if (size < sizeof(rknn_perf_run)) return RKNN_ERR_PARAM_INVALID;
        ((rknn_perf_run *)info)->run_duration = c->duration_us;
        return RKNN_SUCC;
    case RKNN_QUERY_SDK_VERSION:
        if (size < sizeof(rknn_sdk_version)) return RKNN_ERR_PARAM_INVALID;
        memset(info, 0, size);
        strcpy(((rknn_sdk_version *)info)->api_version, strchr(version_line, ':') + 2);
        strcpy(((rknn_sdk_version *)info)->drv_version, "0.9.8");
        return RKNN_SUCC;
    case RKNN_QUERY_MEM_SIZE: {
        if (size < sizeof(rknn_mem_size)) return RKNN_ERR_PARAM_INVALID;
        rknn_mem_size *m = info;
        memset(m, 0, sizeof *m);
        m->total_weight_size = c->net->weight;
        m->total_internal_size = c->net->internal;
        m->total_dma_allocated_size = (uint64_t)c->net->weight + c->net->internal;
        m->total_sram_size = 956 * 1024;
        m->free_sram_size = c->flags & RKNN_FLAG_ENABLE_SRAM ? 0 : 956 * 1024;
        return RKNN_SUCC;
    }
    case RKNN_QUERY_CUSTOM_STRING:
        if (size < sizeof(rknn_custom_string)) return RKNN_ERR_PARAM_INVALID;
        memcpy(info, c->net->custom, sizeof(rknn_custom_string));
        return RKNN_SUCC;
    case RKNN_QUERY_INPUT_DYNAMIC_RANGE: return query_range(c, info, size);
    case RKNN_QUERY_DEVICE_MEM_INFO: return RKNN_ERR_PARAM_INVALID;
    default:
        if (cmd >= RKNN_QUERY_CMD_MAX) return RKNN_ERR_PARAM_INVALID;
        return query_attr(c, cmd, info, size);
    }
}

/* -- settings -------------------------------------------------------------------------------------------- */

#ifndef MINI
static int cores(const context *c) {
    return !strcmp(c->net->platform, "rk3588") ? 3 : !strcmp(c->net->platform, "rk3576") ? 2 : 1;
}

EXPORT int rknn_set_core_mask(rknn_context ctx, rknn_core_mask mask) {
    int code = enter(ID_rknn_set_core_mask);
    if (code) return code;
    context *c = get(ctx);
    if (!c) return RKNN_ERR_CTX_INVALID;
    if (cores(c) == 1) return RKNN_ERR_TARGET_PLATFORM_UNMATCH;
    int legal = mask == 0 || mask == 1 || mask == 2 || mask == 3 || mask == RKNN_NPU_CORE_ALL ||
                (cores(c) == 3 && (mask == 4 || mask == 7));
    if (!legal) return RKNN_ERR_FAIL;
    c->mask = mask;
    return RKNN_SUCC;
}

EXPORT int rknn_set_batch_core_num(rknn_context ctx, int core_num) {
    int code = enter(ID_rknn_set_batch_core_num);
    if (code) return code;
    context *c = get(ctx);
    if (!c) return RKNN_ERR_CTX_INVALID;
    if (core_num < 1 || core_num > cores(c)) return RKNN_ERR_PARAM_INVALID;
    c->core_num = core_num;
    return RKNN_SUCC;
}
#endif

EXPORT int rknn_set_input_shape(rknn_context ctx, rknn_tensor_attr *attr) {
    (void)ctx, (void)attr, (void)enter(ID_rknn_set_input_shape);
    return RKNN_ERR_FAIL;
}

EXPORT int rknn_set_input_shapes(rknn_context ctx, uint32_t n, rknn_tensor_attr attr[]) {
    int code = enter(ID_rknn_set_input_shapes);
    if (code) return code;
    context *c = get(ctx);
    if (!c) return RKNN_ERR_CTX_INVALID;
    if (!attr || n != c->net->n_in) return RKNN_ERR_PARAM_INVALID;
    for (uint32_t k = 0; k < c->net->n_shapes; k++) {
        int same = 1;
        for (uint32_t i = 0; i < n; i++)
            same &= attr[i].index == i && attr[i].n_dims == c->net->in[i].rank &&
                    !memcmp(attr[i].dims, c->net->in_dims[k][i], attr[i].n_dims * 4);
        if (!same) continue;
        buffers(c, 0);
        c->shape = k;
        c->shape_chosen = 1;
        buffers(c, 1);
        memset(c->bound_in, 0, sizeof c->bound_in);
        memset(c->bound_out, 0, sizeof c->bound_out);
        return RKNN_SUCC;
    }
    return RKNN_ERR_FAIL;
}

/* -- the common path ------------------------------------------------------------------------------------- */

/* "op idle" moves no data at all, so that a benchmark counts what stands around the calls. */
static int idle(const context *c) { return c->net->op[0] == 'i' && !strcmp(c->net->op, "idle"); }

EXPORT int rknn_inputs_set(rknn_context ctx, uint32_t n, rknn_input inputs[]) {
    int code = enter(ID_rknn_inputs_set);
    if (code) return code;
    context *c = get(ctx);
    if (!c) return RKNN_ERR_CTX_INVALID;
    if (!HAS_COMMON_PATH) return RKNN_ERR_PARAM_INVALID;
    if (!n) return RKNN_SUCC;
    if (n > c->net->n_in || !inputs) return RKNN_ERR_PARAM_INVALID;
    for (uint32_t k = 0; k < n; k++) {
        const rknn_input *in = &inputs[k];
        if (in->index >= c->net->n_in || !in->buf) return RKNN_ERR_INPUT_INVALID;
        tensor t = input_of(c, in->index);
        placing *p = &c->in[in->index];
        rknn_tensor_attr native;
        describe(&t, in->index, 1, RKNN_QUERY_NATIVE_INPUT_ATTR, &native);
        if (in->pass_through ? in->size != native.size_with_stride && in->size != native.size
                             : in->size != elements(&t) * type_size(in->type))
            return RKNN_ERR_INPUT_INVALID;
        if (!in->pass_through && in->fmt != (t.rank == 4 ? RKNN_TENSOR_NHWC : RKNN_TENSOR_UNDEFINED))
            return RKNN_ERR_INPUT_INVALID;
        if (idle(c)) continue;
        if (in->size != p->size) p->data = realloc(p->data, in->size);
        p->size = in->size;
        memcpy(p->data, in->buf, in->size);
        atomic_fetch_add(&copied_bytes, in->size);
        p->type = in->pass_through ? native.type : in->type;
        p->fmt = in->pass_through ? native.fmt : in->fmt;
        p->pass_through = in->pass_through;
        p->w_stride = in->pass_through && in->size == native.size_with_stride ? native.w_stride : 0;
    }
    return RKNN_SUCC;
}

static void fetch(const tensor *t, const unsigned char *stored, const rknn_output *out) {
    placing p = {.type = t->type, .fmt = t->native ? RKNN_TENSOR_NC1HWC2 : RKNN_TENSOR_NCHW};
    size_t count = elements(t);
    float *floats = out->buf;
    if (!out->want_float && !t->native) {
        memcpy(out->buf, stored, count * type_size(t->type));
    } else if (out->want_float && !t->native && t->type == RKNN_TENSOR_INT8) {
        for (size_t i = 0; i < count; i++) floats[i] = ((float)((const int8_t *)stored)[i] - t->zp) * t->scale;
    } else {
        for (size_t i = 0; i < count; i++) {
            double value = get_element(t->type, stored, where(t, &p, i, 0));
            if (out->want_float) floats[i] = real_of(t, value);
            else put_element(t->type, out->buf, i, value);
        }
    }
}

EXPORT int rknn_outputs_get(rknn_context ctx, uint32_t n, rknn_output outputs[], rknn_output_extend *extend) {
    int code = enter(ID_rknn_outputs_get);
    if (code) return code;
    context *c = get(ctx);
    if (!c) return RKNN_ERR_CTX_INVALID;
    if (!HAS_COMMON_PATH || n > c->net->n_out || !outputs) return RKNN_ERR_PARAM_INVALID;
    int before = (c->flags & RKNN_FLAG_ASYNC_MASK) && c->frame > 1; /* the previous frame, no waiting */
    if (!before) sleep_until_us(c->ready_at_us);
    for (uint32_t k = 0; k < n; k++) {
        rknn_output *out = &outputs[k];
        if (out->index >= c->net->n_out) return RKNN_ERR_PARAM_INVALID;
        tensor t = output_of(c, out->index);
        uint32_t need = elements(&t) * (out->want_float ? 4 : type_size(t.type));
        if (out->is_prealloc && (!out->buf || out->size < need)) return RKNN_ERR_OUTPUT_INVALID;
    }
    for (uint32_t k = 0; k < n; k++) {
        rknn_output *out = &outputs[k];
        tensor t = output_of(c, out->index);
        uint32_t need = elements(&t) * (out->want_float ? 4 : type_size(t.type));
        if (!out->is_prealloc) {
            out->buf = malloc(need);
            live(LIVE_OUTPUTS, 1);
        }
        out->size = need;
        if (idle(c)) continue;
        fetch(&t, c->out[c->current ^ before][out->index], out);
        atomic_fetch_add(&copied_bytes, need);
    }
    live(LIVE_OUTPUTS, 1); /* the fetch itself, until outputs_release */
    if (is_short(ID_rknn_outputs_get)) outputs[0].size /= 2;
    if (extend) extend->frame_id = c->frame ? c->frame - 1 - before : 0;
    return RKNN_SUCC;
}

EXPORT int rknn_outputs_release(rknn_context ctx, uint32_t n, rknn_output outputs[]) {
    int code = enter(ID_rknn_outputs_release);
    if (!get(ctx)) return RKNN_ERR_CTX_INVALID;
    for (uint32_t k = 0; k < n; k++) {
        if (!outputs[k].is_prealloc && outputs[k].buf) {
            free(outputs[k].buf);
            live(LIVE_OUTPUTS, -1);
        }
        memset(&outputs[k], 0, sizeof(outputs[k])); /* nobody says what a library leaves in there */
    }
    live(LIVE_OUTPUTS, -1);
    return code;
}
