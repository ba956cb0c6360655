/* Insides of the test double of librknn3_api: models, contexts, sessions. Faults, counters and the table of living
   objects are those of the double of librknnrt (control.c one folder up). */
#ifndef DOUBLE3_H
#define DOUBLE3_H
#define DOUBLE_H /* control.c is built with the declarations below instead of its own */

#include "rknn3_abi.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_IO 16
#define MAX_SHAPES 8
#define MAX_CORES 8
#define MAX_TOKENS 8192

/* Every function of the library that can be counted and told to fail. */
#define COMMON(X)                                                                                            \
    X(rknn3_init) X(rknn3_load_model_from_path) X(rknn3_load_model_from_data) X(rknn3_model_init)            \
    X(rknn3_destroy) X(rknn3_query) X(rknn3_run) X(rknn3_create_mem_from_fd) X(rknn3_create_mem)             \
    X(rknn3_destroy_mem) X(rknn3_mem_sync) X(rknn3_set_shape) X(rknn3_set_kvcache_mem)                       \
    X(rknn3_set_internal_mem) X(rknn3_dump_features) X(rknn3_find_devices) X(rknn3_session_init)             \
    X(rknn3_session_enable_lora) X(rknn3_session_disable_lora) X(rknn3_session_set_kvcache_policy)           \
    X(rknn3_session_clear_kvcache) X(rknn3_session_save_kvcache) X(rknn3_session_query_state)                \
    X(rknn3_session_set_chat_template) X(rknn3_session_set_callback) X(rknn3_session_run)                    \
    X(rknn3_session_run_async) X(rknn3_session_stop) X(rknn3_session_destroy)                                \
    X(rknn3_session_set_function_tools) X(rknn3_session_set_llm_param) X(rknn3_profile_ops)                  \
    X(rknn3_profile_mem) X(rknn3_register_custom_ops_plugins) X(rknn3_im_mem_create)                         \
    X(rknn3_im_mem_destroy) X(rknn3_im_cvt_color)
#ifdef LATER
#define VERSION "1.0.5"
#define FUNCTIONS(X)                                                                                         \
    COMMON(X) X(rknn3_set_decrypt_key_from_path) X(rknn3_set_decrypt_key_from_data)                          \
    X(rknn3_load_weight_chunk) X(rknn3_mem_sync_range) X(rknn3_set_kvcache_group) X(rknn3_set_weight_mem)    \
    X(rknn3_lora_init) X(rknn3_lora_init_from_data) X(rknn3_lora_load) X(rknn3_lora_unload)                  \
    X(rknn3_lora_enable) X(rknn3_lora_disable) X(rknn3_session_load_kvcache_from_path)                       \
    X(rknn3_session_load_kvcache_from_data) X(rknn3_session_pause) X(rknn3_session_resume)                   \
    X(rknn3_set_input_name_alias)
#else
#define VERSION "1.0.0"
#define FUNCTIONS(X)                                                                                         \
    COMMON(X) X(rknn3_dup_context) X(rknn3_run_async) X(rknn3_wait) X(rknn3_create_mem_from_phys)            \
    X(rknn3_session_query_lora) X(rknn3_session_load_kvcache)
#endif

typedef enum {
#define X(name) ID_##name,
    FUNCTIONS(X)
#undef X
        FUNCTION_COUNT
} function_id;

/* Objects that somebody has to give back, and mistakes: parents that went before their children, two runs at once,
   callbacks that were still installed or called when they should not. */
typedef enum {
    LIVE_CONTEXTS, LIVE_MEMS, LIVE_SESSIONS, LIVE_THREADS, LIVE_IMAGES, MISORDERED, RACES, LIVE_COUNT
} live_id;
#define LIVE_NAMES "contexts", "mems", "sessions", "threads", "images", "misordered", "races"

typedef struct {
    char name[256];
    rknn3_tensor_type type;
    rknn3_tensor_layout layout;
    uint32_t rank, dims[16]; /* NC1HWC2: the logical NCHW dims */
    float scale;
    int32_t zp, core;
    int quantised;
} tensor;

typedef struct {
    atomic_int users;
    tensor in[MAX_IO], out[MAX_IO], post[MAX_IO];
    uint32_t n_in, n_out, n_post, n_shapes;
    uint32_t in_dims[MAX_SHAPES][MAX_IO][16], out_dims[MAX_SHAPES][MAX_IO][16];
    char op[32], string[256];
    double a, b;
    uint32_t cores, weight, internal, latency_us;
    /* language model */
    uint32_t vocab, hidden, context;
    int32_t eos;
    int echo, utf8, on_caller, stubborn;
    char chat_template[256];
} model;

typedef struct memory {
    rknn3_tensor_mem mem; /* first: its address is the handle */
    struct context *owner;
    unsigned char *device; /* what the coprocessor sees; mem_sync copies */
    int own_host;
} memory;

typedef struct context {
    model *net;
    int ready, shape, post, timeout_ms, user_internal;
    uint32_t children;
    memory *internal[MAX_CORES];
    atomic_int busy;
    pthread_t thread;
    int running, code;
    int64_t ready_at_us;
} context;

typedef struct session {
    context *owner;
    rknn3_llm_param param;
    RKLLMCallback calls;
    rknn3_kvcache_policy policy;
    char *system, *prefix, *postfix, *tools;
    atomic_int stop, paused, n_total, n_prefill, n_decode;
    int n_system;
    pthread_t thread;
    atomic_int running; /* an asynchronous run: 1 under way, 2 its last callback is made or being made */
} session;

enum { KIND_CONTEXT = 1, KIND_MEMORY = 2, KIND_SESSION = 3, KIND_IMAGE = 4 };

/* control.c */
int enter(function_id id);
int is_short(function_id id);
void live(live_id id, int change);
int64_t now_us(void);
void sleep_until_us(int64_t when);
void remember(void *object, int kind);
int known(const void *object, int kind);
void forget(void *object);
struct memory *memory_at(const void *address);
extern uint32_t extra_latency_us;

/* model.c */
model *parse_model(const char *text, size_t size);
void free_model(model *net);
char *slurp(const char *path, size_t *size);

/* tensor.c */
size_t type_size(rknn3_tensor_type type);
size_t elements(const tensor *t);
size_t stored_size(const tensor *t);
size_t place(const tensor *t, size_t logical);
double read_real(const tensor *t, const unsigned char *data, size_t logical);
void write_real(const tensor *t, unsigned char *data, size_t logical, double value);
void describe(const tensor *t, uint32_t index, int origin, rknn3_tensor_attr *attr);
float16 half_of(float value);
float float_of(float16 half);

/* context.c */
context *context_of(rknn3_context ctx);
tensor input_of(const context *c, uint32_t index);
tensor output_of(const context *c, uint32_t index);
uint32_t output_count(const context *c);

#endif
