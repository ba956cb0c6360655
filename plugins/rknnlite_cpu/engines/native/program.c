/* Runs the nodes of a program, in threads of its own that take the next task when they are free.
 *
 * Nobody waits for a thread that has not come: whoever is there does the tasks. A node begins when the last task of the one before
 * is done. Threads look for work for a moment, then sleep; they belong to one run at a time and are kept for the next.
 */
#include "cut.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MOST_THREADS 64
#define LOOKS 2000 /* at the next task before a thread sleeps: some 20 to 50 microseconds */

struct team {
    _Atomic uint64_t left;     /* number of the node since the team was made << 32 | tasks that nobody has taken */
    _Atomic int64_t open;      /* tasks that are not done */
    _Atomic int finished, sleepers;
    const struct op *op, *end; /* of the run; written between two nodes */
    struct scene scene;
    int64_t scratch, tasks;
    int workers;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct team *next;
};

struct worker {
    struct team *team;
    int number;
};

static pthread_mutex_t teams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct team *teams; /* those that nobody uses */

int64_t tasks_of(const struct op *op, int threads)
{
    if (op->kind == CONVOLVE)
        return convolution_tasks(op, threads);
    if (op->kind == DEPTHWISE)
        return depthwise_tasks(op, threads);
    if (op->kind == RECURRENT)
        return recurrent_tasks(op, threads);
    if (op->kind == ATTEND)
        return attention_tasks(op, threads);
    if (op->kind == FLOAT_CONVOLVE)
        return float_convolution_tasks(op, threads);
    if (op->kind == FLOAT_DEPTHWISE)
        return float_depthwise_tasks(op, threads);
    if (op->kind == FLOAT_SCORES || op->kind == FLOAT_WEIGH)
        return float_attention_tasks(op, threads);
    const struct tensor *t = op->kind == GIVE ? &op->x : &op->y;
    int64_t rows = t->items * t->height, work = rows * t->width * t->pitch;
    if (op->kind == NORMALISE) /* positions are a matter of their own */
        rows *= t->width, work *= 4;
    if (op->kind >= FLOAT_CONVOLVE && op->kind != FLOAT_PICK && op->kind != FLOAT_MIX)
        rows *= t->width;
    if (op->kind == ADD || op->kind == MULTIPLY || op->kind == SCALE || op->kind == TABLE)
        rows *= t->width, work *= 2;
    return least(rows, tasks_wanted(work, 16 << 10, threads));
}

void run_task(const struct op *op, const struct scene *scene, int64_t task, int64_t tasks)
{
    switch (op->kind) {
    case CONVOLVE: convolve(op, scene, task, tasks); break;
    case DEPTHWISE: depthwise(op, scene, task, tasks); break;
    case MAX_POOL: pool(op, scene, task, tasks); break;
    case ADD: case MULTIPLY: case TABLE: case SCALE: elementwise(op, scene, task, tasks); break;
    case RECURRENT: recur(op, scene, task, tasks); break;
    case ATTEND: attend(op, scene, task, tasks); break;
    case NORMALISE: normalise(op, scene, task, tasks); break;
    case PICK: pick_lines(op, scene, task, tasks); break;
    case BILINEAR: bilinear(op, scene, task, tasks); break;
    case PUT: put(op, scene, task, tasks); break;
    case SHUFFLE: shuffle(op, scene, task, tasks); break;
    case TO_FLOATS: case TO_BYTES: convert(op, scene, task, tasks); break;
    case FLOAT_CONVOLVE: float_convolve(op, scene, task); break;
    case FLOAT_DEPTHWISE: float_depthwise(op, scene, task); break;
    case FLOAT_PICK: case FLOAT_MIX: float_place(op, scene, task, tasks); break;
    case FLOAT_SELECT: float_select(op, scene, task, tasks); break;
    case FLOAT_NORM: float_normalise(op, scene, task, tasks); break;
    case FLOAT_SCORES: case FLOAT_WEIGH: float_attend(op, scene, task); break;
    case FLOAT_RESHAPE: case FLOAT_TRANSPOSE: float_reorder(op, scene, task, tasks); break;
    case FLOAT_TAKE: case FLOAT_GIVE: float_move(op, scene, task, tasks); break;
    case FLOAT_ADD: case FLOAT_SUBTRACT: case FLOAT_MULTIPLY: case FLOAT_SCALE: case FLOAT_TABLE: case FLOAT_MAX_POOL:
        float_pixels(op, scene, task, tasks);
        break;
    default: move(op, scene, task, tasks);
    }
}

INLINE void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void wake(struct team *team)
{
    if (atomic_load(&team->sleepers)) {
        pthread_mutex_lock(&team->lock);
        pthread_cond_broadcast(&team->changed);
        pthread_mutex_unlock(&team->lock);
    }
}

/* Make the tasks of the team's op be there for all; a single one is done by who calls, so that nobody is woken for it. */
static void publish(struct team *team)
{
    team->tasks = tasks_of(team->op, team->scene.threads);
    atomic_store(&team->open, team->tasks);
    uint64_t number = (atomic_load(&team->left) >> 32) + 1;
    atomic_store(&team->left, number << 32 | (uint64_t)team->tasks);
    if (team->tasks > 1)
        wake(team);
}

/* Take a task and do it; the last one of a node begins the next. 0: there is none to take. */
static int work_on(struct team *team, int number)
{
    uint64_t left = atomic_load(&team->left);
    do {
        if ((uint32_t)left == 0)
            return 0;
    } while (!atomic_compare_exchange_weak(&team->left, &left, left - 1));
    struct scene scene = team->scene;
    scene.scratch += number * team->scratch;
    run_task(team->op, &scene, (int64_t)(uint32_t)left - 1, team->tasks);
    if (atomic_fetch_sub(&team->open, 1) == 1) {
        if (++team->op < team->end) {
            publish(team);
        } else {
            atomic_store(&team->finished, 1);
            wake(team);
        }
    }
    return 1;
}

/* Until there may be something to do: another node, or for the caller the end. */
static void await(struct team *team, uint64_t seen, int caller)
{
    for (int i = 0; i < LOOKS; i++) {
        if (atomic_load(&team->left) != seen || (caller && atomic_load(&team->finished)))
            return;
        relax();
    }
    pthread_mutex_lock(&team->lock);
    atomic_fetch_add(&team->sleepers, 1);
    while (atomic_load(&team->left) == seen && !(caller && atomic_load(&team->finished)))
        pthread_cond_wait(&team->changed, &team->lock);
    atomic_fetch_sub(&team->sleepers, 1);
    pthread_mutex_unlock(&team->lock);
}

static void *serve(void *given)
{
    struct worker self = *(struct worker *)given;
    free(given);
    for (;;) {
        uint64_t seen = atomic_load(&self.team->left);
        if (!work_on(self.team, self.number) && (uint32_t)seen == 0)
            await(self.team, seen, 0);
    }
    return NULL;
}

static void forget(void) { teams = NULL, teams_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }

static void watch_forks(void) { pthread_atfork(NULL, NULL, forget); }

static struct team *team_of(int workers)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&teams_lock);
    struct team **place = &teams, *team;
    while (*place && (*place)->workers != workers)
        place = &(*place)->next;
    if ((team = *place))
        *place = team->next;
    pthread_mutex_unlock(&teams_lock);
    if (team)
        return team;
    if (!(team = calloc(1, sizeof *team)))
        return NULL;
    team->workers = workers;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->changed, NULL);
    for (int i = 0; i < workers; i++) { /* where no thread can be made the others do its part */
        struct worker *worker = malloc(sizeof *worker);
        pthread_t thread;
        if (!worker)
            break;
        *worker = (struct worker){team, i + 1};
        if (pthread_create(&thread, NULL, serve, worker)) {
            free(worker);
            break;
        }
        pthread_detach(thread);
    }
    return team;
}

/* Bytes that each thread needs for itself. */
int64_t rknnlite_scratch(const struct op *ops, int64_t count, int threads)
{
    int64_t bytes = 0;
    for (const struct op *op = ops; op < ops + count; op++) {
        if (op->kind == CONVOLVE)
            bytes = most(bytes, convolution_scratch(op, threads));
        if (op->kind == DEPTHWISE)
            bytes = most(bytes, depthwise_scratch(op, threads));
        if (op->kind == RECURRENT)
            bytes = most(bytes, recurrent_scratch(op));
        if (op->kind == ATTEND)
            bytes = most(bytes, attention_scratch(op));
        if (op->kind == BILINEAR)
            bytes = most(bytes, bilinear_scratch(op));
        if (op->kind == FLOAT_CONVOLVE)
            bytes = most(bytes, float_convolution_scratch(op, threads));
        if (op->kind == FLOAT_DEPTHWISE)
            bytes = most(bytes, float_depthwise_scratch(op));
        if (op->kind == FLOAT_SCORES || op->kind == FLOAT_WEIGH)
            bytes = most(bytes, float_attention_scratch(op));
    }
    return (bytes + BYTES + 63) / 64 * 64 + 64;
}

/* Run `count` ops in order. `work` holds the workspace and behind it `scratch` bytes for each thread. 0: done. */
int rknnlite_run(const struct op *ops, int64_t count, Q *work, int64_t size, int64_t scratch, int threads,
                 const float *const *inputs, float *const *outputs)
{
    struct scene scene = {work, work + size, inputs, outputs, threads};
    if (threads < 2 || threads > MOST_THREADS) {
        scene.threads = 1;
        for (const struct op *op = ops; op < ops + count; op++)
            for (int64_t task = 0, tasks = tasks_of(op, 1); task < tasks; task++)
                run_task(op, &scene, task, tasks);
        return 0;
    }
    struct team *team = team_of(threads - 1);
    if (!team)
        return 1;
    team->op = ops, team->end = ops + count, team->scene = scene, team->scratch = scratch;
    atomic_store(&team->finished, 0);
    publish(team);
    while (!atomic_load(&team->finished)) {
        uint64_t seen = atomic_load(&team->left);
        if (!work_on(team, 0) && (uint32_t)seen == 0)
            await(team, seen, 1);
    }
    pthread_mutex_lock(&teams_lock);
    team->next = teams, teams = team;
    pthread_mutex_unlock(&teams_lock);
    return 0;
}

/* How weights are to lie: sums in a vector, vectors of output channels, what is added to an int8 value to store it. */
void rknnlite_layout(int64_t layout[4]) { layout[0] = LANES, layout[1] = ACROSS, layout[2] = Q_OFFSET, layout[3] = sizeof(struct op); }
