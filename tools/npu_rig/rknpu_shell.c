/* A program that uses the vendor's kernel interface as librknnrt does, told what to do line by line; every line gets one answer.
 *
 *   open                       the first device whose driver is rknpu      -> path, name and date of the driver
 *   action WHAT VALUE          -> value
 *   create SIZE FLAGS          allocated and mapped                        -> handle dma_addr obj_addr size
 *   write HANDLE OFFSET FILE   a file into a buffer                        -> bytes
 *   read HANDLE OFFSET SIZE FILE                                           -> bytes
 *   sync HANDLE FLAGS
 *   submit HANDLE FLAGS MASK START NUMBER [START NUMBER] x 5               -> records done
 *   share HANDLE               as a descriptor, imported again             -> handle
 *   destroy HANDLE
 *
 * An answer begins with "ok", or is "error NAME NUMBER".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "rknpu_abi.h"

enum { MOST = 256 };
struct version { int major, minor, patch; size_t name_size; char *name; size_t date_size; char *date; size_t text_size; char *text; };
struct prime { uint32_t handle, flags; int32_t fd; };
static struct buffer { uint64_t obj, dma, size; char *at; } buffers[MOST];
static int device = -1;

#define CALL(number, argument) do { if (ioctl(device, number, argument)) { printf("error %s %d\n", #number, errno); return; } } while (0)

static struct buffer *known(unsigned long handle)
{
    if (handle < MOST && buffers[handle].at) return &buffers[handle];
    printf("error handle %d\n", EINVAL);
    return NULL;
}

static void open_device(void)
{
    static const char *const forms[] = {"/dev/dri/card%d", "/dev/dri/renderD%d"};
    char path[64], name[64], date[64];
    int form, number;
    for (form = 0; form < 2; form++)
        for (number = form ? 128 : 0; number < (form ? 136 : 8); number++) {
            struct version version;
            snprintf(path, sizeof path, forms[form], number);
            device = open(path, O_RDWR | O_CLOEXEC);
            if (device < 0) continue;
            memset(&version, 0, sizeof version);
            version.name = name, version.name_size = sizeof name - 1;
            version.date = date, version.date_size = sizeof date - 1;
            if (!ioctl(device, _IOWR('d', 0, struct version), &version)) {
                name[version.name_size < 63 ? version.name_size : 63] = date[version.date_size < 63 ? version.date_size : 63] = 0;
                if (!strcmp(name, "rknpu")) { printf("ok %s %s %s\n", path, name, date); return; }
            }
            close(device);
        }
    printf("error open %d\n", ENODEV);
}

static void map(uint32_t handle, uint32_t flags, uint64_t size)
{
    struct MemCreate create = {.handle = handle, .flags = flags, .size = size};
    struct MemMap where;
    char *at;
    CALL(RKNPU_MEM_CREATE, &create);
    memset(&where, 0, sizeof where);
    where.handle = create.handle;
    CALL(RKNPU_MEM_MAP, &where);
    at = mmap(NULL, create.size, PROT_READ | PROT_WRITE, MAP_SHARED, device, where.offset);
    if (at == MAP_FAILED || create.handle >= MOST) { printf("error mmap %d\n", errno); return; }
    buffers[create.handle] = (struct buffer){create.obj_addr, create.dma_addr, create.size, at};
    printf("ok %u %llu %llu %llu\n", create.handle, (unsigned long long)create.dma_addr, (unsigned long long)create.obj_addr,
           (unsigned long long)create.size);
}

static void move(struct buffer *buffer, unsigned long offset, size_t size, const char *path, int reads)
{
    FILE *file;
    size_t done;
    if (!buffer) return;
    file = fopen(path, reads ? "wb" : "rb");
    if (!file || offset > buffer->size) { printf("error file %d\n", errno); return; }
    if (size > buffer->size - offset) size = buffer->size - offset;
    done = reads ? fwrite(buffer->at + offset, 1, size, file) : fread(buffer->at + offset, 1, size, file);
    fclose(file);
    printf("ok %zu\n", done);
}

static void submit(struct buffer *tasks, const unsigned long *numbers)
{
    struct Submit job;
    int i;
    if (!tasks) return;
    memset(&job, 0, sizeof job);
    job.flags = numbers[0], job.core_mask = numbers[1], job.task_start = numbers[2], job.task_number = numbers[3];
    for (i = 0; i < 5; i++) job.subcore_task[i] = (struct TaskRange){numbers[4 + 2 * i], numbers[5 + 2 * i]};
    job.timeout = 6000, job.task_obj_addr = tasks->obj, job.fence_fd = -1;
    CALL(RKNPU_SUBMIT, &job);
    printf("ok %u\n", job.task_counter);
}

static void share(struct buffer *buffer, uint32_t handle)
{
    struct prime prime = {handle, O_CLOEXEC | O_RDWR, -1};
    if (!buffer) return;
    CALL(_IOWR('d', 0x2d, struct prime), &prime);
    prime.handle = 0;
    CALL(_IOWR('d', 0x2e, struct prime), &prime);
    close(prime.fd);
    map(prime.handle, 0, 0);
}

int main(void)
{
    char line[4096], word[32], path[4000];
    unsigned long n[16];
    while (fgets(line, sizeof line, stdin)) {
        int words;
        memset(n, 0, sizeof n);
        path[0] = 0;
        if (sscanf(line, "%31s", word) != 1) continue;
        words = sscanf(line, "%*s %lu %lu %lu %lu %lu %lu %lu %lu %lu %lu %lu %lu %lu %lu %lu", n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8,
                       n + 9, n + 10, n + 11, n + 12, n + 13, n + 14);
        if (!strcmp(word, "open")) open_device();
        else if (!strcmp(word, "action")) {
            struct UserAction action = {n[0], n[1]};
            if (ioctl(device, RKNPU_ACTION, &action)) printf("error RKNPU_ACTION %d\n", errno);
            else printf("ok %u\n", action.value);
        }
        else if (!strcmp(word, "create")) map(0, n[1], n[0]);
        else if (!strcmp(word, "write")) { sscanf(line, "%*s %*u %*u %3999s", path); move(known(n[0]), n[1], (size_t)-1, path, 0); }
        else if (!strcmp(word, "read")) { sscanf(line, "%*s %*u %*u %*u %3999s", path); move(known(n[0]), n[1], n[2], path, 1); }
        else if (!strcmp(word, "sync")) {
            struct buffer *buffer = known(n[0]);
            struct MemSync sync = {n[1], 0, buffer ? buffer->obj : 0, 0, buffer ? buffer->size : 0};
            if (buffer) { if (ioctl(device, RKNPU_MEM_SYNC, &sync)) printf("error RKNPU_MEM_SYNC %d\n", errno); else printf("ok\n"); }
        }
        else if (!strcmp(word, "submit")) submit(known(n[0]), n + 1);
        else if (!strcmp(word, "share")) share(known(n[0]), n[0]);
        else if (!strcmp(word, "destroy")) {
            struct buffer *buffer = known(n[0]);
            struct MemDestroy destroy = {n[0], 0, buffer ? buffer->obj : 0};
            if (buffer) {
                munmap(buffer->at, buffer->size);
                buffer->at = NULL;
                if (ioctl(device, RKNPU_MEM_DESTROY, &destroy)) printf("error RKNPU_MEM_DESTROY %d\n", errno); else printf("ok\n");
            }
        }
        else printf("error word %d\n", words);
        fflush(stdout);
    }
    return 0;
}
