/* librockit.so and libmpimmz.so: what the vendor's media library does with memory (RK_MPI_MMZ_*, RK_MPI_MB_*, RK_MPI_SYS_*).
 *
 * Cameras, encoders and displays are not here. A block is a memfd that is mapped; its physical address is a number of its own
 * that nothing can be done with but to give it back.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define PAGE 4096u
#define FIRST_ADDRESS 0x40000000u
#define UNCACHEABLE 0x10 /* of the flags of RK_MPI_MMZ_Alloc */
#define FAILED (-1)

#ifndef RKNNLITE_VERSION
#define RKNNLITE_VERSION "unknown"
#endif

__attribute__((used)) static const char version[] = "librockit (rknnlite " RKNNLITE_VERSION ")";

#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1u
#endif

struct block {
    struct block *next;
    int fd;
    char *at;
    uint32_t size;
    uint64_t physical;
    bool cacheable;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *list;
static uint64_t next_address = FIRST_ADDRESS;

/* A copy of what is known of the block for which ``is`` holds; its handle, NULL. */
static void *find(struct block *found, bool (*is)(const struct block *block, uint64_t value), uint64_t value)
{
    pthread_mutex_lock(&lock);
    struct block *block = list;
    while (block && !is(block, value))
        block = block->next;
    if (block)
        *found = *block;
    pthread_mutex_unlock(&lock);
    return block;
}

static bool is_handle(const struct block *block, uint64_t value)
{
    return (uintptr_t)block == value;
}

static bool is_descriptor(const struct block *block, uint64_t value)
{
    return (uint64_t)block->fd == value;
}

static bool holds_virtual(const struct block *block, uint64_t value)
{
    return value - (uintptr_t)block->at < block->size;
}

static bool holds_physical(const struct block *block, uint64_t value)
{
    return value - block->physical < block->size;
}

static bool known(void *handle, struct block *found)
{
    return find(found, is_handle, (uintptr_t)handle) != NULL;
}

/* -- RK_MPI_MMZ_* --------------------------------------------------------------------------------------- */

PUBLIC int32_t RK_MPI_MMZ_Alloc(void **handle, uint32_t size, uint32_t flags)
{
    struct block *block = handle && size ? calloc(1, sizeof *block) : NULL;
    if (!block)
        return FAILED;
    block->fd = (int)syscall(SYS_memfd_create, "rknnlite", MFD_CLOEXEC);
    block->at = MAP_FAILED;
    if (block->fd >= 0 && ftruncate(block->fd, (off_t)size) == 0)
        block->at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, block->fd, 0);
    if (block->at == MAP_FAILED) {
        perror("E librockit (rknnlite): RK_MPI_MMZ_Alloc");
        if (block->fd >= 0)
            close(block->fd);
        free(block);
        return FAILED;
    }
    block->size = size;
    block->cacheable = !(flags & UNCACHEABLE);
    pthread_mutex_lock(&lock);
    block->physical = next_address;
    next_address += ((uint64_t)size + PAGE - 1) / PAGE * PAGE;
    block->next = list;
    list = block;
    pthread_mutex_unlock(&lock);
    *handle = block;
    return 0;
}

PUBLIC int32_t RK_MPI_MMZ_Free(void *handle)
{
    pthread_mutex_lock(&lock);
    struct block **at = &list;
    while (*at && *at != handle)
        at = &(*at)->next;
    struct block *block = *at;
    if (block)
        *at = block->next;
    pthread_mutex_unlock(&lock);
    if (!block)
        return FAILED;
    munmap(block->at, block->size);
    close(block->fd);
    free(block);
    return 0;
}

PUBLIC uint64_t RK_MPI_MMZ_Handle2PhysAddr(void *handle)
{
    struct block block;
    return known(handle, &block) ? block.physical : 0;
}

PUBLIC void *RK_MPI_MMZ_Handle2VirAddr(void *handle)
{
    struct block block;
    return known(handle, &block) ? block.at : NULL;
}

PUBLIC int32_t RK_MPI_MMZ_Handle2Fd(void *handle)
{
    struct block block;
    return known(handle, &block) ? block.fd : FAILED;
}

PUBLIC uint64_t RK_MPI_MMZ_GetSize(void *handle)
{
    struct block block;
    return known(handle, &block) ? block.size : 0;
}

PUBLIC void *RK_MPI_MMZ_Fd2Handle(int32_t fd)
{
    struct block block;
    return find(&block, is_descriptor, (uint64_t)fd);
}

PUBLIC void *RK_MPI_MMZ_VirAddr2Handle(void *address)
{
    struct block block;
    return find(&block, holds_virtual, (uintptr_t)address);
}

PUBLIC void *RK_MPI_MMZ_PhyAddr2Handle(uint64_t address)
{
    struct block block;
    return find(&block, holds_physical, address);
}

PUBLIC int32_t RK_MPI_MMZ_IsCacheable(void *handle)
{
    struct block block;
    return known(handle, &block) ? block.cacheable : FAILED;
}

/* Caches are coherent here: flushing says whether there is such memory. */
static int32_t flushed(bool there)
{
    return there ? 0 : FAILED;
}

#define FLUSH(name, type, find_it)                                                                                     \
    PUBLIC int32_t name##Start(type what, uint32_t size, uint32_t flags)                                               \
    {                                                                                                                  \
        (void)size, (void)flags;                                                                                       \
        return flushed(find_it(what) != NULL);                                                                         \
    }                                                                                                                  \
    PUBLIC int32_t name##End(type what, uint32_t size, uint32_t flags)                                                 \
    {                                                                                                                  \
        (void)size, (void)flags;                                                                                       \
        return flushed(find_it(what) != NULL);                                                                         \
    }

FLUSH(RK_MPI_MMZ_FlushCacheVaddr, void *, RK_MPI_MMZ_VirAddr2Handle)
FLUSH(RK_MPI_MMZ_FlushCachePaddr, uint64_t, RK_MPI_MMZ_PhyAddr2Handle)

PUBLIC int32_t RK_MPI_MMZ_FlushCacheStart(void *handle, uint32_t offset, uint32_t size, uint32_t flags)
{
    struct block block;
    (void)offset, (void)size, (void)flags;
    return flushed(known(handle, &block));
}

PUBLIC int32_t RK_MPI_MMZ_FlushCacheEnd(void *handle, uint32_t offset, uint32_t size, uint32_t flags)
{
    return RK_MPI_MMZ_FlushCacheStart(handle, offset, size, flags);
}

/* -- the same, by the names of the larger library -------------------------------------------------------- */

PUBLIC int32_t RK_MPI_SYS_Init(void)
{
    return 0;
}

PUBLIC int32_t RK_MPI_SYS_Exit(void)
{
    return 0;
}

PUBLIC int32_t RK_MPI_SYS_MmzAlloc(void **handle, const char *name, const char *zone, uint32_t size)
{
    (void)name, (void)zone;
    return RK_MPI_MMZ_Alloc(handle, size, UNCACHEABLE);
}

PUBLIC int32_t RK_MPI_SYS_MmzAlloc_Cached(void **handle, const char *name, const char *zone, uint32_t size)
{
    (void)name, (void)zone;
    return RK_MPI_MMZ_Alloc(handle, size, 0);
}

PUBLIC int32_t RK_MPI_SYS_MmzFree(void *handle)
{
    return RK_MPI_MMZ_Free(handle);
}

PUBLIC int32_t RK_MPI_SYS_MmzFlushCache(void *handle, int32_t read_only)
{
    return RK_MPI_MMZ_FlushCacheStart(handle, 0, 0, (uint32_t)read_only);
}

PUBLIC uint64_t RK_MPI_MB_Handle2PhysAddr(void *handle)
{
    return RK_MPI_MMZ_Handle2PhysAddr(handle);
}

PUBLIC void *RK_MPI_MB_Handle2VirAddr(void *handle)
{
    return RK_MPI_MMZ_Handle2VirAddr(handle);
}

PUBLIC int32_t RK_MPI_MB_Handle2Fd(void *handle)
{
    return RK_MPI_MMZ_Handle2Fd(handle);
}

PUBLIC void *RK_MPI_MB_VirAddr2Handle(void *address)
{
    return RK_MPI_MMZ_VirAddr2Handle(address);
}

PUBLIC uint64_t RK_MPI_MB_GetSize(void *handle)
{
    return RK_MPI_MMZ_GetSize(handle);
}

PUBLIC int32_t RK_MPI_MB_ReleaseMB(void *handle)
{
    return RK_MPI_MMZ_Free(handle);
}
