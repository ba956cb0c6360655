/* Tensor memory: memfds stand in for dma-bufs, so that a descriptor can be mapped a second time. */
#define _GNU_SOURCE
#include "double.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static memory *wrap(context *owner) {
    memory *m = calloc(1, sizeof *m);
    m->owner = owner;
    m->mem.fd = m->own_fd = -1;
    return m;
}

memory *new_memory(context *owner, size_t size) {
    memory *m = wrap(owner);
    m->own_fd = m->mem.fd = memfd_create("double", MFD_CLOEXEC);
    if (m->own_fd < 0 || ftruncate(m->own_fd, size)) {
        free_memory(m);
        return NULL;
    }
    m->mapped_size = size;
    m->mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, m->own_fd, 0);
    m->mem.virt_addr = m->mapped;
    m->mem.phys_addr = 0x80000000u + (uint32_t)(uintptr_t)m->mapped;
    m->mem.size = size;
    m->mem.flags = RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE;
    return m;
}

void free_memory(memory *m) {
    if (m->mapped && m->mapped != MAP_FAILED) munmap(m->mapped, m->mapped_size);
    if (m->own_fd >= 0) close(m->own_fd);
    free(m);
}

static rknn_tensor_mem *hand_out(memory *m, function_id id) {
    if (!m) return NULL;
    if (is_short(id)) m->mem.size /= 2;
    remember(m, KIND_MEMORY);
    live(LIVE_MEMS, 1);
    if (m->owner) m->owner->children++;
    return &m->mem;
}

EXPORT rknn_tensor_mem *rknn_create_mem(rknn_context ctx, uint32_t size) {
    context *c = (context *)(uintptr_t)ctx;
    if (enter(ID_rknn_create_mem) || !known(c, KIND_CONTEXT) || !size) return NULL;
    return hand_out(new_memory(c, size), ID_rknn_create_mem);
}

EXPORT rknn_tensor_mem *rknn_create_mem2(rknn_context ctx, uint64_t size, uint64_t flags) {
    context *c = (context *)(uintptr_t)ctx;
    if (enter(ID_rknn_create_mem2) || !size || size > UINT32_MAX) return NULL;
    if (!(flags & RKNN_MEM_FLAG_ALLOC_NO_CONTEXT) && !known(c, KIND_CONTEXT)) return NULL;
    return hand_out(new_memory(ctx ? c : NULL, size), ID_rknn_create_mem2);
}

EXPORT rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context ctx, int32_t fd, void *virt, uint32_t size,
                                                int32_t offset) {
    context *c = (context *)(uintptr_t)ctx;
    if (enter(ID_rknn_create_mem_from_fd) || !known(c, KIND_CONTEXT) || fd < 0 || !size || !virt) return NULL;
    memory *m = wrap(c);
    m->mem = (rknn_tensor_mem){virt, 0, fd, offset, size, RKNN_TENSOR_MEMORY_FLAGS_FROM_FD, NULL};
    return hand_out(m, ID_rknn_create_mem_from_fd);
}

EXPORT rknn_tensor_mem *rknn_create_mem_from_phys(rknn_context ctx, uint64_t phys, void *virt, uint32_t size) {
    context *c = (context *)(uintptr_t)ctx;
    if (enter(ID_rknn_create_mem_from_phys) || !known(c, KIND_CONTEXT) || !phys || !size) return NULL;
    memory *m = wrap(c);
    m->mem = (rknn_tensor_mem){virt, phys, -1, 0, size, RKNN_TENSOR_MEMORY_FLAGS_FROM_PHYS, NULL};
    return hand_out(m, ID_rknn_create_mem_from_phys);
}

EXPORT rknn_tensor_mem *rknn_create_mem_from_mb_blk(rknn_context ctx, void *block, int32_t offset) {
    (void)ctx, (void)block, (void)offset, (void)enter(ID_rknn_create_mem_from_mb_blk);
    return NULL;
}

/* A fault of a function that gives back is reported after the work is done, or nothing would balance. */
EXPORT int rknn_destroy_mem(rknn_context ctx, rknn_tensor_mem *mem) {
    int code = enter(ID_rknn_destroy_mem);
    memory *m = (memory *)mem;
    if (!known(m, KIND_MEMORY)) return RKNN_ERR_PARAM_INVALID;
    if (m->owner) {
        known(m->owner, KIND_CONTEXT);
        m->owner->children--;
        for (int i = 0; i < MAX_IO; i++) {
            if (m->owner->bound_in[i] == m) m->owner->bound_in[i] = NULL;
            if (m->owner->bound_out[i] == m) m->owner->bound_out[i] = NULL;
        }
    }
    (void)ctx;
    if (m->pinned) live(MISORDERED, 1);
    forget(m);
    free_memory(m);
    live(LIVE_MEMS, -1);
    return code;
}

static int set_memory(rknn_context ctx, rknn_tensor_mem *mem, function_id id, int is_weight) {
    context *c = (context *)(uintptr_t)ctx;
    int code = enter(id);
    if (code) return code;
    if (!known(c, KIND_CONTEXT)) return RKNN_ERR_CTX_INVALID;
    if (!known(mem, KIND_MEMORY)) return RKNN_ERR_PARAM_INVALID;
    if (mem->size < (is_weight ? c->net->weight : c->net->internal)) return RKNN_ERR_PARAM_INVALID;
    *(is_weight ? &c->weight : &c->internal) = (memory *)mem;
    return RKNN_SUCC;
}

EXPORT int rknn_set_weight_mem(rknn_context ctx, rknn_tensor_mem *mem) {
    return set_memory(ctx, mem, ID_rknn_set_weight_mem, 1);
}

EXPORT int rknn_set_internal_mem(rknn_context ctx, rknn_tensor_mem *mem) {
    return set_memory(ctx, mem, ID_rknn_set_internal_mem, 0);
}

EXPORT int rknn_mem_sync(rknn_context ctx, rknn_tensor_mem *mem, rknn_mem_sync_mode mode) {
    int code = enter(ID_rknn_mem_sync);
    if (code) return code;
    if (ctx) known((void *)(uintptr_t)ctx, KIND_CONTEXT);
    if (!known(mem, KIND_MEMORY) || mode < 1 || mode > 3) return RKNN_ERR_PARAM_INVALID;
    return RKNN_SUCC;
}

static int find(const tensor *tensors, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (!strncmp(tensors[i].name, name, sizeof tensors[i].name)) return i;
    return -1;
}

EXPORT int rknn_set_io_mem(rknn_context ctx, rknn_tensor_mem *mem, rknn_tensor_attr *attr) {
    context *c = (context *)(uintptr_t)ctx;
    int code = enter(ID_rknn_set_io_mem);
    if (code) return code;
    if (!known(c, KIND_CONTEXT)) return RKNN_ERR_CTX_INVALID;
    if (!attr || !known(mem, KIND_MEMORY)) return RKNN_ERR_PARAM_INVALID;
    int i = find(c->net->in, c->net->n_in, attr->name), is_input = i >= 0;
    if (!is_input && (i = find(c->net->out, c->net->n_out, attr->name)) < 0) return RKNN_ERR_PARAM_INVALID;
    tensor t = is_input ? input_of(c, i) : output_of(c, i);
    placing *p = is_input ? &c->place_in[i] : &c->place_out[i];
    rknn_tensor_attr native;
    describe(&t, i, is_input, is_input ? RKNN_QUERY_NATIVE_INPUT_ATTR : RKNN_QUERY_NATIVE_OUTPUT_ATTR, &native);
    place(&t, attr, is_input, p);
    size_t need = attr->fmt == native.fmt && type_size(attr->type) == type_size(t.type)
                      ? native.size_with_stride
                  : attr->fmt == RKNN_TENSOR_NC1HWC2 ? native.n_elems * type_size(attr->type)
                                                     : elements(&t) * type_size(attr->type);
    if (mem->size < need) return RKNN_ERR_PARAM_INVALID;
    p->data = (unsigned char *)mem->virt_addr + mem->offset;
    p->size = need;
    (is_input ? c->bound_in : c->bound_out)[i] = (memory *)mem;
    return RKNN_SUCC;
}
