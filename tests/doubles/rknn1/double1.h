/* Insides of the test double of librknn_api. Faults, counters and the table of living objects are those of the double
   of librknnrt (control.c one folder up). */
#ifndef DOUBLE1_H
#define DOUBLE1_H
#define DOUBLE_H /* control.c is built with the declarations below instead of its own */

#include "rknn1_abi.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_IO 8
#define QUEUE 3
#define virt_addr logical_addr /* as control.c calls it */

#define COMMON(X)                                                                                            \
    X(rknn_init) X(rknn_destroy) X(rknn_query) X(rknn_inputs_set) X(rknn_run) X(rknn_outputs_get)            \
    X(rknn_outputs_release)
#ifdef HOST
#define FUNCTIONS(X) COMMON(X) X(rknn_find_devices) X(rknn_init2)
#else
#define FUNCTIONS(X)                                                                                         \
    COMMON(X) X(rknn_inputs_map) X(rknn_inputs_sync) X(rknn_inputs_unmap) X(rknn_outputs_map)                \
    X(rknn_outputs_sync) X(rknn_outputs_unmap) X(rknn_create_mem) X(rknn_destroy_mem) X(rknn_set_io_mem)
#endif

typedef enum {
#define X(name) ID_##name,
    FUNCTIONS(X)
#undef X
        FUNCTION_COUNT
} function_id;

typedef enum { LIVE_CONTEXTS, LIVE_MEMS, LIVE_MAPS, LIVE_OUTPUTS, MISORDERED, RACES, LIVE_COUNT } live_id;
#define LIVE_NAMES "contexts", "mems", "maps", "outputs", "misordered", "races"

typedef struct {
    char name[256];
    int type, qnt, fmt, fl;
    uint32_t zp, rank, dims[16]; /* the outermost first */
    float scale;
} tensor;

typedef struct memory {
    rknn_tensor_mem mem;
    struct context *owner;
} memory;

typedef struct {
    unsigned char *out[MAX_IO];
    uint64_t id;
    int64_t ready_at_us;
} frame;

typedef struct context {
    tensor in[MAX_IO], out[MAX_IO];
    uint32_t n_in, n_out, flags;
    double a, b;
    int64_t latency_us, duration_us;
    const unsigned char *file; /* the caller's: must stay as it is */
    uint32_t file_size, file_sum;
    unsigned char *device_in[MAX_IO];
    void *io[2][MAX_IO]; /* memory of outputs [0] and inputs [1], NULL: the common path */
    int mapped[2], children, set;
    frame queue[QUEUE], last;
    int queued, fetched;
    uint64_t frames;
    atomic_int busy;
} context;

/* control.c */
int enter(function_id id);
int is_short(function_id id);
void live(live_id id, int change);
int64_t now_us(void);
void sleep_until_us(int64_t when);
void remember(void *object, int kind);
int known(const void *object, int kind); /* aborts on a stale handle, 0 for NULL */
void forget(void *object);
enum { KIND_CONTEXT = 1, KIND_MEMORY = 2 };
extern atomic_long copied_bytes;
extern uint32_t extra_latency_us, last_flags, last_registered;

/* model.c */
int parse_model(context *c, const unsigned char *data, uint32_t size);
uint32_t elements(const tensor *t);
uint32_t stored_size(const tensor *t);
uint32_t width_of(int type);
double load(int type, const unsigned char *data, uint32_t index);
void store(const tensor *t, unsigned char *data, uint32_t index, double real);
double real_of(const tensor *t, const unsigned char *data, uint32_t index);

#endif
