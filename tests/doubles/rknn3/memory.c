/* Memory: a host buffer and a device buffer that only mem_sync copies between. */
#include "double3.h"

#include <stdlib.h>
#include <string.h>

static rknn3_tensor_mem *hand_out(context *c, void *host, uint64_t size, int32_t core, function_id id) {
    memory *m = calloc(1, sizeof *m);
    m->owner = c;
    m->own_host = !host;
    m->device = calloc(1, size);
    m->mem.virt_addr = host ? host : calloc(1, size);
    m->mem.size = is_short(id) ? size / 2 : size;
    m->mem.fd = -1;
    m->mem.core_id = core;
    c->children++;
    remember(m, KIND_MEMORY);
    live(LIVE_MEMS, 1);
    return &m->mem;
}

EXPORT rknn3_tensor_mem *rknn3_create_mem(rknn3_context ctx, uint64_t size, int32_t core,
                                          rknn3_mem_alloc_flags flags) {
    context *c = context_of(ctx);
    if (enter(ID_rknn3_create_mem) || !c || !size || size > 1u << 30 || core < 0 || core >= MAX_CORES || flags > 2)
        return NULL;
    return hand_out(c, NULL, size, core, ID_rknn3_create_mem);
}

EXPORT rknn3_tensor_mem *rknn3_create_mem_from_fd(rknn3_context ctx, int32_t fd, void *virt, uint64_t size,
                                                  uint64_t offset) {
    context *c = context_of(ctx);
    if (enter(ID_rknn3_create_mem_from_fd) || !c || fd < 0 || !size || !virt) return NULL;
    rknn3_tensor_mem *mem = hand_out(c, virt, size, 0, ID_rknn3_create_mem_from_fd);
    mem->fd = fd;
    mem->offset = offset;
    return mem;
}

#ifndef LATER
EXPORT rknn3_tensor_mem *rknn3_create_mem_from_phys(rknn3_context ctx, uint64_t phys, void *virt, uint64_t size) {
    context *c = context_of(ctx);
    if (enter(ID_rknn3_create_mem_from_phys) || !c || !phys || !size || !virt) return NULL;
    rknn3_tensor_mem *mem = hand_out(c, virt, size, 0, ID_rknn3_create_mem_from_phys);
    mem->phys_addr = phys;
    return mem;
}
#endif

/* A fault of a function that gives back is reported after the work is done, or nothing would balance. */
EXPORT int rknn3_destroy_mem(rknn3_context ctx, rknn3_tensor_mem *mem) {
    int code = enter(ID_rknn3_destroy_mem);
    memory *m = (memory *)mem;
    if (!known(m, KIND_MEMORY)) return RKNN3_ERR_ARGUMENT_INVALID;
    known(m->owner, KIND_CONTEXT);
    if ((context *)(uintptr_t)ctx != m->owner) live(MISORDERED, 1);
    m->owner->children--;
    forget(m);
    if (m->own_host) free(m->mem.virt_addr);
    free(m->device);
    free(m);
    live(LIVE_MEMS, -1);
    return code;
}

static int sync(function_id id, rknn3_context ctx, rknn3_tensor_mem *mem, int mode, uint64_t from, uint64_t size) {
    int code = enter(id);
    memory *m = (memory *)mem;
    if (code) return code;
    if (!context_of(ctx)) return RKNN3_ERR_CTX_INVALID;
    if (!known(m, KIND_MEMORY) || mode < 1 || mode > 3 || from + size > m->mem.size) return RKNN3_ERR_ARGUMENT_INVALID;
    unsigned char *host = (unsigned char *)m->mem.virt_addr + m->mem.offset + from;
    if (is_short(id)) size /= 2;
    if (mode & RKNN3_MEMORY_SYNC_TO_DEVICE) memcpy(m->device + from, host, size);
    else memcpy(host, m->device + from, size);
    return RKNN3_SUCCESS;
}

EXPORT int rknn3_mem_sync(rknn3_context ctx, rknn3_tensor_mem *mem, rknn3_mem_sync_mode mode) {
    return sync(ID_rknn3_mem_sync, ctx, mem, mode, 0, mem ? mem->size : 0);
}

#ifdef LATER
EXPORT int rknn3_mem_sync_range(rknn3_context ctx, rknn3_tensor_mem *mem, rknn3_mem_sync_mode mode, uint64_t offset,
                                uint64_t length) {
    return sync(ID_rknn3_mem_sync_range, ctx, mem, mode, offset, length);
}
#endif

static int give(function_id id, rknn3_context ctx, rknn3_tensor_mem **mem, uint32_t n, uint64_t need) {
    int code = enter(id);
    context *c = context_of(ctx);
    if (code) return code;
    if (!c || !c->ready) return RKNN3_ERR_CTX_INVALID;
    if (!mem || n > MAX_CORES) return RKNN3_ERR_ARGUMENT_INVALID;
    for (uint32_t i = 0; i < n; i++)
        if (!known(mem[i], KIND_MEMORY) || mem[i]->size < need) return RKNN3_ERR_ARGUMENT_INVALID;
    return RKNN3_SUCCESS;
}

EXPORT int rknn3_set_internal_mem(rknn3_context ctx, rknn3_tensor_mem **mem, uint32_t n) {
    context *c = context_of(ctx);
    int code = give(ID_rknn3_set_internal_mem, ctx, mem, n, c && c->net ? c->net->internal : 0);
    if (code) return code;
    if (!c->user_internal) return RKNN3_ERR_ARGUMENT_INVALID;
    for (uint32_t i = 0; i < n; i++) c->internal[mem[i]->core_id] = (memory *)mem[i];
    return RKNN3_SUCCESS;
}

EXPORT int rknn3_set_kvcache_mem(rknn3_context ctx, rknn3_tensor_mem **mem, int *cores, int n) {
    return cores && n > 0 ? give(ID_rknn3_set_kvcache_mem, ctx, mem, n, 1) : RKNN3_ERR_ARGUMENT_INVALID;
}

#ifdef LATER
EXPORT int rknn3_set_weight_mem(rknn3_context ctx, rknn3_tensor_mem **mem, uint32_t n) {
    return give(ID_rknn3_set_weight_mem, ctx, mem, n, 1);
}
#endif
