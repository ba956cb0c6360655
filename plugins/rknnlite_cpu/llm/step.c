/* One token through all layers of a decoder, by all threads that come: decoder.py and what it calls are the definition. Sums are float32
 * in another order; functions are those of functions.h.
 *
 * A layer has five phases: queries, keys and values; attention; its last matrix; the first matrix of the network, with its
 * activation; the last one. The tasks of a phase go to whoever is free, nobody waits for a thread that has not come. Who ends the last task
 * does what is little (norms, biases, turns, the cache) and opens the next phase. A thread begins in a range of tasks of its own, since
 * memory is fastest where it is read on and on, and helps in those of others then. What a task is does not depend on the number
 * of threads, so sums do not, either.
 */
#include <stdatomic.h>
#include "attention.h"
#include "products.h"
#include "store.h"

#define TASK_BYTES (64 << 10)        /* of weights: some microseconds */
#define KEYS_AT_LEAST 128            /* of a task of attention, ... */
#define KEYS_UNIT 32                 /* ... a multiple of it, ... */
#define MOST_PARTS 16                /* ... of which a head has so many at most */
#define MOST_RANGES 64
#define LOOKS 1000                   /* for a task before a thread lets others run */

#if defined(__x86_64__)
#define relax() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define relax() __asm__ volatile("yield")
#else
#define relax()
#endif
int sched_yield(void);

enum phase { QKV, ATTEND, OUT, FIRST, DOWN, PHASES };
enum activation { SILU, GELU_TANH, RELU, RELU2 };

struct norm { const float *weight, *bias; };

/* Norms, biases and sinks that are not there are 0. */
struct layer {
    struct matrix qkv, out, first, down;
    struct norm norm1, norm2, post1, post2, q_norm, k_norm;
    const float *qkv_bias, *out_bias, *first_bias, *down_bias, *sinks;
    intptr_t window, turn;           /* turn: of step.turns; -1: none */
};

struct turn { intptr_t pairs; const float *cos, *sin; };

/* whole: norms of queries and keys are over all heads; behind: they come behind the turn. logits: 0: none are made. */
struct step {
    intptr_t layers, hidden, heads, kv_heads, dim, width, inner, vocab;
    intptr_t gated, activation, centred, whole, behind;
    float eps, score, score_cap, residual, logit, logit_cap;
    const struct layer *layer;
    struct norm norm;
    struct matrix head;
    const float *head_bias;
    /* of the token: its number, its slot and keys, itself included; what queries grow by */
    const struct store *stores;
    struct turn turns[2];
    intptr_t total, slot, keys;
    float growth;
    /* buffers; sums (across * 128 of the widest matrix), rests (tasks, 128), parts (heads, parts, group, width), shares (2, ...) */
    float *x, *normed, *qkv, *query, *parts, *shares, *mixed, *wide, *sums, *rests, *logits;
    /* of the phase */
    _Atomic uint64_t ranges[MOST_RANGES]; /* of tasks that nobody has taken: first << 32 | end */
    _Atomic int64_t open;            /* tasks that are not done */
    _Atomic int finished;
    intptr_t threads, at, tasks, part; /* part: tiles, or keys, of a task */
};

INLINE intptr_t least(intptr_t a, intptr_t b) { return a < b ? a : b; }
INLINE intptr_t most(intptr_t a, intptr_t b) { return a > b ? a : b; }

static float sum_of(const float *x, intptr_t count, float less, int squared)
{
    vf sum = (vf){}, sums[LANES];
    intptr_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        vf v = load(x + i) - less;
        sum += squared ? v * v : v;
    }
    UNROLL for (int l = 0; l < LANES; l++)
        sums[l] = sum;
    float total = folded(sums)[0];
    for (; i < count; i++)
        total += squared ? (x[i] - less) * (x[i] - less) : x[i] - less;
    return total;
}

/* `to` may be `x`. */
static void normalise(const struct step *s, struct norm norm, const float *x, intptr_t count, float *to)
{
    if (!norm.weight) {
        if (to != x)
            memcpy(to, x, count * sizeof *x);
        return;
    }
    const float mean = s->centred ? sum_of(x, count, 0, 0) / count : 0;
    const float factor = 1.0f / sqrtf(sum_of(x, count, mean, 1) / count + s->eps);
    for (intptr_t i = 0; i < count; i++)
        to[i] = (x[i] - mean) * factor * norm.weight[i];
    if (norm.bias)
        for (intptr_t i = 0; i < count; i++)
            to[i] += norm.bias[i];
}

static void add(float *to, const float *from, intptr_t count, float factor)
{
    if (from)
        for (intptr_t i = 0; i < count; i++)
            to[i] += from[i] * factor;
}

INLINE vf activated(intptr_t name, vf x)
{
    if (name == SILU)
        return x / (exponential(chosen(x < -88.0f, all(88.0f), -x)) + 1.0f);
    if (name == GELU_TANH)
        return 0.5f * x * (1.0f + hyperbolic_tangent(0.7978845608028654f * (x + 0.044715f * x * x * x)));
    vf positive = chosen(x < 0.0f, all(0), x);
    return name == RELU ? positive : positive * positive;
}

/* gate becomes activation(gate), times up where there is one. */
static void activate(intptr_t name, float *gate, const float *up, intptr_t count)
{
    for (intptr_t i = 0; i < count; i += LANES) {
        float some[2][LANES] = {{0}};
        const intptr_t lanes = least(LANES, count - i);
        memcpy(some[0], gate + i, lanes * sizeof *gate);
        if (up)
            memcpy(some[1], up + i, lanes * sizeof *gate);
        vf found = activated(name, load(some[0]));
        store(some[0], up ? found * load(some[1]) : found);
        memcpy(gate + i, some[0], lanes * sizeof *gate);
    }
}

static void turn_head(const struct turn *t, float *head)
{
    for (intptr_t i = 0; i < t->pairs; i++) {
        const float first = head[i], second = head[t->pairs + i];
        head[i] = first * t->cos[i] - second * t->sin[i];
        head[t->pairs + i] = second * t->cos[i] + first * t->sin[i];
    }
}

static void norm_heads(const struct step *s, struct norm norm, float *heads, intptr_t count)
{
    if (s->whole)
        normalise(s, norm, heads, count * s->dim, heads);
    else
        for (intptr_t h = 0; h < count; h++)
            normalise(s, norm, heads + h * s->dim, s->dim, heads + h * s->dim);
}

/* What attention_layer.py does between the first matrix and attention. */
static void make_queries(struct step *s, const struct layer *l)
{
    const intptr_t q_size = s->heads * s->dim, kv_size = s->kv_heads * s->dim;
    float *queries = s->qkv, *keys = queries + q_size, *values = keys + kv_size;
    add(queries, l->qkv_bias, q_size + 2 * kv_size, 1);
    if (!s->behind) {
        norm_heads(s, l->q_norm, queries, s->heads);
        norm_heads(s, l->k_norm, keys, s->kv_heads);
    }
    if (l->turn >= 0)
        for (intptr_t h = 0; h < s->heads + s->kv_heads; h++)
            turn_head(&s->turns[l->turn], queries + h * s->dim);
    if (s->behind) {
        norm_heads(s, l->q_norm, queries, s->heads);
        norm_heads(s, l->k_norm, keys, s->kv_heads);
    }
    const float scale = s->score * s->growth;
    for (intptr_t h = 0; h < s->heads; h++) {
        float *to = s->query + h * s->width;
        for (intptr_t c = 0; c < s->dim; c++)
            to[c] = queries[h * s->dim + c] * scale;
    }
    put_token(&s->stores[s->at / PHASES], s->slot, keys, values);
}

INLINE intptr_t first_key(const struct step *s, const struct layer *l)
{
    return l->window ? most(0, s->total + 1 - l->window) : 0;
}

INLINE float power_of(float x) { return exponential(all(x))[0]; }

/* Results of the parts of the keys, weighed by the exponentials that each of them summed. */
static void join_parts(struct step *s, const struct layer *l)
{
    const intptr_t group = s->heads / s->kv_heads, parts = s->tasks / s->kv_heads;
    float *peaks = s->shares, *totals = peaks + s->tasks * group;
    for (intptr_t head = 0; head < s->kv_heads; head++)
        for (intptr_t r = 0; r < group; r++) {
            const intptr_t at = head * parts * group + r, query = head * group + r;
            float *to = s->mixed + query * s->dim, peak = l->sinks ? l->sinks[query] : peaks[at], total = 0, share[MOST_PARTS];
            for (intptr_t p = 0; p < parts; p++)
                peak = peaks[at + p * group] > peak ? peaks[at + p * group] : peak;
            if (l->sinks)
                total = power_of(l->sinks[query] - peak);
            for (intptr_t p = 0; p < parts; p++)
                total += share[p] = totals[at + p * group] * power_of(peaks[at + p * group] - peak);
            memset(to, 0, s->dim * sizeof *to);
            for (intptr_t p = 0; p < parts; p++)
                add(to, s->parts + (at + p * group) * s->width, s->dim, share[p] / total);
        }
}

/* x grows by what a half of a layer gives; then the norm of the next one. */
static void end_half(struct step *s, float *sums, const float *bias, struct norm post, struct norm next)
{
    add(sums, bias, s->hidden, 1);
    normalise(s, post, sums, s->hidden, sums);
    add(s->x, sums, s->hidden, s->residual);
    normalise(s, next, s->x, s->hidden, s->normed);
}

/* Whether the tasks of the first matrix of the network are whole outputs, gates and ways up together. */
INLINE int by_columns(const struct step *s) { return !s->gated || s->inner % COLUMNS == 0; }

static const struct matrix *matrix_of(const struct step *s, const float **x, float **to)
{
    const struct layer *l = &s->layer[s->at / PHASES];
    switch (s->at % PHASES) {
    case QKV: *x = s->normed, *to = s->qkv; return &l->qkv;
    case OUT: *x = s->mixed, *to = s->sums; return &l->out;
    case FIRST: *x = s->normed, *to = s->wide; return &l->first;
    default: *x = s->wide, *to = s->sums; return &l->down;
    }
}

static intptr_t tiles_of(const struct matrix *m)
{
    return least(m->across * m->down, most(1, TASK_BYTES / tile_bytes[m->kind]));
}

static intptr_t open_phase(struct step *s)
{
    const float *x;
    float *to;
    if (s->at == s->layers * PHASES) {
        s->tasks = s->head.across;
    } else if (s->at % PHASES == ATTEND) {
        const intptr_t keys = s->keys - first_key(s, &s->layer[s->at / PHASES]);
        s->part = most(KEYS_AT_LEAST, (keys / MOST_PARTS + KEYS_UNIT) / KEYS_UNIT * KEYS_UNIT);
        s->tasks = s->kv_heads * ((keys + s->part - 1) / s->part);
    } else if (s->at % PHASES == FIRST && by_columns(s)) {
        s->tasks = (s->inner + COLUMNS - 1) / COLUMNS;
    } else {
        const struct matrix *m = matrix_of(s, &x, &to);
        s->part = tiles_of(m);
        s->tasks = (m->across * m->down + s->part - 1) / s->part;
    }
    atomic_store(&s->open, s->tasks);
    const intptr_t ranges = s->threads, tasks = s->tasks; /* once the last range is there all may change */
    for (intptr_t i = 0; i < ranges; i++)
        atomic_store(&s->ranges[i], (uint64_t)(tasks * i / ranges) << 32 | (uint64_t)(tasks * (i + 1) / ranges));
    return tasks;
}

/* 128 outputs of the network's first matrix, from `column`, with their ways up. */
static void columns_task(const struct step *s, const struct layer *l, intptr_t column)
{
    const struct matrix *m = &l->first;
    const intptr_t place = column * COLUMNS, count = least(COLUMNS, s->inner - place);
    float *gate = s->wide + place, *up = s->gated ? gate + s->inner : 0;
    const intptr_t step = s->inner / COLUMNS;
    for (intptr_t c = column; c < m->across; c += step) {
        const intptr_t then = !s->gated ? c + 1 : c == column ? c + step : column + 1;
        rknnlite_few(m, c * m->down, (c + 1) * m->down, then * m->down, s->normed, 1, s->wide, 0);
        if (l->first_bias)
            add(s->wide + c * COLUMNS, l->first_bias + c * COLUMNS, count, 1);
        if (!s->gated)
            break;
    }
    activate(s->activation, gate, up, count);
}

static void logits_task(const struct step *s, intptr_t column)
{
    const intptr_t place = column * COLUMNS, count = least(COLUMNS, s->vocab - place);
    float *to = s->logits + place;
    const intptr_t first = column * s->head.down, end = first + s->head.down;
    rknnlite_few(&s->head, first, end, end, s->normed, 1, s->logits, 0);
    if (s->head_bias)
        add(to, s->head_bias + place, count, 1);
    for (intptr_t i = 0; i < COLUMNS && (s->logit != 1 || s->logit_cap != 0); i += LANES) {
        vf v = load(to + i) * s->logit;
        store(to + i, s->logit_cap != 0 ? hyperbolic_tangent(v / s->logit_cap) * s->logit_cap : v);
    }
}

static void attend_task(const struct step *s, const struct layer *l, intptr_t task)
{
    const intptr_t group = s->heads / s->kv_heads, parts = s->tasks / s->kv_heads, head = task / parts, begin = first_key(s, l);
    const intptr_t first = task % parts * s->part, keys = s->keys - begin, at = task * group - head * group;
    const struct attention a = {group, 1, s->dim, s->width, keys, 0, begin, s->query, 0, 0, &s->stores[s->at / PHASES], s->score_cap};
    /* where the function takes (head) to lie is (task) here */
    rknnlite_attend(&a, head, head + 1, first, least(first + s->part, keys), s->parts + at * s->width, s->shares + at,
                    s->shares + s->tasks * group + at);
}

void rknnlite_step_task(const struct step *s, intptr_t task)
{
    const struct layer *l = &s->layer[s->at / PHASES];
    if (s->at == s->layers * PHASES) {
        logits_task(s, task);
    } else if (s->at % PHASES == ATTEND) {
        attend_task(s, l, task);
    } else if (s->at % PHASES == FIRST && by_columns(s)) {
        columns_task(s, l, task);
    } else {
        const float *x;
        float *to;
        const struct matrix *m = matrix_of(s, &x, &to);
        const intptr_t end = least((task + 1) * s->part, m->across * m->down);
        rknnlite_few(m, task * s->part, end, end, x, 1, to, s->rests + task * COLUMNS);
    }
}

/* Where tasks began in the middle of 128 outputs, their parts of them are added. */
static void add_rests(const struct step *s)
{
    const float *x;
    float *to;
    const struct matrix *m = matrix_of(s, &x, &to);
    for (intptr_t task = 1; task < s->tasks; task++)
        if (task * s->part % m->down)
            add(to + task * s->part / m->down * COLUMNS, s->rests + task * COLUMNS, COLUMNS, 1);
}

/* All tasks of the phase are done. */
static void end_phase(struct step *s)
{
    const struct layer *l = &s->layer[s->at / PHASES];
    if (s->at == s->layers * PHASES)
        return;
    switch (s->at % PHASES) {
    case QKV:
        add_rests(s);
        make_queries(s, l);
        break;
    case ATTEND:
        join_parts(s, l);
        break;
    case OUT:
        add_rests(s);
        end_half(s, s->sums, l->out_bias, l->post1, l->norm2);
        break;
    case FIRST:
        if (by_columns(s))
            break;
        add_rests(s);
        add(s->wide, l->first_bias, 2 * s->inner, 1);
        activate(s->activation, s->wide, s->wide + s->inner, s->inner);
        memset(s->wide + s->inner, 0, (l->down.down * GROUP - s->inner) * sizeof *s->wide);
        break;
    default:
        add_rests(s);
        end_half(s, s->sums, l->down_bias, l->post2, s->at / PHASES + 1 < s->layers ? l[1].norm1 : s->norm);
    }
}

/* Ends a phase and opens the next one; the number of its tasks, 0: that was the last. */
intptr_t rknnlite_step_next(struct step *s)
{
    end_phase(s);
    if (++s->at < s->layers * PHASES + (s->logits != 0))
        return open_phase(s);
    atomic_store(&s->finished, 1);
    return 0;
}

/* The number of a task that is the caller's now; -1: there is none. */
static intptr_t taken(struct step *s, intptr_t number)
{
    for (intptr_t i = 0; i < s->threads; i++) {
        _Atomic uint64_t *range = &s->ranges[(number + i) % s->threads];
        uint64_t left = atomic_load(range);
        while (left >> 32 < (uint32_t)left)
            if (atomic_compare_exchange_weak(range, &left, left + ((uint64_t)1 << 32)))
                return (intptr_t)(left >> 32);
    }
    return -1;
}

static int work_on(struct step *s, intptr_t number)
{
    const intptr_t task = taken(s, number);
    if (task < 0)
        return 0;
    rknnlite_step_task(s, task);
    if (atomic_fetch_sub(&s->open, 1) == 1)
        rknnlite_step_next(s);
    return 1;
}

/* Before so many threads come to `rknnlite_step`: x (hidden) is there. Returns the number of tasks of the first phase. */
intptr_t rknnlite_begin(struct step *s, intptr_t threads)
{
    s->at = 0, s->threads = least(threads, MOST_RANGES);
    normalise(s, s->layer[0].norm1, s->x, s->hidden, s->normed);
    atomic_store(&s->finished, 0);
    return open_phase(s);
}

/* Of every thread, by its number: returns when the token is through. normed (hidden) is its hidden state, logits what follows from it. */
void rknnlite_step(struct step *s, intptr_t number)
{
    for (int looks = 0; !atomic_load(&s->finished);) {
        if (work_on(s, number))
            looks = 0;
        else if (++looks > LOOKS)
            sched_yield();
        else
            relax();
    }
}

/* One token into a cache, for tests. */
void rknnlite_put(const struct store *s, intptr_t slot, const float *keys, const float *values) { put_token(s, slot, keys, values); }

/* What who calls lays out, too. */
void rknnlite_sizes(intptr_t sizes[3]) { sizes[0] = sizeof(struct store), sizes[1] = sizeof(struct layer), sizes[2] = sizeof(struct step); }
