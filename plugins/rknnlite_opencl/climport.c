/* clImportMemoryARM for OpenCL libraries that lack it: the Mali extension by which GPU operators take the
 * runtime's tensors in.
 *
 * A dma-buf (or a memfd that stands in for one) is mapped and becomes a buffer over that mapping. Imports are kept
 * per context, file and size, because operators in the field import at every run and never release.
 * rknnlite_cl_forget gives back what was imported of one file.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CL_SUCCESS 0
#define CL_OUT_OF_HOST_MEMORY (-6)
#define CL_INVALID_VALUE (-30)
#define CL_INVALID_OPERATION (-59)
#define CL_INVALID_BUFFER_SIZE (-61)
#define CL_MEM_USE_HOST_PTR (1u << 3)
#define CL_MEM_REFERENCE_COUNT 0x1105
#define CL_IMPORT_TYPE_ARM 0x40B2
#define CL_IMPORT_TYPE_HOST_ARM 0x40B3
#define CL_IMPORT_TYPE_DMA_BUF_ARM 0x40B4

typedef void *(*create_buffer)(void *, uint64_t, size_t, void *, int32_t *);
typedef int32_t (*retain_object)(void *);
typedef int32_t (*object_info)(void *, uint32_t, size_t, void *, size_t *);

typedef struct entry {
    struct entry *next;
    void *context, *mapping, *buffer;
    dev_t device;
    ino_t inode;
    size_t size;
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry *entries;

static void *function(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    void *library = found ? NULL : dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_GLOBAL);
    return found ? found : library ? dlsym(library, name) : NULL;
}

/* Whether a file has `size` bytes, its last page counted whole; one that cannot tell has. */
static int holds(int fd, size_t size)
{
    const off_t page = sysconf(_SC_PAGESIZE), end = lseek(fd, 0, SEEK_END);
    return end < 0 || size <= (size_t)((end + page - 1) / page * page);
}

static void *import_fd(void *context, uint64_t flags, int fd, size_t size, int32_t *error)
{
    create_buffer create = (create_buffer)function("clCreateBuffer");
    retain_object retain = (retain_object)function("clRetainMemObject");
    struct stat status;
    entry *e;

    *error = CL_INVALID_OPERATION;
    if (create == NULL || retain == NULL || fstat(fd, &status) != 0)
        return NULL;
    *error = CL_INVALID_BUFFER_SIZE;
    if (!holds(fd, size))
        return NULL;
    for (e = entries; e != NULL; e = e->next)
        if (e->context == context && e->device == status.st_dev && e->inode == status.st_ino && e->size == size)
            break;
    if (e == NULL) {
        e = calloc(1, sizeof *e);
        *error = CL_OUT_OF_HOST_MEMORY;
        if (e == NULL)
            return NULL;
        e->mapping = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (e->mapping == MAP_FAILED) {
            free(e);
            return NULL;
        }
        e->buffer = create(context, flags | CL_MEM_USE_HOST_PTR, size, e->mapping, error);
        if (e->buffer == NULL) {
            munmap(e->mapping, size);
            free(e);
            return NULL;
        }
        e->context = context, e->device = status.st_dev, e->inode = status.st_ino, e->size = size;
        e->next = entries, entries = e;
    }
    *error = retain(e->buffer); /* one reference is ours, one the caller's to release or to leak */
    return *error == CL_SUCCESS ? e->buffer : NULL;
}

EXPORT void *clImportMemoryARM(void *context, uint64_t flags, const intptr_t *properties, void *memory, size_t size,
                               int32_t *error)
{
    intptr_t type = CL_IMPORT_TYPE_HOST_ARM;
    int32_t ignored;
    void *buffer = NULL;

    if (error == NULL)
        error = &ignored;
    for (; properties != NULL && properties[0] != 0; properties += 2)
        if (properties[0] == CL_IMPORT_TYPE_ARM)
            type = properties[1];
    *error = CL_INVALID_VALUE;
    if (memory == NULL || size == 0)
        return NULL;
    if (type == CL_IMPORT_TYPE_HOST_ARM) {
        create_buffer create = (create_buffer)function("clCreateBuffer");
        return create ? create(context, flags | CL_MEM_USE_HOST_PTR, size, memory, error) : NULL;
    }
    if (type != CL_IMPORT_TYPE_DMA_BUF_ARM)
        return NULL;
    pthread_mutex_lock(&lock);
    buffer = import_fd(context, flags, *(const int *)memory, size, error);
    pthread_mutex_unlock(&lock);
    return buffer;
}

/* Release everything imported of a file, however often it was imported; returns how many buffers that were. */
EXPORT int rknnlite_cl_forget(int fd)
{
    retain_object release = (retain_object)function("clReleaseMemObject");
    object_info info = (object_info)function("clGetMemObjectInfo");
    struct stat status;
    int count = 0;

    if (release == NULL || info == NULL || fstat(fd, &status) != 0)
        return 0;
    pthread_mutex_lock(&lock);
    for (entry **at = &entries; *at != NULL;) {
        entry *e = *at;
        if (e->device != status.st_dev || e->inode != status.st_ino) {
            at = &e->next;
            continue;
        }
        uint32_t references = 1;
        info(e->buffer, CL_MEM_REFERENCE_COUNT, sizeof references, &references, NULL);
        while (references-- > 0)
            release(e->buffer);
        munmap(e->mapping, e->size);
        *at = e->next;
        free(e);
        count++;
    }
    pthread_mutex_unlock(&lock);
    return count;
}

/* Number of buffers kept, for tests. */
EXPORT int rknnlite_cl_imports(void)
{
    int count = 0;
    pthread_mutex_lock(&lock);
    for (entry *e = entries; e != NULL; e = e->next)
        count++;
    pthread_mutex_unlock(&lock);
    return count;
}
