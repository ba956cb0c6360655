/* The heaps below /dev/rk_dma_heap and /dev/dma_heap, where this machine has none, or none for this user.
 *
 * Programs that are linked with librknnmrt.so find open() and ioctl() here before those of the C library. Their memory is a
 * memfd: it can be mapped, sent, and given to rknn_create_mem_from_fd, as a dma-buf can. Includes no client.h, whose
 * _FILE_OFFSET_BITS would give open() another name.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define ALLOC 0xC0184800u    /* DMA_HEAP_IOCTL_ALLOC, of <linux/dma-heap.h> */
#define RK_ALLOC 0xC0185200u /* the same, of <linux/rk-dma-heap.h> */
#define SYNC 0x40086200u     /* DMA_BUF_IOCTL_SYNC, of <linux/dma-buf.h> */

struct allocation { /* what ALLOC takes and fills */
    uint64_t size;
    uint32_t fd, fd_flags;
    uint64_t heap_flags;
};

typedef int (*opener)(const char *path, int flags, ...);

extern int wire_memory(size_t size); /* ../common/wire.c */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int heap = -1; /* each open heap is a copy of it */
static struct stat status;

static void make(void)
{
    heap = wire_memory(0);
    if (heap >= 0 && fstat(heap, &status) != 0)
        heap = -1;
}

static int open_heap(int flags)
{
    pthread_once(&once, make);
    return heap < 0 ? -1 : fcntl(heap, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
}

static int is_heap(int fd)
{
    struct stat its;
    return heap >= 0 && fstat(fd, &its) == 0 && its.st_ino == status.st_ino && its.st_dev == status.st_dev;
}

static int open_either(const char *name, const char *path, int flags, unsigned mode)
{
    opener real = (opener)dlsym(RTLD_NEXT, name);
    if (!real) /* a C library with one name for both */
        real = (opener)dlsym(RTLD_NEXT, "open");
    int fd = real(path, flags, mode);
    if (fd >= 0 || !path || (strncmp(path, "/dev/rk_dma_heap/", 17) != 0 && strncmp(path, "/dev/dma_heap/", 14) != 0))
        return fd;
    return errno == ENOENT || errno == EACCES ? open_heap(flags) : fd;
}

#define MODE_OF(flags, last)                                                                                           \
    unsigned mode = 0;                                                                                                 \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                             \
        va_list more;                                                                                                  \
        va_start(more, last);                                                                                          \
        mode = va_arg(more, unsigned);                                                                                 \
        va_end(more);                                                                                                  \
    }

PUBLIC int heap_open(const char *path, int flags, ...) __asm__("open");
int heap_open(const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    return open_either("open", path, flags, mode);
}

PUBLIC int heap_open64(const char *path, int flags, ...) __asm__("open64");
int heap_open64(const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    return open_either("open64", path, flags, mode);
}

static int allocate(struct allocation *wanted)
{
    int fd = -1;
    if (wanted->size && wanted->size <= UINT32_MAX)
        fd = wire_memory((size_t)wanted->size);
    else
        errno = EINVAL;
    if (fd < 0)
        return -1;
    if (!(wanted->fd_flags & O_CLOEXEC))
        fcntl(fd, F_SETFD, 0);
    wanted->fd = (uint32_t)fd;
    return 0;
}

PUBLIC int heap_ioctl(int fd, unsigned long request, ...) __asm__("ioctl");
int heap_ioctl(int fd, unsigned long request, ...)
{
    static int (*real)(int fd, unsigned long request, ...);
    va_list more;
    va_start(more, request);
    void *argument = va_arg(more, void *);
    va_end(more);
    uint32_t command = (uint32_t)request;
    if ((command == ALLOC || command == RK_ALLOC) && is_heap(fd))
        return allocate(argument);
    /* A memfd, as memory of a heap and of rknn_create_mem are: the processor's caches are all there is. */
    if (command == SYNC && fcntl(fd, F_GET_SEALS) >= 0)
        return 0;
    if (!real)
        real = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
    return real(fd, request, argument);
}
