/* Shared memory of the double, board flavour: what is written counts only once it was synchronised. */
#include "double1.h"

#include <stdlib.h>
#include <string.h>

#ifndef HOST
static context *of(rknn_context handle) {
    context *c = (context *)(uintptr_t)handle;
    return known(c, KIND_CONTEXT) ? c : NULL;
}

static uint32_t count_of(const context *c, int side) { return side ? c->n_in : c->n_out; }

static const tensor *tensors(const context *c, int side) { return side ? c->in : c->out; }

static int map(rknn_context handle, function_id id, int side, uint32_t count, rknn_tensor_mem mem[]) {
    int code = enter(id), less = is_short(id);
    context *c = of(handle);
    if (!c) return -7;
    if (code) return code;
    if (count != count_of(c, side) || c->mapped[side]) return -5;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = stored_size(&tensors(c, side)[i]);
        c->io[side][i] = calloc(1, size);
        mem[i] = (rknn_tensor_mem){c->io[side][i], 0x1000 + i, 100 + (int)i, less ? size - 1 : size, 7, c, 0};
    }
    c->mapped[side] = 1;
    live(LIVE_MAPS, 1);
    return 0;
}

static int unmap(rknn_context handle, int code, int side, uint32_t count, rknn_tensor_mem mem[]) {
    context *c = of(handle);
    if (!c) return -7;
    if (count != count_of(c, side) || !c->mapped[side]) return -5;
    for (uint32_t i = 0; i < count; i++) {
        if (mem[i].logical_addr != c->io[side][i]) abort();
        free(c->io[side][i]);
        c->io[side][i] = NULL;
    }
    c->mapped[side] = 0;
    live(LIVE_MAPS, -1);
    return code;
}

static int right(const context *c, int side, uint32_t count, const rknn_tensor_mem mem[]) {
    if (count != count_of(c, side)) return 0;
    for (uint32_t i = 0; i < count; i++)
        if (!mem[i].logical_addr || mem[i].logical_addr != c->io[side][i]) return 0;
    return 1;
}

EXPORT int rknn_inputs_map(rknn_context c, uint32_t n, rknn_tensor_mem mem[]) {
    return map(c, ID_rknn_inputs_map, 1, n, mem);
}

EXPORT int rknn_outputs_map(rknn_context c, uint32_t n, rknn_tensor_mem mem[]) {
    return map(c, ID_rknn_outputs_map, 0, n, mem);
}

EXPORT int rknn_inputs_unmap(rknn_context c, uint32_t n, rknn_tensor_mem mem[]) {
    return unmap(c, enter(ID_rknn_inputs_unmap), 1, n, mem);
}

EXPORT int rknn_outputs_unmap(rknn_context c, uint32_t n, rknn_tensor_mem mem[]) {
    return unmap(c, enter(ID_rknn_outputs_unmap), 0, n, mem);
}

EXPORT int rknn_inputs_sync(rknn_context handle, uint32_t count, rknn_tensor_mem mem[]) {
    int code = enter(ID_rknn_inputs_sync);
    context *c = of(handle);
    if (!c) return -7;
    if (code) return code;
    if (!right(c, 1, count, mem)) return -5;
    for (uint32_t i = 0; i < count; i++) memcpy(c->device_in[i], c->io[1][i], stored_size(&c->in[i]));
    return 0;
}

EXPORT int rknn_outputs_sync(rknn_context handle, uint32_t count, rknn_tensor_mem mem[]) {
    int code = enter(ID_rknn_outputs_sync);
    context *c = of(handle);
    if (!c) return -7;
    if (code) return code;
    if (!right(c, 0, count, mem) || !c->queued) return -5;
    frame *f = &c->queue[c->queued - 1];
    sleep_until_us(f->ready_at_us);
    for (uint32_t i = 0; i < count; i++) memcpy(c->io[0][i], f->out[i], stored_size(&c->out[i]));
    for (int i = 0; i < c->queued; i++)
        for (uint32_t o = 0; o < c->n_out; o++) free(c->queue[i].out[o]);
    c->queued = 0;
    c->fetched = 1;
    return 0;
}

EXPORT rknn_tensor_mem *rknn_create_mem(rknn_context handle, uint64_t size) {
    context *c = of(handle);
    if (enter(ID_rknn_create_mem) || !c) return NULL;
    memory *m = calloc(1, sizeof *m);
    m->owner = c;
    m->mem = (rknn_tensor_mem){calloc(1, size), 0x2000, 55, (uint32_t)size - is_short(ID_rknn_create_mem), 8, m, 1};
    c->children++;
    remember(m, KIND_MEMORY);
    live(LIVE_MEMS, 1);
    return &m->mem;
}

EXPORT int rknn_destroy_mem(rknn_context handle, rknn_tensor_mem *mem) {
    int code = enter(ID_rknn_destroy_mem);
    context *c = of(handle);
    memory *m = (memory *)mem;
    if (!c || !known(m, KIND_MEMORY)) return -5;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < MAX_IO; i++)
            if (c->io[side][i] == m->mem.logical_addr) c->io[side][i] = NULL;
    c->children--;
    forget(m);
    live(LIVE_MEMS, -1);
    free(m->mem.logical_addr);
    free(m);
    return code;
}

EXPORT int rknn_set_io_mem(rknn_context handle, rknn_tensor_mem *mem, rknn_tensor_attr *attr) {
    int code = enter(ID_rknn_set_io_mem);
    context *c = of(handle);
    if (!c || !known(mem, KIND_MEMORY)) return -5;
    if (code) return code;
    for (int side = 0; side < 2; side++) {
        if (attr->index >= count_of(c, side)) continue;
        const tensor *t = &tensors(c, side)[attr->index];
        if (strcmp(t->name, attr->name) || attr->n_dims != t->rank || attr->dims[0] != t->dims[t->rank - 1]) continue;
        if (mem->size < stored_size(t) || c->mapped[side]) return -5;
        c->io[side][attr->index] = mem->logical_addr;
        return 0;
    }
    return -5;
}
#endif
