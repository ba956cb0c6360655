/* A stand-in for the kernel's NPU devices, preloaded into a program: LD_PRELOAD=preload.so RIG_ROOT=FOLDER program
 *
 * FOLDER is what ``kernel.py`` has made: a socket, ``npu-rig``, where it answers, and the files that the program is to see in
 * /dev/dri, /dev/accel, /proc/device-tree and the like, whose real ones are hidden. Whoever opens a device gets a connection to that
 * socket for a descriptor; ioctl and mmap of it are questions, and everything that a driver does is done over there.
 *
 * A question: kind, bytes that follow, number, and where the program has its argument. While it is answered the other side may
 * read and write the program's memory, as a kernel does, and take one of its descriptors.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>
#undef open
#undef open64
#undef fopen
#undef fopen64
#undef mmap
#undef mmap64

extern void *mmap(void *, size_t, int, int, int, off_t);

#define SOCKET "/npu-rig"

enum { ASK_OPEN = 1, ASK_IOCTL = 2, ASK_MMAP = 3 };
enum { DONE = 1, PEEK = 2, POKE = 3, TAKE_FD = 4, GIVE_FD = 5 };

struct question { uint32_t kind, size; uint64_t number, argument; };
struct answer { uint32_t kind; int32_t error; uint64_t address, size; };

static const char *const hidden[] = {
    "/dev/dri", "/dev/accel", "/dev/rknpu", "/proc/device-tree", "/sys/firmware/devicetree/base", "/sys/class/accel", "/sys/class/drm",
    "/sys/kernel/debug/rknpu", "/proc/rknpu", "/dev/mpi",
};
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ({ static __typeof__(&name) real_; if (!real_) real_ = (__typeof__(&name))dlsym(RTLD_NEXT, #name); real_; })

/* Where a path really is; `device` tells whether it is one of a device. */
static const char *place(const char *path, char *room, size_t size, int *device)
{
    const char *root = getenv("RIG_ROOT");
    const char *given = path;
    size_t i, n;
    if (device) *device = 0;
    if (!root || !path) return path;
    if (!strncmp(path, "/proc/self/root/", 16)) path += 15; /* as whoever looks past a played board writes it */
    for (i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        n = strlen(hidden[i]);
        if (strncmp(path, hidden[i], n) || (path[n] && path[n] != '/')) continue;
        snprintf(room, size, "%s%s", root, path);
        if (device) {
            struct stat found;
            *device = !strncmp(path, "/dev/", 5) && !REAL(stat)(room, &found) && S_ISREG(found.st_mode);
        }
        return room;
    }
    return given;
}

static int address_of(struct sockaddr_un *at)
{
    const char *root = getenv("RIG_ROOT");
    memset(at, 0, sizeof *at);
    at->sun_family = AF_UNIX;
    if (!root || strlen(root) + sizeof SOCKET > sizeof at->sun_path) return -1;
    snprintf(at->sun_path, sizeof at->sun_path, "%s" SOCKET, root);
    return 0;
}

/* Whether a descriptor is a device of ours, whoever opened, copied or inherited it. The folder may have another name over there. */
static int is_ours(int fd)
{
    struct sockaddr_un peer;
    socklen_t size = sizeof peer;
    int before = errno, ours = 0;
    if (fd < 0) return 0;
    memset(&peer, 0, sizeof peer);
    if (!getpeername(fd, (struct sockaddr *)&peer, &size) && peer.sun_family == AF_UNIX) {
        size_t n = strnlen(peer.sun_path, sizeof peer.sun_path);
        ours = n >= sizeof SOCKET - 1 && !strncmp(peer.sun_path + n - (sizeof SOCKET - 1), SOCKET, sizeof SOCKET - 1);
    }
    errno = before;
    return ours;
}

static int whole(int fd, void *data, size_t size, int writes)
{
    char *at = data;
    while (size) {
        ssize_t n = writes ? send(fd, at, size, MSG_NOSIGNAL) : recv(fd, at, size, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        at += n;
        size -= n;
    }
    return 0;
}

/* One byte with a descriptor beside it: sent, or received into `*other`. */
static int descriptor(int fd, int *other, int sends)
{
    char byte = 0, room[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message;
    struct cmsghdr *beside;
    memset(&message, 0, sizeof message);
    memset(room, 0, sizeof room);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    if (sends) {
        beside = CMSG_FIRSTHDR(&message);
        beside->cmsg_level = SOL_SOCKET;
        beside->cmsg_type = SCM_RIGHTS;
        beside->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(beside), other, sizeof(int));
        if (sendmsg(fd, &message, MSG_NOSIGNAL) == 1) return 0;
        byte = 1; /* no such descriptor */
        return whole(fd, &byte, 1, 1);
    }
    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
    beside = CMSG_FIRSTHDR(&message);
    if (!beside || beside->cmsg_type != SCM_RIGHTS) return -1;
    memcpy(other, CMSG_DATA(beside), sizeof(int));
    return 0;
}

/* Ask, and do what is asked back until it is answered. Returns 0 and `*given`, a descriptor that came along (-1: none), or -1 and errno.
 * ENODEV: nobody is there. */
static int ask(int fd, uint32_t kind, uint64_t number, void *argument, const void *data, uint32_t size, int *given)
{
    struct question question = {kind, size, number, (uint64_t)(uintptr_t)argument};
    struct answer answer;
    int other, failed = 0;
    *given = -1;
    pthread_mutex_lock(&turn);
    if (whole(fd, &question, sizeof question, 1) || whole(fd, (void *)(uintptr_t)data, size, 1)) failed = ENODEV;
    while (!failed) {
        void *where;
        if (whole(fd, &answer, sizeof answer, 0)) { failed = ENODEV; break; }
        where = (void *)(uintptr_t)answer.address;
        if (answer.kind == DONE) { failed = answer.error; break; }
        else if (answer.kind == PEEK) failed = whole(fd, where, answer.size, 1) ? ENODEV : 0;
        else if (answer.kind == POKE) failed = whole(fd, where, answer.size, 0) ? ENODEV : 0;
        else if (answer.kind == TAKE_FD) { other = (int)answer.address; failed = descriptor(fd, &other, 1) ? ENODEV : 0; }
        else if (answer.kind == GIVE_FD) {
            failed = descriptor(fd, given, 0) ? ENODEV : 0;
            if (!failed && where) memcpy(where, given, sizeof(int));
        } else failed = ENODEV;
    }
    pthread_mutex_unlock(&turn);
    if (failed) { errno = failed; return -1; }
    return 0;
}

static int connected(const char *path, int flags)
{
    struct sockaddr_un at;
    int fd, given;
    if (address_of(&at)) { errno = ENAMETOOLONG; return -1; }
    fd = socket(AF_UNIX, SOCK_STREAM | (flags & O_CLOEXEC ? SOCK_CLOEXEC : 0), 0);
    if (fd < 0) return -1;
    if (connect(fd, (struct sockaddr *)&at, sizeof at) || ask(fd, ASK_OPEN, flags, NULL, path, strlen(path), &given)) {
        int why = errno;
        close(fd);
        errno = why == ECONNREFUSED ? ENODEV : why;
        return -1;
    }
    return fd;
}

/* -- what the program calls ------------------------------------------------------------------------------------------------------ */

#define MODE(flags, from) int mode = 0; if ((flags) & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, from); mode = va_arg(more, int); va_end(more); }

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        char room[4096]; int device; const char *at = place(path, room, sizeof room, &device); \
        MODE(flags, flags) \
        return device ? connected(path, flags) : REAL(name)(at, flags, mode); \
    }
OPEN(open)
extern int open64(const char *, int, ...);
OPEN(open64)

#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) \
    { \
        char room[4096]; int device; const char *at = place(path, room, sizeof room, &device); \
        MODE(flags, flags) \
        return device ? connected(path, flags) : REAL(name)(folder, at, flags, mode); \
    }
OPENAT(openat)
extern int openat64(int, const char *, int, ...);
OPENAT(openat64)

extern int __open_2(const char *, int), __open64_2(const char *, int);
int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open64(path, flags); }

#define WITH_PATH(type, name, parameters, arguments) \
    extern type name parameters; \
    type name parameters { char room[4096]; const char *at = place(path, room, sizeof room, NULL); return REAL(name) arguments; }
WITH_PATH(FILE *, fopen, (const char *path, const char *mode), (at, mode))
WITH_PATH(FILE *, fopen64, (const char *path, const char *mode), (at, mode))
WITH_PATH(DIR *, opendir, (const char *path), (at))
WITH_PATH(int, access, (const char *path, int mode), (at, mode))
WITH_PATH(int, unlink, (const char *path), (at))
WITH_PATH(int, remove, (const char *path), (at))
WITH_PATH(ssize_t, readlink, (const char *path, char *data, size_t size), (at, data, size))
WITH_PATH(int, mknod, (const char *path, mode_t mode, dev_t device), (at, mode, device))
struct stat64;
#if __GLIBC_PREREQ(2, 33)
WITH_PATH(int, stat, (const char *path, struct stat *found), (at, found))
WITH_PATH(int, lstat, (const char *path, struct stat *found), (at, found))
WITH_PATH(int, stat64, (const char *path, struct stat64 *found), (at, found))
WITH_PATH(int, lstat64, (const char *path, struct stat64 *found), (at, found))
#endif

int ioctl(int fd, unsigned long number, ...)
{
    va_list more;
    void *argument;
    int given;
    va_start(more, number);
    argument = va_arg(more, void *);
    va_end(more);
    if (!is_ours(fd)) {
        int done = REAL(ioctl)(fd, number, argument);
        /* a shared buffer is a plain file here, which has no caches to sync */
        return done && errno == ENOTTY && _IOC_TYPE(number) == 'b' && !_IOC_NR(number) ? 0 : done;
    }
    return ask(fd, ASK_IOCTL, number & 0xffffffff, argument, argument, _IOC_SIZE(number), &given);
}

/* The buffer behind an offset of a device; -1 and errno, or -2 where the descriptor is no device of ours. */
static int buffer(int fd, uint64_t offset, size_t size)
{
    int given;
    if (fd < 0 || !is_ours(fd)) return -2;
    if (ask(fd, ASK_MMAP, offset, (void *)(uintptr_t)size, NULL, 0, &given)) return -1;
    return given;
}

#define MMAP(name, kind) \
    extern void *name(void *, size_t, int, int, int, kind); \
    void *name(void *where, size_t size, int protection, int flags, int fd, kind offset) \
    { \
        int file = buffer(fd, sizeof(kind) == 4 ? (uint64_t)(uint32_t)offset : (uint64_t)offset, size); \
        void *found; int why; \
        if (file == -2) return REAL(name)(where, size, protection, flags, fd, offset); \
        if (file == -1) return (void *)-1; \
        found = REAL(name)(where, size, protection, flags, file, 0); \
        why = errno; close(file); errno = why; \
        return found; \
    }
MMAP(mmap, off_t)
MMAP(mmap64, off64_t)
