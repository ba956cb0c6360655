/* Bytes and descriptors over a socket, whole or not at all. */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1U
#endif
#ifndef SYS_memfd_create /* older headers than kernel */
#if defined(__x86_64__)
#define SYS_memfd_create 319
#elif defined(__aarch64__) || defined(__riscv)
#define SYS_memfd_create 279
#elif defined(__arm__)
#define SYS_memfd_create 385
#endif
#endif

int wire_memory(size_t size)
{
    int fd = (int)syscall(SYS_memfd_create, "rknnlite", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)size) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* What is left to send after the first ``done`` bytes. */
static int rest_of(struct iovec *parts, int count, size_t done)
{
    int first = 0;
    while (first < count && done >= parts[first].iov_len)
        done -= parts[first++].iov_len;
    if (first < count) {
        parts[first].iov_base = (char *)parts[first].iov_base + done;
        parts[first].iov_len -= done;
    }
    return first;
}

bool wire_send(int sock, const void *head, size_t head_size, const void *payload, size_t size, const int *fds,
               int n_fds)
{
    struct iovec parts[2] = {{(void *)head, head_size}, {(void *)payload, size}};
    struct iovec *at = parts;
    int count = size ? 2 : 1;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * MOST_FDS)];
    } extra;
    while (count) {
        struct msghdr message;
        memset(&message, 0, sizeof message);
        message.msg_iov = at;
        message.msg_iovlen = (size_t)count;
        if (n_fds) {
            memset(&extra, 0, sizeof extra);
            message.msg_control = &extra;
            message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n_fds);
            struct cmsghdr *control = CMSG_FIRSTHDR(&message);
            control->cmsg_level = SOL_SOCKET;
            control->cmsg_type = SCM_RIGHTS;
            control->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n_fds);
            memcpy(CMSG_DATA(control), fds, sizeof(int) * (size_t)n_fds);
        }
        ssize_t sent = sendmsg(sock, &message, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR)
                continue;
            return false;
        }
        n_fds = 0;
        int whole = rest_of(at, count, (size_t)sent);
        at += whole;
        count -= whole;
    }
    return true;
}

static int take_fds(struct msghdr *message, int *fds, int had)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        int count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        const unsigned char *data = CMSG_DATA(c);
        for (int i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, data + sizeof(int) * (size_t)i, sizeof fd);
            if (fds && had < MOST_FDS)
                fds[had++] = fd;
            else
                close(fd);
        }
    }
    return had;
}

size_t wire_recv_ahead(int sock, void *bytes, size_t size, size_t room, int *fds, int *n_fds)
{
    size_t done = 0;
    int had = 0;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * MOST_FDS)];
    } extra;
    while (done < size) {
        struct iovec part = {(char *)bytes + done, room - done};
        struct msghdr message;
        memset(&message, 0, sizeof message);
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = &extra;
        message.msg_controllen = sizeof extra;
        ssize_t got = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR)
            continue;
        if (got > 0)
            had = take_fds(&message, fds, had);
        if (got <= 0) {
            for (int i = 0; i < had; i++)
                close(fds[i]);
            return 0;
        }
        done += (size_t)got;
    }
    if (n_fds)
        *n_fds = had;
    return done;
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static bool several_processors(void)
{
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) > 1;
}

static bool is_there(int sock)
{
    char byte;
    return recv(sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EINTR);
}

bool wire_watch(int sock, struct watch *watch)
{
    uint64_t started = now();
    bool here = false;
    if (watch->quick && watch->pause)
        watch->pause--;
    else if (watch->quick && several_processors()) {
        while (!(here = is_there(sock)) && now() - started < WATCHED)
            sched_yield();
        watch->failed = here ? watch->failed / 2 : watch->failed < MOST_PAUSE ? watch->failed * 2 + 1 : MOST_PAUSE;
        watch->pause = here ? 0 : watch->failed;
    }
    if (!here) {
        struct pollfd waited = {.fd = sock, .events = POLLIN};
        while (poll(&waited, 1, -1) < 0)
            if (errno != EINTR)
                return false;
    }
    watch->quick = now() - started < WATCHED;
    return true;
}

bool wire_recv(int sock, void *bytes, size_t size, int *fds, int *n_fds)
{
    return !size || wire_recv_ahead(sock, bytes, size, size, fds, n_fds) > 0;
}
