/* Insides of the test double of librkllmrt: models, handles, runs, and what tests change about them. The declarations of the
   layout come first (declare.py); faults, counters and the table of living objects are those of the double of librknnrt
   (control.c one folder up). */
#ifndef STANDIN_H
#define STANDIN_H
#define DOUBLE_H /* control.c is built with the declarations below instead of its own */

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#ifndef VERSION
#define VERSION RKLLM_REVISION
#endif
#define EXPORT __attribute__((visibility("default")))
#define MAX_LORAS 8
#define MAX_BATCH 100
#ifdef HAS_RKLLMInput
#define INPUT_ARGUMENTS RKLLMInput *inputs, RKLLMInferParam *infer
#else
#define INPUT_ARGUMENTS const char *inputs
#endif

typedef enum {
#define X(name) ID_##name,
    FUNCTIONS(X)
#undef X
        FUNCTION_COUNT
} function_id;

/* Objects that somebody has to give back, and mistakes: calls in a wrong order, two runs at once, texts that were gone
   while the library still needed them. */
typedef enum {
    LIVE_HANDLES, LIVE_BUFFERS, LIVE_CACHES, LIVE_LORAS, LIVE_THREADS, MISORDERED, RACES, STALE, LIVE_COUNT
} live_id;
#define LIVE_NAMES "handles", "buffers", "caches", "loras", "threads", "misordered", "races", "stale"

/* What tests change: RKLLM_DOUBLE="token_us=500,strike=crash@5", the file that RKLLM_DOUBLE_CONTROL names (read at every
   call), or double_mode(). */
typedef struct {
    char platform[16], driver[16], strike[16], second_init[16], abort[16], async[16], finish[16];
    int at, null_handle, split, late_callback, prefill_us, token_us, init_us, domain_mb, leak_kb, endless, quiet, overflow;
} modes_t;
extern modes_t modes;

/* What a model file says; see model.c. */
typedef struct {
    char op[16], say[1024], template[16], platform[16], dtype[16], toolkit[32];
    int vocab, hidden, limit, cores, size_mb, tokenizer, embed, full_attention, prefill_us, token_us, layers, kv_heads,
        head_size;
} network;

enum { EOS = 257, VIDEO = 258, IMAGE = 259, VOCAB = 260 }; /* below 256 a token is a byte */

typedef struct {
    int32_t *ids;
    int n, room;
} tokens;

typedef struct {
    char *name, *path;
    float scale;
} lora;

/* One prompt of a batch and its answer. */
typedef struct {
    tokens cache, prompt, answer; /* cache: what the KV cache holds from earlier runs */
    int at;
    char part[8]; /* bytes of a character that is not whole */
} stream;

typedef struct {
    network net;
    int unreadable; /* a model that this version accepts at first */
    RKLLMParam param;
    const char *texts[4];
    char *copies[4]; /* what stood there at init */
    LLMResultCallback callback;
#ifdef HAS_RKLLMCallback
    RKLLMCallback *calls; /* the caller's */
#endif
    char *system, *prefix, *postfix, *tools, *tag;
    int own_template, n_system, n_batch;
    tokens loaded;
    lora loras[MAX_LORAS];
    int n_loras, has_cross;
    float *buffer;
    size_t buffer_size;
    stream streams[MAX_BATCH];
    int paused, limit;
    atomic_int running, stop;
    pthread_t thread;
    int has_thread;
} handle;

/* control.c */
typedef struct memory { /* of no use here */
    struct { void *virt_addr; } mem;
} memory;
enum { KIND_CONTEXT = 1, KIND_MEMORY = 2 };
int enter(function_id id);
void live(live_id id, int change);
void remember(void *object, int kind);
int known(const void *object, int kind);
void forget(void *object);
int64_t now_us(void);
void sleep_until_us(int64_t when);
struct memory *memory_at(const void *address);
extern uint32_t extra_latency_us, last_flags, last_registered;
extern atomic_long copied_bytes;
int is_short(function_id id);

/* modes.c */
void read_control(void);
void say(char level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* describe.c: one line of JSON per call into the file that RKLLM_DOUBLE_LOG names */
FILE *begin_record(const char *call);
void record_struct(FILE *out, const char *name, const layout *of, const void *at, int count);
void record_text(FILE *out, const char *name, const char *text);
void record_number(FILE *out, const char *name, long value);
void record_bytes(FILE *out, const char *name, const void *at, size_t size);
void end_record(FILE *out);

/* model.c */
int read_model(network *net, const char *path);
void push(tokens *to, int32_t id);
void push_text(tokens *to, const char *text);
void drop(tokens *which);

/* prompt.c */
int build_prompt(handle *h, stream *s, int index, INPUT_ARGUMENTS);
void build_answer(handle *h, stream *s, int index, int limit, INPUT_ARGUMENTS);
int embed_by_caller(handle *h, int32_t *ids, int n);

/* run.c */
int start_run(handle *h, INPUT_ARGUMENTS, void *userdata);
void forget_run(handle *h);
int keeps_history(INPUT_ARGUMENTS);

#endif
