/* Contexts: devices, life, loading, queries, shapes. */
#include "double3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n_devices = 1;

/* strings finds this line in the file, as in librknnrt. */
__attribute__((used)) static const char version_line[] = "librknn3_api version: " VERSION " (double@2026-11-21)";

/* For tests: how many devices are plugged in. */
EXPORT void double3_devices(int count) { n_devices = count; }

context *context_of(rknn3_context ctx) {
    context *c = (context *)(uintptr_t)ctx;
    return known(c, KIND_CONTEXT) ? c : NULL;
}

static void device_name(int index, char *to) { sprintf(to, "pcie-%d", index); }

EXPORT int rknn3_find_devices(rknn3_devices *found) {
    int code = enter(ID_rknn3_find_devices);
    if (code) return code;
    if (!found) return RKNN3_ERR_ARGUMENT_INVALID;
    memset(found, 0, sizeof *found);
    found->n_devices = is_short(ID_rknn3_find_devices) ? 1000 : n_devices;
    for (int i = 0; i < n_devices; i++) {
        rknn3_device *d = &found->devices[i];
        device_name(i, d->id);
        strcpy(d->type, "rk1820");
        d->mem_info = (rknn3_dev_mem_info){.node_num = 1, .sys_total = 1 << 20, .sys_free = 1 << 19};
        d->mem_info.node_mem_info[0] = (rknn3_node_mem_info){2560u << 20, 2000u << 20};
    }
    return RKNN3_SUCCESS;
}

EXPORT int rknn3_init(rknn3_context *ctx, rknn3_init_extend *extend) {
    int code = enter(ID_rknn3_init), there = 0;
    char name[32];
    if (code) return code;
    if (!ctx) return RKNN3_ERR_ARGUMENT_INVALID;
    const char *wanted = extend ? extend->device_id : NULL;
    for (int i = 0; i < n_devices; i++) {
        device_name(i, name);
        there |= wanted ? !strcmp(wanted, name) : n_devices == 1;
    }
    if (!there) return RKNN3_ERR_DEVICE_UNAVAILABLE;
    context *c = calloc(1, sizeof *c);
    remember(c, KIND_CONTEXT);
    live(LIVE_CONTEXTS, 1);
    *ctx = (rknn3_context)(uintptr_t)c;
    return RKNN3_SUCCESS;
}

static int take_model(context *c, const char *text, size_t size, int has_weight, size_t weight_size) {
    if (!c) return RKNN3_ERR_CTX_INVALID;
    if (!text || c->net) return RKNN3_ERR_ARGUMENT_INVALID;
    model *net = parse_model(text, size);
    if (!net) return RKNN3_ERR_MODEL_INVALID;
    if (net->weight != (has_weight ? weight_size : 0)) {
        fprintf(stderr, "E RKNN3: weight file has %zu bytes, %u expected\n", weight_size, net->weight);
        free_model(net);
        return RKNN3_ERR_MODEL_INVALID;
    }
    c->net = net;
    return RKNN3_SUCCESS;
}

EXPORT int rknn3_load_model_from_path(rknn3_context ctx, const char *path, const char *weight_path) {
    int code = enter(ID_rknn3_load_model_from_path);
    if (code) return code;
    size_t size = 0, weight_size = 0;
    char *text = slurp(path, &size), *weights = slurp(weight_path, &weight_size);
    code = text ? take_model(context_of(ctx), text, size, !!weights, weight_size) : RKNN3_ERR_MODEL_INVALID;
    free(text);
    free(weights);
    return code;
}

EXPORT int rknn3_load_model_from_data(rknn3_context ctx, const void *data, uint64_t size, const void *weights,
                                      uint64_t weight_size) {
    int code = enter(ID_rknn3_load_model_from_data);
    return code ? code : take_model(context_of(ctx), data, size, !!weights, weight_size);
}

EXPORT int rknn3_model_init(rknn3_context ctx, rknn3_config *config) {
    int code = enter(ID_rknn3_model_init);
    context *c = context_of(ctx);
    if (code && code != RKNN3_WARN_NPU_CORE_UNUSED) return code;
    if (!c) return RKNN3_ERR_CTX_INVALID;
    if (!c->net || c->ready) return RKNN3_ERR_FAIL;
    uint32_t mask = config ? config->run_core_mask : 0;
    if (mask && mask != RKNN3_NPU_CORE_ALL && (uint32_t)__builtin_popcount(mask) != c->net->cores) {
        fprintf(stderr, "E RKNN3: rknn3_model_init, core_mask %x is not match with npu core number %u!\n", mask,
                c->net->cores);
        return RKNN3_ERR_ARGUMENT_INVALID;
    }
    c->ready = 1;
    c->timeout_ms = config ? config->run_timeout : 0;
    c->user_internal = config ? config->user_mem_internal : 0;
    if (mask == RKNN3_NPU_CORE_ALL && c->net->cores < MAX_CORES) return RKNN3_WARN_NPU_CORE_UNUSED;
    return code;
}

#ifndef LATER
EXPORT int rknn3_dup_context(rknn3_context in, rknn3_context *out) {
    int code = enter(ID_rknn3_dup_context);
    context *c = context_of(in);
    if (code) return code;
    if (!c || !c->ready) return RKNN3_ERR_CTX_INVALID;
    if (!out || c->net->n_shapes) return RKNN3_ERR_ARGUMENT_INVALID;
    context *twin = calloc(1, sizeof *twin);
    twin->net = c->net;
    twin->ready = 1;
    twin->timeout_ms = c->timeout_ms;
    atomic_fetch_add(&c->net->users, 1);
    remember(twin, KIND_CONTEXT);
    live(LIVE_CONTEXTS, 1);
    *out = (rknn3_context)(uintptr_t)twin;
    return RKNN3_SUCCESS;
}
#endif

EXPORT int rknn3_destroy(rknn3_context ctx) {
    int code = enter(ID_rknn3_destroy);
    context *c = context_of(ctx);
    if (!c) return RKNN3_ERR_CTX_INVALID;
    if (c->children || c->running) live(MISORDERED, 1);
    forget(c);
    free_model(c->net);
    free(c);
    live(LIVE_CONTEXTS, -1);
    return code;
}

/* -- shapes ---------------------------------------------------------------------------------------------- */

static tensor shaped(const context *c, const tensor *t, uint32_t dims[][MAX_IO][16], uint32_t index, int shape) {
    tensor copy = *t;
    if (c->net->n_shapes) memcpy(copy.dims, dims[shape][index], sizeof copy.dims);
    return copy;
}

tensor input_of(const context *c, uint32_t i) { return shaped(c, &c->net->in[i], c->net->in_dims, i, c->shape); }

tensor output_of(const context *c, uint32_t i) {
    if (c->post) return c->net->post[i];
    return shaped(c, &c->net->out[i], c->net->out_dims, i, c->shape);
}

uint32_t output_count(const context *c) { return c->post ? c->net->n_post : c->net->n_out; }

EXPORT int rknn3_set_shape(rknn3_context ctx, int32_t id) {
    int code = enter(ID_rknn3_set_shape);
    context *c = context_of(ctx);
    if (code) return code;
    if (!c || !c->ready) return RKNN3_ERR_CTX_INVALID;
    if (id < 0 || (uint32_t)id >= c->net->n_shapes) return RKNN3_ERR_ARGUMENT_INVALID;
    c->shape = id;
    return RKNN3_SUCCESS;
}

EXPORT int rknn3_register_custom_ops_plugins(rknn3_context ctx, const char *path, int64_t size) {
    int code = enter(ID_rknn3_register_custom_ops_plugins);
    context *c = context_of(ctx);
    size_t length = 0;
    if (code) return code;
    if (!c || !c->ready) return RKNN3_ERR_CTX_INVALID;
    char *data = slurp(path, &length);
    int usable = data && length && (size == 0 || size == (int64_t)strlen(path));
    free(data);
    if (!usable || !c->net->n_post) return RKNN3_ERR_ARGUMENT_INVALID;
    c->post = 1;
    return RKNN3_SUCCESS;
}

/* -- queries: the size must be exactly that of the structure ---------------------------------------------- */

static void shape_info(context *c, rknn3_shape_info *info) {
    int before = c->shape;
    c->shape = info->shape_id;
    info->n_inputs = c->net->n_in;
    info->n_outputs = output_count(c);
    info->is_default = info->shape_id == 0;
    for (uint32_t i = 0; info->input_attrs && i < c->net->n_in; i++) {
        tensor t = input_of(c, i);
        describe(&t, i, 0, &info->input_attrs[i]);
    }
    for (uint32_t i = 0; info->output_attrs && i < output_count(c); i++) {
        tensor t = output_of(c, i);
        describe(&t, i, 0, &info->output_attrs[i]);
    }
    c->shape = before;
}

static int query_attr(context *c, int cmd, rknn3_tensor_attr *attr) {
    int input = cmd == RKNN3_QUERY_INPUT_ATTR || cmd == RKNN3_QUERY_NATIVE_INPUT_ATTR;
    int origin = cmd == RKNN3_QUERY_NATIVE_INPUT_ATTR || cmd == RKNN3_QUERY_NATIVE_OUTPUT_ATTR;
    uint32_t index = attr->index;
    int post = c->post;
    if (cmd == RKNN3_QUERY_POSTPROCESS_OUTPUT_ATTR && !post) return RKNN3_ERR_FAIL;
    if (cmd != RKNN3_QUERY_POSTPROCESS_OUTPUT_ATTR) c->post = 0;
    int fits = index < (input ? c->net->n_in : output_count(c));
    if (fits) {
        tensor t = input ? input_of(c, index) : output_of(c, index);
        describe(&t, index, origin, attr);
    }
    c->post = post;
    return fits ? RKNN3_SUCCESS : RKNN3_ERR_ARGUMENT_INVALID;
}

static void query_cores(context *c, rknn3_core_mem_size *m) {
    for (uint32_t i = 0; i < c->net->cores; i++)
        m[i] = (rknn3_core_mem_size){.core_id = i, .weight_size = c->net->weight, .internal_size = c->net->internal};
}

static void query_llm(context *c, rknn3_llm_config *m) {
    memset(m, 0, sizeof *m);
    m->chat_template = c->net->chat_template;
    m->vocab_size = c->net->vocab;
    m->embedding_dim = c->net->hidden;
    m->max_ctx_len = m->max_position_embeddings = c->net->context;
    m->kvcache_store_method = RKNN3_KVCACHE_STORE_METHOD_GROUP_QUANT;
    m->kvcache_dtype = RKNN3_KVCACHE_DTYPE_INT8_TO_F16;
    m->kvcache_group_size = m->kvcache_residual_depth = 16;
    m->model_type = (char *)"double";
}

static int query(context *c, int cmd, void *info, uint64_t size) {
#define NEED(bytes)                                                                                          \
    if (size != (bytes)) return RKNN3_ERR_ARGUMENT_INVALID
    if (cmd == RKNN3_QUERY_SDK_VERSION) {
        const char *version = getenv("RKNN3_DOUBLE_VERSION");
        NEED(sizeof(rknn3_sdk_version));
        memset(info, 0, size);
        snprintf(info, 256, "%s (double@2026-11-21)", version ? version : VERSION);
        strcpy(((rknn3_sdk_version *)info)->drv_version, "1.0.0");
        return RKNN3_SUCCESS;
    }
    if (!c->net) return RKNN3_ERR_CTX_INVALID;
    switch (cmd) {
    case RKNN3_QUERY_IN_OUT_NUM:
        NEED(sizeof(rknn3_input_output_num));
        *(rknn3_input_output_num *)info = (rknn3_input_output_num){c->net->n_in, c->net->n_out};
        if (is_short(ID_rknn3_query)) ((rknn3_input_output_num *)info)->n_input = 1 << 30;
        return RKNN3_SUCCESS;
    case RKNN3_QUERY_POSTPROCESS_IN_OUT_NUM:
        NEED(sizeof(rknn3_input_output_num));
        if (!c->post) return RKNN3_ERR_FAIL;
        *(rknn3_input_output_num *)info = (rknn3_input_output_num){c->net->n_out, c->net->n_post};
        return RKNN3_SUCCESS;
    case RKNN3_QUERY_INPUT_ATTR:
    case RKNN3_QUERY_OUTPUT_ATTR:
    case RKNN3_QUERY_NATIVE_INPUT_ATTR:
    case RKNN3_QUERY_NATIVE_OUTPUT_ATTR:
    case RKNN3_QUERY_POSTPROCESS_OUTPUT_ATTR:
        NEED(sizeof(rknn3_tensor_attr));
        return query_attr(c, cmd, info);
    case RKNN3_QUERY_CORE_NUMBER: NEED(sizeof(uint32_t)); return *(uint32_t *)info = c->net->cores, RKNN3_SUCCESS;
    case RKNN3_QUERY_CORE_MEM_SIZE:
        NEED(sizeof(rknn3_core_mem_size) * c->net->cores);
        return query_cores(c, info), RKNN3_SUCCESS;
    case RKNN3_QUERY_ALLOCATION_INFO:
        NEED(sizeof(rknn3_allocation_info) * c->net->cores);
        memset(info, 0, size);
        for (uint32_t i = 0; i < c->net->cores; i++) ((rknn3_allocation_info *)info)[i].core_id = i;
        return RKNN3_SUCCESS;
    case RKNN3_QUERY_DEVICE_MEM_INFO:
        NEED(sizeof(rknn3_dev_mem_info));
        *(rknn3_dev_mem_info *)info = (rknn3_dev_mem_info){.node_num = 1, .sys_total = 1 << 20, .sys_free = 1 << 19};
        return RKNN3_SUCCESS;
    case RKNN3_QUERY_DYNAMIC_SHAPE_CONFIG:
        NEED(sizeof(rknn3_shape_config));
        *(rknn3_shape_config *)info = (rknn3_shape_config){c->net->n_shapes, c->net->n_shapes ? c->shape : -1};
        return RKNN3_SUCCESS;
    case RKNN3_QUERY_DYNAMIC_SHAPE_INFO:
    case RKNN3_QUERY_POSTPROCESS_DYNAMIC_SHAPE_INFO:
        if (!c->net->n_shapes) return RKNN3_ERR_FAIL;
        NEED(sizeof(rknn3_shape_info) * c->net->n_shapes);
        for (uint32_t i = 0; i < c->net->n_shapes; i++) {
            if (((rknn3_shape_info *)info)[i].shape_id != (int32_t)i) return RKNN3_ERR_ARGUMENT_INVALID;
            shape_info(c, (rknn3_shape_info *)info + i);
        }
        return RKNN3_SUCCESS;
    case RKNN3_QUERY_LLM_CONFIG:
        NEED(sizeof(rknn3_llm_config));
        return c->net->vocab ? (query_llm(c, info), RKNN3_SUCCESS) : RKNN3_ERR_FAIL;
#ifdef LATER
    case RKNN3_QUERY_CUSTOM_STRING:
        NEED(sizeof(rknn3_custom_string));
        memset(info, 0, size);
        return strcpy(info, c->net->string), RKNN3_SUCCESS;
#endif
    default: return RKNN3_ERR_ARGUMENT_INVALID;
    }
#undef NEED
}

EXPORT int rknn3_query(rknn3_context ctx, rknn3_query_cmd cmd, void *info, uint64_t size) {
    int code = enter(ID_rknn3_query);
    context *c = context_of(ctx);
    if (code) return code;
    if (!c) return RKNN3_ERR_CTX_INVALID;
    return info ? query(c, cmd, info, size) : RKNN3_ERR_ARGUMENT_INVALID;
}
