/* Insides of the test double of librknnrt: models, contexts, counters. Built and steered by double.py. */
#ifndef DOUBLE_H
#define DOUBLE_H

#include "rknn_abi.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_IO 64
#define MAX_SHAPES 16
#define MAX_ATTRS 16
#ifndef VERSION
#define VERSION "2.3.2"
#endif

/* Every function of the library that can be counted and told to fail. */
#define FUNCTIONS(X)                                                                                         \
    X(rknn_init) X(rknn_dup_context) X(rknn_destroy) X(rknn_query) X(rknn_inputs_set)                        \
    X(rknn_set_batch_core_num) X(rknn_set_core_mask) X(rknn_run) X(rknn_wait) X(rknn_outputs_get)            \
    X(rknn_outputs_release) X(rknn_create_mem_from_phys) X(rknn_create_mem_from_fd)                          \
    X(rknn_create_mem_from_mb_blk) X(rknn_create_mem) X(rknn_create_mem2) X(rknn_destroy_mem)                \
    X(rknn_set_weight_mem) X(rknn_set_internal_mem) X(rknn_set_io_mem) X(rknn_set_input_shape)               \
    X(rknn_set_input_shapes) X(rknn_mem_sync) X(rknn_register_custom_ops) X(rknn_custom_op_get_op_attr)       \
    X(rknn_matmul_create) X(rknn_matmul_create_dynamic_shape) X(rknn_matmul_set_io_mem)                      \
    X(rknn_matmul_set_core_mask) X(rknn_matmul_set_quant_params) X(rknn_matmul_get_quant_params)             \
    X(rknn_matmul_set_dynamic_shape) X(rknn_matmul_run) X(rknn_matmul_destroy)

typedef enum {
#define X(name) ID_##name,
    FUNCTIONS(X)
#undef X
        FUNCTION_COUNT
} function_id;

/* Objects that somebody has to give back. MISORDERED counts parents that went before their children. */
typedef enum { LIVE_CONTEXTS, LIVE_MEMS, LIVE_OUTPUTS, LIVE_OPS, MISORDERED, RACES, LIVE_COUNT } live_id;

typedef struct {
    char name[256];
    rknn_tensor_type type;
    uint32_t rank, dims[16]; /* inputs of rank 4: NHWC, outputs of rank 4: NCHW */
    float scale;
    int32_t zp;
    int quantised, native; /* native: kept as NC1HWC2 */
} tensor;

typedef struct {
    char name[64];
    rknn_tensor_type type;
    uint32_t count;
    double values[16];
    char text[128];
    int64_t ints[16];
    float floats[16];
} op_attr;

typedef struct {
    atomic_int users;
    tensor in[MAX_IO], out[MAX_IO];
    uint32_t n_in, n_out, n_shapes;
    uint32_t in_dims[MAX_SHAPES][MAX_IO][16], out_dims[MAX_SHAPES][MAX_IO][16];
    char platform[32], toolkit[32], op[64], custom[1024];
    double a, b;
    uint32_t weight, internal, latency_us;
    op_attr attrs[MAX_ATTRS];
    uint32_t n_attrs;
} model;

/* How elements lie in a buffer. */
typedef struct {
    unsigned char *data;
    size_t size;
    rknn_tensor_type type;
    rknn_tensor_format fmt;
    uint32_t w_stride, c2; /* 0: as the NPU has it */
    int pass_through;
} placing;

typedef struct memory {
    rknn_tensor_mem mem;
    struct context *owner;
    void *mapped;
    size_t mapped_size;
    int own_fd, pinned; /* pinned: a context reads its model here */
} memory;

typedef struct context {
    model *net;
    struct context *parent;
    memory *model_memory;
    uint32_t flags, children, shape;
    int shape_chosen, core_num, has_run;
    rknn_core_mask mask;
    placing in[MAX_IO];
    unsigned char *out[2][MAX_IO]; /* what the NPU left, this frame and the one before */
    int current;
    memory *bound_in[MAX_IO], *bound_out[MAX_IO];
    placing place_in[MAX_IO], place_out[MAX_IO];
    memory *weight, *internal;
    uint64_t frame;
    int64_t ready_at_us, duration_us;
    atomic_int busy;
    rknn_custom_op *op;
    rknn_custom_op_context op_ctx;
    rknn_custom_op_tensor *op_in, *op_out;
    memory *op_mems[2 * MAX_IO];
    int op_skipped;
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
struct memory *memory_at(const void *address);
enum { KIND_CONTEXT = 1, KIND_MEMORY = 2 };
extern atomic_long copied_bytes; /* payload that calls copied in or out */
extern uint32_t extra_latency_us, last_flags, last_registered;

/* model.c */
model *parse_model(const char *text, size_t size);
int read_model(const void *data, uint32_t size, model **result);
void free_model(model *net);

/* tensor.c */
uint32_t type_size(rknn_tensor_type type);
size_t elements(const tensor *t);
uint32_t c2_of(rknn_tensor_type type);
double get_element(rknn_tensor_type type, const unsigned char *data, size_t index);
void put_element(rknn_tensor_type type, unsigned char *data, size_t index, double value);
double quantise(const tensor *t, double real);
double real_of(const tensor *t, double stored);
size_t where(const tensor *t, const placing *p, size_t logical, int dims_are_nhwc);
size_t stored_size(const tensor *t);
void describe(const tensor *t, uint32_t index, int is_input, rknn_query_cmd cmd, rknn_tensor_attr *attr);
tensor input_of(const context *c, uint32_t index);
tensor output_of(const context *c, uint32_t index);
void place(const tensor *t, const rknn_tensor_attr *attr, int is_input, placing *p);

/* memory.c */
memory *new_memory(context *owner, size_t size);
void free_memory(memory *m);

/* custom.c */
int run_custom(context *c);
void drop_custom(context *c);

#endif
