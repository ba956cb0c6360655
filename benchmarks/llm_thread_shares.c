/* What each task of a token takes, one after the other (see llm_thread_shares.py). */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct step;
intptr_t rknnlite_begin(struct step *s, intptr_t threads);
void rknnlite_step_task(const struct step *s, intptr_t task);
intptr_t rknnlite_step_next(struct step *s);

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

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* One token by one thread: the least of `rounds`. `found` has for each phase the number of its tasks, what each takes and what its end
 * takes, less what asking takes; behind the last one 0. 1: instructions, 0: nanoseconds of CPU time. */
int token_shares(struct step *s, float *x, const float *row, intptr_t hidden, int rounds, int64_t *found)
{
    int fd = counter(), counted = fd >= 0;
    int64_t asking = INT64_MAX;
    for (int i = 0; i < 1000; i++) {
        int64_t before = spent(fd);
        asking = least(asking, spent(fd) - before);
    }
    for (int round = 0; round < rounds; round++) {
        int64_t *at = found, before, taken;
        memcpy(x, row, hidden * sizeof *x);
        for (intptr_t tasks = rknnlite_begin(s, 1), next; tasks; tasks = next) {
            *at++ = tasks;
            for (intptr_t task = 0; task < tasks; task++, at++) {
                before = spent(fd);
                rknnlite_step_task(s, task);
                taken = spent(fd) - before - asking;
                *at = round ? least(*at, taken) : taken;
            }
            before = spent(fd);
            next = rknnlite_step_next(s);
            taken = spent(fd) - before - asking;
            *at = round ? least(*at, taken) : taken;
            at++;
        }
        *at = 0;
    }
    if (fd >= 0)
        close(fd);
    return counted;
}
