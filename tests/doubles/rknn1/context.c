/* rknn_init, rknn_query, and the common path of the double. */
#include "double1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION "1.7.3 (abcdef0 build: 2022-07-07 10:00:00)"
static const char version[] = VERSION;
static const char table[] =
    "========================================\n               Performance\n"
    "========================================\n"
    "Layer ID    Name                                    Operation       Time(us)\n"
    "0           tensor.transpose_3                      TRANSPOSE       72\n"
    "44          convolution.relu.pooling.layer2_2       CONVOLUTION     363\n"
    "Total Time(us): 435\nFPS(800MHz): 2298.85\n========================================\n";
static int n_devices;
static uint32_t last_size;
static char last_device[64];

EXPORT void double1_devices(int count) { n_devices = count; }
EXPORT uint32_t double1_size(void) { return last_size; }
EXPORT const char *double1_device(void) { return last_device; }

static context *of(rknn_context handle) {
    context *c = (context *)(uintptr_t)handle;
    return known(c, KIND_CONTEXT) ? c : NULL;
}

static uint32_t sum_of(const unsigned char *data, uint32_t size) {
    uint32_t sum = size;
    for (uint32_t i = 0; i < size; i++) sum = sum * 31 + data[i];
    return sum;
}

static int busy(context *c) {
    if (atomic_exchange(&c->busy, 1)) live(RACES, 1);
    return 1;
}

static int leave(context *c, int code) {
    atomic_store(&c->busy, 0);
    return code;
}

static int open_model(rknn_context *handle, void *model, uint32_t size, uint32_t flag) {
    last_flags = flag;
    last_size = size;
    if (!handle || !model) return -5;
    context *c = calloc(1, sizeof *c);
    int code;
#ifdef HOST
    if (flag & FLAG_LOAD_MODEL_IN_NPU) {
        FILE *file = fopen(model, "rb");
        unsigned char *content = malloc(1 << 20);
        size_t got = file ? fread(content, 1, 1 << 20, file) : 0;
        if (file) fclose(file);
        code = parse_model(c, content, (uint32_t)got);
        free(content);
    } else
#endif
    {
        if (!size) {
            free(c);
            return -5;
        }
        c->file = model;
        c->file_size = size;
        c->file_sum = sum_of(model, size);
        code = parse_model(c, model, size);
    }
    if (code) {
        free(c);
        return code;
    }
    c->flags = flag;
    for (uint32_t i = 0; i < c->n_in; i++) c->device_in[i] = calloc(1, stored_size(&c->in[i]));
    remember(c, KIND_CONTEXT);
    live(LIVE_CONTEXTS, 1);
    *handle = (rknn_context)(uintptr_t)c;
    return 0;
}

EXPORT int rknn_init(rknn_context *handle, void *model, uint32_t size, uint32_t flag) {
    int code = enter(ID_rknn_init);
    last_device[0] = 0;
    return code ? code : open_model(handle, model, size, flag);
}

#ifdef HOST
EXPORT int rknn_init2(rknn_context *handle, void *model, uint32_t size, uint32_t flag, rknn_init_extend *extend) {
    int code = enter(ID_rknn_init2), number;
    if (code) return code;
    if (!extend || !extend->device_id) return -5;
    snprintf(last_device, sizeof last_device, "%s", extend->device_id);
    if (sscanf(last_device, "usb-%d", &number) != 1 || number < 0 || number >= n_devices) return -3;
    return open_model(handle, model, size, flag);
}

EXPORT int rknn_find_devices(rknn_devices_id *found) {
    int code = enter(ID_rknn_find_devices);
    if (code) return code;
    memset(found, 0, sizeof *found);
    found->n_devices = (uint32_t)n_devices;
    for (int i = 0; i < n_devices && i < 256; i++) {
        snprintf(found->ids[i], 64, "usb-%d", i);
        snprintf(found->types[i], 64, "RK1808");
    }
    return 0;
}
#endif

static void drop(context *c, frame *f) {
    for (uint32_t i = 0; i < c->n_out; i++) free(f->out[i]);
    memset(f, 0, sizeof *f);
}

EXPORT int rknn_destroy(rknn_context handle) {
    int code = enter(ID_rknn_destroy);
    context *c = of(handle);
    if (!c) return -7;
    if (c->children || c->mapped[0] || c->mapped[1]) live(MISORDERED, 1);
    if (atomic_load(&c->busy)) live(RACES, 1);
    for (int i = 0; i < c->queued; i++) drop(c, &c->queue[i]);
    drop(c, &c->last);
    for (uint32_t i = 0; i < c->n_in; i++) free(c->device_in[i]);
    forget(c);
    live(LIVE_CONTEXTS, -1);
    free(c);
    return code;
}

static void describe(const tensor *t, uint32_t index, rknn_tensor_attr *attr) {
    memset(attr, 0, sizeof *attr);
    attr->index = index;
    attr->n_dims = t->rank;
    for (uint32_t i = 0; i < t->rank; i++) attr->dims[i] = t->dims[t->rank - 1 - i];
    memcpy(attr->name, t->name, sizeof attr->name);
    attr->n_elems = elements(t);
    attr->size = stored_size(t);
    attr->fmt = t->fmt;
    attr->type = t->type;
    attr->qnt_type = t->qnt;
    attr->fl = (int8_t)t->fl;
    attr->zp = t->zp;
    attr->scale = t->scale;
}

static int attribute(const context *c, int is_input, rknn_tensor_attr *attr, uint32_t size) {
    if (size != sizeof *attr || attr->index >= (is_input ? c->n_in : c->n_out)) return -5;
    describe(is_input ? &c->in[attr->index] : &c->out[attr->index], attr->index, attr);
    if (is_short(ID_rknn_query)) attr->n_elems--; /* an answer that contradicts itself */
    return 0;
}

static int answer(context *c, int command, void *info, uint32_t size) {
    switch (command) {
    case QUERY_IN_OUT_NUM:
        if (size != sizeof(rknn_input_output_num)) return -5;
        *(rknn_input_output_num *)info = (rknn_input_output_num){c->n_in, c->n_out};
        return 0;
    case QUERY_INPUT_ATTR: return attribute(c, 1, info, size);
    case QUERY_OUTPUT_ATTR: return attribute(c, 0, info, size);
    case QUERY_PERF_DETAIL:
        if (size != sizeof(rknn_perf_detail)) return -5;
        if (!(c->flags & FLAG_COLLECT_PERF) || !c->fetched) return -1;
        *(rknn_perf_detail *)info = (rknn_perf_detail){(char *)table, sizeof table};
        return 0;
    case QUERY_PERF_RUN:
        if (size != sizeof(rknn_perf_run)) return -5;
        if (!c->fetched) return -1;
        ((rknn_perf_run *)info)->run_duration = c->duration_us;
        return 0;
    case QUERY_SDK_VERSION:
        if (size != sizeof(rknn_sdk_version)) return -5;
        memset(info, 0, size);
        snprintf(((rknn_sdk_version *)info)->api_version, 256, "%s", version);
        snprintf(((rknn_sdk_version *)info)->drv_version, 256, "double 1.7.3");
        return 0;
#ifndef HOST
    case QUERY_PRE_COMPILE:
        if (size != sizeof(rknn_precompile)) return -5;
        if (!(c->flags & FLAG_PRECOMPILE)) return -1;
        *(rknn_precompile *)info = (rknn_precompile){"NBG of the double", 17};
        return 0;
#endif
    default: return -5;
    }
}

EXPORT int rknn_query(rknn_context handle, int command, void *info, uint32_t size) {
    int code = enter(ID_rknn_query);
    context *c = of(handle);
    if (!c) return -7;
    return code ? code : answer(c, command, info, size);
}

static int take(context *c, const rknn_input *given) {
    const tensor *t = &c->in[given->index];
    unsigned char *to = c->device_in[given->index];
    uint32_t n = elements(t);
    if (given->pass_through) {
        if (given->size != stored_size(t)) return -8;
        memcpy(to, given->buf, given->size);
        return 0;
    }
    if (given->type < FLOAT32 || given->type > INT16 || (given->fmt != NCHW && given->fmt != NHWC)) return -5;
    if (given->size != n * width_of(given->type)) return -8;
    int turn = t->rank == 4 && given->fmt != t->fmt; /* one is NCHW, the other NHWC */
    uint32_t channels = t->rank == 4 ? t->dims[t->fmt == NHWC ? 3 : 1] : 1;
    uint32_t plane = t->rank == 4 ? n / t->dims[0] / channels : 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = i;
        if (turn && t->fmt == NCHW) {
            uint32_t image = i / (channels * plane), channel = i / plane % channels, pixel = i % plane;
            from = (image * plane + pixel) * channels + channel;
        } else if (turn) {
            uint32_t image = i / (channels * plane), pixel = i / channels % plane, channel = i % channels;
            from = (image * channels + channel) * plane + pixel;
        }
        store(t, to, i, load(given->type, given->buf, from));
    }
    return 0;
}

EXPORT int rknn_inputs_set(rknn_context handle, uint32_t count, rknn_input inputs[]) {
    int code = enter(ID_rknn_inputs_set);
    context *c = of(handle);
    if (!c) return -7;
    if (code) return code;
    if (count != c->n_in) return -5;
    busy(c);
    for (uint32_t i = 0; i < count && !code; i++)
        code = inputs[i].index < c->n_in && inputs[i].buf ? take(c, &inputs[i]) : -8;
    c->set = !code;
    return leave(c, code);
}

EXPORT int rknn_run(rknn_context handle, rknn_run_extend *extend) {
    int code = enter(ID_rknn_run);
    context *c = of(handle);
    if (!c) return -7;
    if (code) return code;
    if (!c->set && !c->io[1][0]) return -8;
    if (c->file && sum_of(c->file, c->file_size) != c->file_sum) {
        fprintf(stderr, "double: the model's bytes were changed or given back\n");
        abort();
    }
    busy(c);
    if (c->queued == QUEUE) {
        if (!(c->flags & FLAG_ASYNC) && !c->io[0][0]) { /* the genuine library waits for a fetch that never comes */
            fprintf(stderr, "double: the fourth run without a fetch\n");
            abort();
        }
        drop(c, &c->queue[0]);
        memmove(c->queue, c->queue + 1, --c->queued * sizeof(frame));
    }
    frame *f = &c->queue[c->queued++];
    memset(f, 0, sizeof *f);
    f->id = ++c->frames;
    f->ready_at_us = now_us() + c->latency_us + extra_latency_us;
    c->duration_us = c->latency_us + extra_latency_us + 1;
    uint32_t n_in = elements(&c->in[0]);
    for (uint32_t o = 0; o < c->n_out; o++) {
        const tensor *t = &c->out[o];
        f->out[o] = malloc(stored_size(t));
        for (uint32_t i = 0; i < elements(t); i++)
            store(t, f->out[o], i, c->a * real_of(&c->in[0], c->device_in[0], i % n_in) + c->b + o);
    }
    if (extend) extend->frame_id = f->id;
    return leave(c, 0);
}

static int give(const tensor *t, const unsigned char *from, rknn_output *to, int less) {
    uint32_t n = elements(t), size = to->want_float ? n * 4 : stored_size(t);
    if (to->is_prealloc && (!to->buf || to->size < size)) return -9;
    if (!to->is_prealloc) {
        to->buf = malloc(size);
        live(LIVE_OUTPUTS, 1);
    }
    if (to->want_float)
        for (uint32_t i = 0; i < n; i++) ((float *)to->buf)[i] = (float)real_of(t, from, i);
    else
        memcpy(to->buf, from, size);
    to->size = less ? size - 1 : size;
    return 0;
}

EXPORT int rknn_outputs_get(rknn_context handle, uint32_t count, rknn_output outputs[], rknn_output_extend *extend) {
    int code = enter(ID_rknn_outputs_get), less = is_short(ID_rknn_outputs_get);
    context *c = of(handle);
    if (!c) return -7;
    busy(c);
    if (count != c->n_out || !c->queued) return leave(c, code ? code : -9);
    frame now = c->queue[0], *source = &now;
    if (c->flags & FLAG_ASYNC && c->last.id)
        source = &c->last; /* the frame before; the first one is waited for */
    else
        sleep_until_us(now.ready_at_us);
    for (uint32_t i = 0; i < count && !code; i++)
        code = outputs[i].index < c->n_out ? give(&c->out[outputs[i].index], source->out[outputs[i].index], &outputs[i], less) : -9;
    if (extend) extend->frame_id = source->id;
    drop(c, &c->last);
    c->last = now;
    memmove(c->queue, c->queue + 1, --c->queued * sizeof(frame));
    c->fetched = 1;
    return leave(c, code);
}

EXPORT int rknn_outputs_release(rknn_context handle, uint32_t count, rknn_output outputs[]) {
    int code = enter(ID_rknn_outputs_release);
    context *c = of(handle);
    if (!c) return -7;
    for (uint32_t i = 0; i < count; i++) {
        if (outputs[i].is_prealloc) continue;
        free(outputs[i].buf);
        outputs[i].buf = NULL;
        live(LIVE_OUTPUTS, -1);
    }
    return code;
}
