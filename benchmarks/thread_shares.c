/* What each task of a program of the native engine takes, one after the other (see thread_shares.py). */
#define _GNU_SOURCE
#include "program.h"
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int64_t tasks_of(const struct op *op, int threads);
void run_task(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks);

/* A counter of this thread's instructions; -1 where the system has none. */
static int counter(void)
{
    struct perf_event_attr asked = {.type = PERF_TYPE_HARDWARE, .size = sizeof asked,
                                    .config = PERF_COUNT_HW_INSTRUCTIONS, .exclude_kernel = 1, .exclude_hv = 1};
    return (int)syscall(SYS_perf_event_open, &asked, 0, -1, -1, 0);
}

static int64_t spent(int fd)
{
    int64_t count = 0;
    struct timespec time;
    if (fd >= 0 && read(fd, &count, sizeof count) == sizeof count)
        return count;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* As rknnlite_run with so many threads, by one: the least of `rounds` of each task. `found` has for each op the number of its
 * tasks and behind it what each takes, less what asking takes. 1: instructions, 0: nanoseconds of CPU time. */
int shares(const struct op *ops, int64_t count, Q *work, int64_t size, int threads, int rounds,
           const float *const *inputs, float *const *outputs, int64_t *found)
{
    struct scene scene = {work, work + size, inputs, outputs, threads};
    int fd = counter(), counted = fd >= 0;
    int64_t asking = spent(fd);
    asking = spent(fd) - asking;
    for (int i = 0; i < 1000; i++) {
        int64_t before = spent(fd);
        asking = least(asking, spent(fd) - before);
    }
    for (int round = 0; round < rounds; round++) {
        int64_t *at = found;
        for (const struct op *op = ops; op < ops + count; op++) {
            int64_t tasks = *at++ = tasks_of(op, threads);
            for (int64_t task = 0; task < tasks; task++, at++) {
                int64_t before = spent(fd);
                run_task(op, &scene, task, tasks);
                int64_t taken = most(0, spent(fd) - before - asking);
                *at = round ? least(*at, taken) : taken;
            }
        }
    }
    if (fd >= 0)
        close(fd);
    return counted;
}
