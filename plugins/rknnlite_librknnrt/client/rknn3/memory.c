/* Memory of programs: memfds, mapped here and, once a context uses them, in the server, which sees them at once.
 *
 * There is no device memory behind it, so rknn3_mem_sync has nothing to move.
 */
#include "rknn3.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct memory {
    rknn3_tensor_mem mem; /* what the program sees; found by its address, which is never read before */
    struct memory *next;
    uint64_t id, size, offset;
    int fd;
    void *mapped;
    size_t mapped_size;
    struct importer *importers;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory *list;
static uint64_t last_id;

static struct memory **find(const rknn3_tensor_mem *mem)
{
    struct memory **at = &list;
    while (*at && &(*at)->mem != mem)
        at = &(*at)->next;
    return at;
}

static rknn3_tensor_mem *none(const char *function, int code, const char *why)
{
    failed(function, code, "%s", why);
    return NULL;
}

static bool is_context(const char *function, rknn3_context context)
{
    if (channel_is_open(context))
        return true;
    failed(function, RKNN3_ERR_CTX_INVALID, "there is no context %llu", (unsigned long long)context);
    return false;
}

/* Map ``size`` bytes from ``offset`` of a descriptor, which becomes the record's. */
static rknn3_tensor_mem *made(const char *function, int fd, uint64_t size, uint64_t offset, int shown, void *address,
                              int32_t core)
{
    struct memory *memory = calloc(1, sizeof *memory);
    void *at = MAP_FAILED;
    if (memory && fd >= 0)
        at = mmap(NULL, (size_t)(size + offset), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        failed(function, RKNN3_ERR_OUT_OF_MEMORY, "no memory of %llu bytes: %s", (unsigned long long)size, strerror(errno));
        if (fd >= 0)
            close(fd);
        free(memory);
        return NULL;
    }
    memory->fd = fd;
    memory->size = size;
    memory->offset = offset;
    memory->mapped = at;
    memory->mapped_size = (size_t)(size + offset);
    memory->mem.virt_addr = address ? address : at;
    memory->mem.fd = shown < 0 ? fd : shown;
    memory->mem.offset = offset;
    memory->mem.size = size;
    memory->mem.core_id = core;
    memory->mem.mem_type = RKNN3_MEMORY_TYPE_NPU_DRAM;
    pthread_mutex_lock(&lock);
    memory->id = memory->mem.buffer_id = ++last_id;
    memory->next = list;
    list = memory;
    pthread_mutex_unlock(&lock);
    return &memory->mem;
}

PUBLIC rknn3_tensor_mem *rknn3_create_mem(rknn3_context context, uint64_t size, int32_t core_id,
                                          rknn3_mem_alloc_flags flags)
{
    const char *function = "rknn3_create_mem";
    if (!is_context(function, context))
        return NULL;
    if (!size || size > (uint64_t)1 << 40)
        return none(function, RKNN3_ERR_ARGUMENT_INVALID, "memory has 1 byte to 1 TiB; give the tensor's aligned_size");
    if ((unsigned)flags > RKNN3_FLAG_MEMORY_NON_CACHEABLE)
        return none(function, RKNN3_ERR_ARGUMENT_INVALID, "flags are 0, 1 (cacheable) or 2 (not cacheable)");
    if (core_id < 0 || core_id > 7)
        return none(function, RKNN3_ERR_ARGUMENT_INVALID, "cores are 0 to 7; give the tensor's core_id");
    rknn3_tensor_mem *mem = made(function, wire_memory((size_t)size), size, 0, -1, NULL, core_id);
    if (mem)
        mem->flags = (uint64_t)flags;
    return mem;
}

PUBLIC rknn3_tensor_mem *rknn3_create_mem_from_fd(rknn3_context context, int32_t fd, void *virt_addr, uint64_t size,
                                                  uint64_t offset)
{
    const char *function = "rknn3_create_mem_from_fd";
    if (!is_context(function, context))
        return NULL;
    off_t held = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (fd < 0 || !size || size + offset < size || (held >= 0 && (uint64_t)held < size + offset))
        return none(function, RKNN3_ERR_ARGUMENT_INVALID, "the descriptor holds fewer bytes than size and offset say");
    return made(function, fcntl(fd, F_DUPFD_CLOEXEC, 3), size, offset, fd, virt_addr, 0);
}

PUBLIC rknn3_tensor_mem *rknn3_create_mem_from_phys(rknn3_context context, uint64_t phys_addr, void *virt_addr,
                                                    uint64_t size)
{
    (void)phys_addr, (void)virt_addr, (void)size;
    const char *function = "rknn3_create_mem_from_phys";
    if (!is_context(function, context))
        return NULL;
    return none(function, RKNN3_ERR_ARGUMENT_INVALID,
                "there are no physical addresses here; use rknn3_create_mem, or rknn3_create_mem_from_fd");
}

static struct memory *take_out(const rknn3_tensor_mem *mem)
{
    pthread_mutex_lock(&lock);
    struct memory **at = find(mem), *memory = *at;
    if (memory)
        *at = memory->next;
    pthread_mutex_unlock(&lock);
    return memory;
}

static int unknown(const char *function, const rknn3_tensor_mem *mem)
{
    return failed(function, RKNN3_ERR_ARGUMENT_INVALID,
                  "there is no rknn3_tensor_mem at %p; it was destroyed, or never made", (const void *)mem);
}

PUBLIC int rknn3_destroy_mem(rknn3_context context, rknn3_tensor_mem *mem)
{
    (void)context;
    struct memory *memory = take_out(mem);
    if (!memory)
        return unknown("rknn3_destroy_mem", mem);
    importers_end(&memory->importers, "rknn3_destroy_mem", memory->id);
    munmap(memory->mapped, memory->mapped_size);
    close(memory->fd);
    free(memory);
    return RKNN3_SUCCESS;
}

static int synced(const char *function, rknn3_context context, const rknn3_tensor_mem *mem, rknn3_mem_sync_mode mode,
                uint64_t offset, uint64_t length)
{
    if (!is_context(function, context))
        return RKNN3_ERR_CTX_INVALID;
    uint64_t size = memory_size(mem);
    if (!size)
        return unknown(function, mem);
    if (mode < RKNN3_MEMORY_SYNC_TO_DEVICE || mode > RKNN3_MEMORY_SYNC_BIDIRECTIONAL)
        return failed(function, RKNN3_ERR_ARGUMENT_INVALID, "mode is %d; 1 is to the device, 2 from the device, 3 both",
                      (int)mode);
    if (offset > size || length > size - offset)
        return failed(function, RKNN3_ERR_ARGUMENT_INVALID, "%llu bytes from %llu on are not inside the memory of %llu bytes",
                      (unsigned long long)length, (unsigned long long)offset, (unsigned long long)size);
    return RKNN3_SUCCESS;
}

PUBLIC int rknn3_mem_sync(rknn3_context context, rknn3_tensor_mem *mem, rknn3_mem_sync_mode mode)
{
    return synced("rknn3_mem_sync", context, mem, mode, 0, 0);
}

/* One of the later revision. */
PUBLIC int rknn3_mem_sync_range(rknn3_context context, rknn3_tensor_mem *mem, rknn3_mem_sync_mode mode, uint64_t offset,
                                uint64_t length);
int rknn3_mem_sync_range(rknn3_context context, rknn3_tensor_mem *mem, rknn3_mem_sync_mode mode, uint64_t offset,
                         uint64_t length)
{
    program_is_later(context);
    return synced("rknn3_mem_sync_range", context, mem, mode, offset, length);
}

/* -- what contexts know ------------------------------------------------------------------------------ */

uint64_t memory_size(const rknn3_tensor_mem *mem)
{
    pthread_mutex_lock(&lock);
    const struct memory *memory = *find(mem);
    uint64_t size = memory ? memory->size : 0;
    pthread_mutex_unlock(&lock);
    return size;
}

static void remember(const rknn3_tensor_mem *mem, uint64_t channel)
{
    pthread_mutex_lock(&lock);
    struct memory *memory = *find(mem);
    if (memory)
        importers_add(&memory->importers, channel);
    pthread_mutex_unlock(&lock);
}

int memory_import(struct channel *channel, const char *function, const rknn3_tensor_mem *mem, uint64_t *id)
{
    pthread_mutex_lock(&lock);
    struct memory *memory = *find(mem);
    if (!memory) {
        pthread_mutex_unlock(&lock);
        return unknown(function, mem);
    }
    bool known = importers_have(memory->importers, channel->id);
    int fd = known ? -1 : fcntl(memory->fd, F_DUPFD_CLOEXEC, 3);
    struct talk talk = {.function = function, .call = CALL_MEMORY, .args = {memory->id, memory->size, memory->offset}};
    *id = memory->id;
    pthread_mutex_unlock(&lock);
    if (known)
        return RKNN3_SUCCESS;
    talk.fds = &fd;
    talk.n_fds = fd < 0 ? 0 : 1;
    int code = channel_talk(channel, &talk);
    free(talk.answer);
    if (fd >= 0)
        close(fd);
    if (!code)
        remember(mem, channel->id);
    return code;
}

void memory_leave(uint64_t channel)
{
    pthread_mutex_lock(&lock);
    for (struct memory *memory = list; memory; memory = memory->next)
        importers_remove(&memory->importers, channel);
    pthread_mutex_unlock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
}

__attribute__((constructor)) static void prepare(void)
{
    pthread_atfork(NULL, NULL, after_fork);
}
