/* Memory that programs share with contexts: memfds, mapped here and, once a context uses them, in the server.
 *
 * Memory belongs to no context here: each that is given one learns of it then, by its descriptor.
 */
#include "rknnrt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct memory {
    rknn_tensor_mem mem; /* what the program sees; found by its address, which is never read before */
    struct memory *next;
    uint64_t id;
    uint64_t owner; /* the context it was made with, 0 */
    int fd;
    uint64_t flags; /* of rknn_create_mem2 */
    void *mapped;   /* by this library: to be unmapped */
    size_t mapped_size;
    char *mirrored; /* the program's own bytes, which the server cannot map: copied before and after runs */
    bool read, written;
    struct importer *importers;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory *list;
static struct memory *mirrors; /* whether there are any: most programs have none */
static uint64_t last_id;

static rknn_tensor_mem *publish(struct memory *memory, rknn_context owner)
{
    memory->owner = owner;
    memory->mem.priv_data = NULL;
    pthread_mutex_lock(&lock);
    memory->id = ++last_id;
    memory->next = list;
    list = memory;
    if (memory->mirrored)
        mirrors = memory;
    pthread_mutex_unlock(&lock);
    return &memory->mem;
}

static rknn_tensor_mem *refused(const char *function, struct memory *memory, const char *why)
{
    failed(function, RKNN_ERR_PARAM_INVALID, "%s", why);
    if (memory && memory->fd >= 0)
        close(memory->fd);
    free(memory);
    return NULL;
}

/* A record with its descriptor mapped whole, ``size`` bytes from ``offset`` on. */
static struct memory *mapped(const char *function, int fd, size_t size, int32_t offset)
{
    struct memory *memory = calloc(1, sizeof *memory);
    if (!memory || fd < 0) {
        failed(function, RKNN_ERR_MALLOC_FAIL, "no memory of %zu bytes: %s", size, strerror(errno));
        if (fd >= 0)
            close(fd);
        free(memory);
        return NULL;
    }
    memory->fd = fd;
    memory->mapped_size = size + (size_t)offset;
    memory->mapped = mmap(NULL, memory->mapped_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory->mapped == MAP_FAILED) {
        failed(function, RKNN_ERR_MALLOC_FAIL, "descriptor %d cannot be mapped: %s", fd, strerror(errno));
        close(fd);
        free(memory);
        return NULL;
    }
    memory->mem.virt_addr = memory->mapped;
    memory->mem.fd = fd;
    memory->mem.offset = offset;
    memory->mem.size = (uint32_t)size;
    memory->mem.flags = RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE;
    return memory;
}

static rknn_tensor_mem *create(const char *function, rknn_context ctx, uint64_t size, uint64_t flags)
{
    bool alone = (flags & RKNN_MEM_FLAG_ALLOC_NO_CONTEXT) != 0;
    uint64_t kind = flags & ~(uint64_t)RKNN_MEM_FLAG_ALLOC_NO_CONTEXT;
    if (!alone && !channel_is_open(ctx)) {
        failed(function, RKNN_ERR_CTX_INVALID, "there is no context %llu", (unsigned long long)ctx);
        return NULL;
    }
    if (!size || size > UINT32_MAX)
        return refused(function, NULL, "memory has 1 to 4294967295 bytes; give the tensor's size_with_stride");
    if (kind > 7 || (kind & 3) == 3)
        return refused(function, NULL, "these flags are not legal: cacheable 1 or not 2, SRAM if possible 4");
    struct memory *memory = mapped(function, wire_memory((size_t)size), (size_t)size, 0);
    if (!memory)
        return NULL;
    memory->flags = kind;
    return publish(memory, ctx);
}

PUBLIC rknn_tensor_mem *rknn_create_mem(rknn_context ctx, uint32_t size)
{
    return create("rknn_create_mem", ctx, size, 0);
}

PUBLIC rknn_tensor_mem *rknn_create_mem2(rknn_context ctx, uint64_t size, uint64_t alloc_flags)
{
    return create("rknn_create_mem2", ctx, size, alloc_flags);
}

PUBLIC rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context ctx, int32_t fd, void *virt_addr, uint32_t size,
                                                int32_t offset)
{
    const char *function = "rknn_create_mem_from_fd";
    if (ctx && !channel_is_open(ctx)) {
        failed(function, RKNN_ERR_CTX_INVALID, "there is no context %llu", (unsigned long long)ctx);
        return NULL;
    }
    if (fd < 0 || !size || offset < 0)
        return refused(function, NULL, "the descriptor, the size or the offset is no such thing");
    off_t held = lseek(fd, 0, SEEK_END);
    if (held >= 0 && held < (off_t)size + offset)
        return refused(function, NULL, "the descriptor holds fewer bytes than size and offset say");
    struct memory *memory = mapped(function, fcntl(fd, F_DUPFD_CLOEXEC, 3), size, offset);
    if (!memory)
        return NULL;
    memory->mem.fd = fd;
    memory->mem.flags = RKNN_TENSOR_MEMORY_FLAGS_FROM_FD;
    if (virt_addr) { /* the program has mapped it itself */
        munmap(memory->mapped, memory->mapped_size);
        memory->mapped = NULL;
        memory->mem.virt_addr = virt_addr;
    }
    return publish(memory, ctx);
}

PUBLIC rknn_tensor_mem *rknn_create_mem_from_phys(rknn_context ctx, uint64_t phys_addr, void *virt_addr, uint32_t size)
{
    const char *function = "rknn_create_mem_from_phys";
    if (ctx && !channel_is_open(ctx)) {
        failed(function, RKNN_ERR_CTX_INVALID, "there is no context %llu", (unsigned long long)ctx);
        return NULL;
    }
    if (!virt_addr || !size)
        return refused(function, NULL,
                       "there are no physical addresses here: give the virtual one, or the descriptor of the memory");
    struct memory *memory = mapped(function, wire_memory(size), size, 0);
    if (!memory)
        return NULL;
    memory->mirrored = virt_addr;
    memory->mem.virt_addr = virt_addr;
    memory->mem.phys_addr = phys_addr;
    memory->mem.fd = -1;
    memory->mem.flags = RKNN_TENSOR_MEMORY_FLAGS_FROM_PHYS;
    return publish(memory, ctx);
}

PUBLIC rknn_tensor_mem *rknn_create_mem_from_mb_blk(rknn_context ctx, void *mb_blk, int32_t offset)
{
    (void)ctx, (void)mb_blk, (void)offset;
    return refused("rknn_create_mem_from_mb_blk", NULL, "no platform has it; use rknn_create_mem_from_fd");
}

/* -- what contexts know ------------------------------------------------------------------------------ */

static struct memory **find(const rknn_tensor_mem *mem)
{
    struct memory **at = &list;
    while (*at && &(*at)->mem != mem)
        at = &(*at)->next;
    return at;
}

int memory_import(struct channel *channel, const char *function, const rknn_tensor_mem *mem, uint64_t *id)
{
    pthread_mutex_lock(&lock);
    struct memory *memory = *find(mem);
    int fd = memory ? fcntl(memory->fd, F_DUPFD_CLOEXEC, 3) : -1;
    struct talk talk = {.function = function, .call = CALL_MEMORY, .fds = &fd, .n_fds = 1};
    bool known = false;
    if (memory) {
        known = importers_have(memory->importers, channel->id);
        *id = talk.args[0] = memory->id;
        talk.args[1] = memory->mem.size;
        talk.args[2] = (uint64_t)memory->mem.offset;
        talk.args[3] = memory->flags;
    }
    pthread_mutex_unlock(&lock);
    int code = RKNN_SUCC;
    if (!memory) {
        code = failed(function, RKNN_ERR_PARAM_INVALID, "there is no rknn_tensor_mem at %p; it was destroyed, or never made",
                      (const void *)mem);
    } else if (!known) {
        code = channel_talk(channel, &talk);
        free(talk.answer);
        pthread_mutex_lock(&lock);
        memory = code ? NULL : *find(mem);
        if (memory)
            importers_add(&memory->importers, channel->id);
        pthread_mutex_unlock(&lock);
    }
    if (fd >= 0)
        close(fd);
    return code;
}

static void free_memory(struct memory *memory)
{
    if (memory->mapped)
        munmap(memory->mapped, memory->mapped_size);
    close(memory->fd);
    free(memory);
}

PUBLIC int rknn_destroy_mem(rknn_context ctx, rknn_tensor_mem *mem)
{
    (void)ctx;
    pthread_mutex_lock(&lock);
    struct memory **at = find(mem), *memory = *at;
    if (memory)
        *at = memory->next;
    pthread_mutex_unlock(&lock);
    if (!memory)
        return failed("rknn_destroy_mem", RKNN_ERR_PARAM_INVALID,
                      "there is no rknn_tensor_mem at %p; it was destroyed, or never made", (void *)mem);
    importers_end(&memory->importers, "rknn_destroy_mem", memory->id);
    free_memory(memory);
    return RKNN_SUCC;
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

/* -- memory that the server cannot map --------------------------------------------------------------- */

void memory_bound(uint64_t id, bool input)
{
    pthread_mutex_lock(&lock);
    for (struct memory *memory = list; memory; memory = memory->next)
        if (memory->id == id) {
            memory->read = memory->read || input;
            memory->written = memory->written || !input;
        }
    pthread_mutex_unlock(&lock);
}

static void mirror(bool to_server)
{
    if (!mirrors)
        return;
    pthread_mutex_lock(&lock);
    for (struct memory *memory = list; memory; memory = memory->next) {
        if (!memory->mirrored)
            continue;
        if (to_server && memory->read)
            memcpy(memory->mapped, memory->mirrored, memory->mem.size);
        if (!to_server && memory->written)
            memcpy(memory->mirrored, memory->mapped, memory->mem.size);
    }
    pthread_mutex_unlock(&lock);
}

void memory_to_server(void)
{
    mirror(true);
}

void memory_from_server(void)
{
    mirror(false);
}

/* -- flushing --------------------------------------------------------------------------------------------- */

/* Contexts that flush by themselves have nothing to do here. */
PUBLIC int rknn_mem_sync(rknn_context context, rknn_tensor_mem *mem, rknn_mem_sync_mode mode)
{
    const char *function = "rknn_mem_sync";
    uint64_t ids[16];
    int count = 0, code = RKNN_SUCC;
    if (mode < RKNN_MEMORY_SYNC_TO_DEVICE || mode > RKNN_MEMORY_SYNC_BIDIRECTIONAL)
        return failed(function, RKNN_ERR_PARAM_INVALID, "mode is %d; 1 is to the device, 2 from the device, 3 both", (int)mode);
    if ((context || MINI) && !channel_is_open(context))
        return failed(function, RKNN_ERR_CTX_INVALID, "there is no context %llu", (unsigned long long)context);
    pthread_mutex_lock(&lock);
    struct memory *memory = *find(mem);
    for (struct importer *importer = memory ? memory->importers : NULL; importer && count < 15; importer = importer->next)
        ids[count++] = importer->channel;
    uint64_t own = memory ? (context ? context : memory->owner) : 0;
    if (own && !importers_have(memory->importers, own)) /* synced before it is bound */
        ids[count++] = own;
    pthread_mutex_unlock(&lock);
    if (!memory)
        return failed(function, RKNN_ERR_PARAM_INVALID, "there is no rknn_tensor_mem at %p; it was destroyed, or never made",
                      (void *)mem);
    for (int i = 0; !code && i < count; i++) {
        struct channel *channel = channel_look(ids[i]);
        if (!channel)
            continue;
        if (channel->facts & INIT_SYNCS) {
            struct talk talk = {.function = function, .call = CALL_SYNC, .args = {0, (uint64_t)mode}};
            code = memory_import(channel, function, mem, &talk.args[0]);
            if (!code)
                code = channel_talk(channel, &talk);
            free(talk.answer);
        }
        channel_let_go(channel);
    }
    return code;
}
