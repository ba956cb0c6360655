/* What programs hand over, as the server can take it: bytes as memory, paths whole. */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE (1u << 30)

/* A bad address is an error here, not a crash. */
int handover_bytes(const void *bytes, uint64_t size)
{
    int fd = wire_memory(0);
    for (uint64_t done = 0; fd >= 0 && done < size;) {
        ssize_t written = write(fd, (const char *)bytes + done, size - done > PIECE ? PIECE : (size_t)(size - done));
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            close(fd);
            return -1;
        }
        done += (uint64_t)written;
    }
    return fd;
}

int handover_part(const char *path, uint64_t offset, uint64_t size)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), part = -1; /* of a pipe nobody waits */
    if (file >= 0 && fstat(file, &status) == 0) {
        size_t whole = (size_t)status.st_size;
        void *at = MAP_FAILED;
        errno = ERANGE;
        if (size && offset <= whole && size <= whole - offset)
            at = mmap(NULL, whole, PROT_READ, MAP_PRIVATE, file, 0);
        if (at != MAP_FAILED) {
            part = handover_bytes((const char *)at + offset, size);
            munmap(at, whole);
        }
    }
    if (file >= 0)
        close(file);
    return part;
}

char *handover_path(const char *path)
{
    char folder[PATH_MAX];
    if (path[0] == '/' || !getcwd(folder, sizeof folder))
        return strdup(path);
    char *whole = malloc(strlen(folder) + strlen(path) + 2);
    if (whole) {
        strcpy(whole, folder);
        strcat(whole, "/");
        strcat(whole, path);
    }
    return whole;
}
