/* Starting a process that is no child of this one: the program's wait() loops and SIGCHLD handlers never meet it.
 *
 * A process between the two starts it and ends at once. That one sends no signal when it ends, and wait() without
 * __WCLONE does not see it. As with vfork it borrows this process's memory, so that a large program costs nothing.
 */
#include "client.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK (256 * 1024) /* posix_spawn takes memory of its own */

struct birth {
    const struct detached_program *program;
    int told; /* a pipe, since a checker of memory may make a copy of what is borrowed */
};

struct outcome {
    pid_t pid;
    int error;
};

/* It never returns, so AddressSanitizer would never lift its marks around variables, and memory that is mapped where this
 * stack was would be reported. */
__attribute__((no_sanitize_address)) static int between(void *argument)
{
    const struct birth *birth = argument;
    const struct detached_program *program = birth->program;
    struct outcome outcome = {-1, 0};
    outcome.error = posix_spawn(&outcome.pid, program->path, program->files, program->attributes, program->arguments, program->environment);
    ssize_t written = write(birth->told, &outcome, sizeof outcome);
    syscall(SYS_exit_group, written != sizeof outcome);
    return 0;
}

typedef int cloner(int (*)(void *), void *, int, void *, ...);

/* libc's own: ThreadSanitizer puts one before it, which takes the borrowed memory for a fork's and gives up. */
static cloner *unwatched(void)
{
    void *found = dlsym(RTLD_NEXT, "clone");
    cloner *function = clone;
    if (found)
        memcpy(&function, &found, sizeof function);
    return function;
}

static struct outcome start(const struct detached_program *program, void *stack)
{
    struct outcome outcome = {-1, EAGAIN};
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) != 0) {
        outcome.error = errno;
        return outcome;
    }
    struct birth birth = {program, pipes[1]};
    pid_t pid = unwatched()(between, (char *)stack + STACK, CLONE_VM | CLONE_VFORK, &birth);
    if (pid < 0 && errno == EINVAL) /* an emulator that knows children with a signal only */
        pid = unwatched()(between, (char *)stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, &birth);
    if (pid < 0)
        outcome.error = errno;
    close(pipes[1]);
    while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        continue;
    ssize_t got = pid > 0 ? read(pipes[0], &outcome, sizeof outcome) : 0;
    close(pipes[0]);
    if (pid > 0 && got != sizeof outcome)
        outcome = (struct outcome){-1, EAGAIN};
    return outcome;
}

pid_t detached_spawn(const struct detached_program *program, int *error)
{
    sigset_t all, before;
    void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) {
        *error = errno;
        return -1;
    }
    sigfillset(&all); /* no handler of the program runs on borrowed memory */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct outcome outcome = start(program, stack);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    munmap(stack, STACK);
    *error = outcome.error;
    return outcome.error ? -1 : outcome.pid;
}
