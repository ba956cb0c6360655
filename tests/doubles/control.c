/* What tests steer and read: faults, counters, latency; and the table of objects that are alive. */
#include "double.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef EXPORT
#define EXPORT __attribute__((visibility("default")))
#endif
#define MAX_FAULTS 64
#define CRASH 139  /* these codes are none: the function crashes, */
#define ASSERT 134 /* or ends the process as a failed assertion of the library does */
#define MAX_OBJECTS 65536

static const char *const names[] = {
#define X(name) #name,
    FUNCTIONS(X)
#undef X
};
#ifndef LIVE_NAMES
#define LIVE_NAMES "contexts", "mems", "outputs", "ops", "misordered", "races"
#endif
static const char *const live_names[] = {LIVE_NAMES};

static atomic_long counts[FUNCTION_COUNT];
static atomic_uint delays_us[FUNCTION_COUNT];
static atomic_int lives[LIVE_COUNT];
uint32_t extra_latency_us, last_flags, last_registered;

atomic_long copied_bytes;

typedef struct {
    function_id id;
    long at; /* the count of calls at which it strikes, once */
    int code, is_short, used;
} fault;

static fault faults[MAX_FAULTS];
static atomic_int n_faults;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    void *object;
    int kind;
} objects[MAX_OBJECTS];
static int n_objects;

static int id_of(const char *name) {
    for (int i = 0; i < FUNCTION_COUNT; i++)
        if (!strcmp(name, names[i])) return i;
    fprintf(stderr, "double: there is no function %s\n", name);
    abort();
}

static int strike(function_id id, int is_short) {
    int count = atomic_load(&n_faults), code = 0;
    if (!count) return 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; i++) {
        fault *f = &faults[i];
        if (f->id == id && f->is_short == is_short && !f->used && counts[id] >= f->at) {
            f->used = 1;
            code = is_short ? 1 : f->code;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (code == CRASH) raise(SIGSEGV);
    if (code == ASSERT) {
        fprintf(stderr, "GGML_ASSERT: double.c: %s\n", names[id]);
        abort();
    }
    return code;
}

int is_short(function_id id) { return strike(id, 1); }

void live(live_id id, int change) { atomic_fetch_add(&lives[id], change); }

int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void sleep_until_us(int64_t when) {
    for (int64_t rest = when - now_us(); rest > 0; rest = when - now_us()) {
        struct timespec t = {rest / 1000000, (rest % 1000000) * 1000};
        nanosleep(&t, NULL);
    }
}

int enter(function_id id) {
    atomic_fetch_add(&counts[id], 1);
    if (delays_us[id]) sleep_until_us(now_us() + delays_us[id]); /* before the handles are looked at */
    return strike(id, 0);
}

void remember(void *object, int kind) {
    pthread_mutex_lock(&lock);
    if (n_objects == MAX_OBJECTS) abort();
    objects[n_objects].object = object;
    objects[n_objects++].kind = kind;
    pthread_mutex_unlock(&lock);
}

static int find(const void *object) {
    for (int i = n_objects - 1; i >= 0; i--)
        if (objects[i].object == object) return i;
    return -1;
}

int known(const void *object, int kind) {
    if (!object) return 0;
    pthread_mutex_lock(&lock);
    int at = find(object);
    int ok = at >= 0 && objects[at].kind == kind;
    pthread_mutex_unlock(&lock);
    if (!ok) { /* the genuine library dies of a segmentation fault */
        fprintf(stderr, "double: stale or bad %s %p\n", kind == KIND_CONTEXT ? "context" : "memory", object);
        abort();
    }
    return 1;
}

void forget(void *object) {
    pthread_mutex_lock(&lock);
    int at = find(object);
    if (at >= 0) objects[at] = objects[--n_objects];
    pthread_mutex_unlock(&lock);
}

memory *memory_at(const void *address) {
    memory *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_objects; i++) {
        memory *m = objects[i].object;
        if (objects[i].kind == KIND_MEMORY && m->mem.virt_addr == address) found = m;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* -- for tests ------------------------------------------------------------------------------------------ */

static void add_fault(const char *name, long nth, int code, int is_short) {
    pthread_mutex_lock(&lock);
    if (n_faults == MAX_FAULTS) abort();
    function_id id = id_of(name);
    faults[n_faults] = (fault){id, counts[id] + nth, code, is_short, 0};
    n_faults++;
    pthread_mutex_unlock(&lock);
}

/* The nth call from now (1: the next) answers code, once. */
EXPORT void double_fault(const char *name, int nth, int code) { add_fault(name, nth, code, 0); }

/* The nth call from now delivers less than it should, once. */
EXPORT void double_short(const char *name, int nth) { add_fault(name, nth, 0, 1); }

EXPORT long double_count(const char *name) { return counts[id_of(name)]; }

EXPORT long double_copied(void) { return copied_bytes; }

EXPORT int double_live(const char *what) {
    for (int i = 0; i < LIVE_COUNT; i++)
        if (!strcmp(what, live_names[i])) return lives[i];
    return -1;
}

EXPORT void double_latency(uint32_t microseconds) { extra_latency_us = microseconds; }

/* Every call of a function takes so much longer. */
EXPORT void double_delay(const char *name, uint32_t microseconds) { delays_us[id_of(name)] = microseconds; }

/* The flags of the last rknn_init. */
EXPORT uint32_t double_flags(void) { return last_flags; }

/* How many operators the last rknn_register_custom_ops brought. */
EXPORT uint32_t double_registered(void) { return last_registered; }

/* Forget faults and counts; objects that are alive stay counted. */
EXPORT void double_reset(void) {
    n_faults = 0;
    extra_latency_us = 0;
    for (int i = 0; i < FUNCTION_COUNT; i++) counts[i] = delays_us[i] = 0;
    lives[MISORDERED] = lives[RACES] = 0;
    copied_bytes = 0;
}

/* RKNN_DOUBLE_FAULTS="rknn_run:3:-2,rknn_query:1:-5" */
__attribute__((constructor)) static void read_environment(void) {
    const char *given = getenv("RKNN_DOUBLE_FAULTS");
    char text[1024], name[64], *rest = NULL;
    int nth, code;
    if (!given) return;
    snprintf(text, sizeof text, "%s", given);
    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        if (sscanf(word, "%63[^:]:%d:%d", name, &nth, &code) == 3) double_fault(name, nth, code);
}

/* RKNN_DOUBLE_REPORT=file: what is alive when the process ends. */
__attribute__((destructor)) static void report(void) {
    const char *path = getenv("RKNN_DOUBLE_REPORT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    for (int i = 0; i < LIVE_COUNT; i++) fprintf(file, "%s %d\n", live_names[i], lives[i]);
    fclose(file);
}
