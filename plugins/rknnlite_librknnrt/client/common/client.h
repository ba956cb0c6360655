/* The parts of the library, for each other. */
#ifndef RKNNLITE_CLIENT_H
#define RKNNLITE_CLIENT_H

#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64

#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"
#include "rknn_api.h"
#include "rknn_custom_op.h"
#include "rknn_matmul_api.h"

#define PUBLIC __attribute__((visibility("default")))

/* -- library.c, client3/library3.c: what the two libraries that share this code have of their own -------- */

struct channel;

struct library {
    const char *name;   /* for messages */
    const char *opener; /* the function that starts the server */
    int failed, context_invalid, unavailable, no_memory; /* its codes for these */
};

extern const struct library library;

void library_drop(struct channel *channel);              /* free what hangs on a context */
void library_leave(uint64_t id);                         /* a context is gone */
void library_after_fork(void);                           /* in the child, */
void library_context_after_fork(struct channel *channel); /* and for each context there */
int library_asks(const struct channel *channel);         /* where the server asks for callbacks, -1 */
bool library_serve(struct channel *channel);             /* answer one; false: the server has ended */

/* -- process.c: the server process ---------------------------------------------------------------- */

/* A connection to a thread of the server for context ``id``; the server is started when there is none. -1: there is
 * none, and why was said. */
int process_connect(uint64_t id);
bool process_is_leaving(void); /* the program, or the library, is at its end */

/* A connection has ended: the whole server may be about to. */
void process_doubt(void);

/* Say on stderr what failed; returns the code. */
int failed(const char *function, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* -- orphan.c: a process that is no child of this one ---------------------------------------------- */

struct orphan {
    const char *path;
    char *const *arguments, *const *environment;
    const posix_spawn_file_actions_t *files;
    const posix_spawnattr_t *attributes;
};

pid_t orphan_start(const struct orphan *orphan, int *error); /* -1 and why */

/* -- wire.c: descriptors and bytes ---------------------------------------------------------------- */

bool wire_send(int sock, const void *head, size_t head_size, const void *payload, size_t size, const int *fds,
               int n_fds);
bool wire_recv(int sock, void *bytes, size_t size, int *fds, int *n_fds);
/* At least ``size`` bytes, and what lies behind them up to ``room``: how many, 0 at the end. */
size_t wire_recv_ahead(int sock, void *bytes, size_t size, size_t room, int *fds, int *n_fds);
int wire_memory(size_t size); /* a descriptor of fresh memory, -1 */

/* -- given.c: what programs hand over --------------------------------------------------------------- */

int given_bytes(const void *bytes, uint64_t size); /* a descriptor of a copy, -1 */
/* The same of these bytes of a file; errno is ERANGE where they are not all in it. */
int given_part(const char *path, uint64_t offset, uint64_t size);
char *given_path(const char *path); /* meaning the same in the server, which began in another folder; the caller frees it */

/* -- channel.c: one conversation ------------------------------------------------------------------ */

struct operators;
struct frames;
struct answer;

/* One context of the program, and its thread on the server. */
struct channel {
    struct channel *next;
    uint64_t id;
    int sock;
    int users;           /* calls under way; guarded by the list's lock */
    bool inherited;      /* opened before a fork */
    bool broken;         /* the server has ended */
    bool matmul;
    bool calling;        /* ``caller`` is in a call */
    pthread_t caller;
    uint32_t facts;      /* what CALL_INIT answered */
    pthread_mutex_t lock; /* one call at a time */
    struct answer *answers; /* of queries, while they stay true */
    char *perf;             /* the text that the last PERF_DETAIL points to */
    struct frames *frames;
    struct operators *operators;
    struct own *own; /* of librknn3_api */
};

/* What a call tells the server, and what it is told. Zero what is not used. */
struct talk {
    const char *function; /* of the API, for messages */
    uint32_t call;
    uint64_t args[MOST_ARGS];
    const void *payload;
    size_t size;
    const int *fds;
    int n_fds;
    /* answered: */
    uint64_t told[MOST_ARGS];
    void *answer; /* the caller frees it; always ends in a zero byte */
    size_t answer_size;
    int got[MOST_FDS];
    int n_got;
};

struct channel *channel_open(const char *function, int *code);         /* a new one, taken; NULL and the code */
struct channel *channel_take(const char *function, uint64_t id, int *code); /* for one call; NULL and the code */
struct channel *channel_look(uint64_t id);                                  /* the same, NULL and no word */
void channel_let_go(struct channel *channel);
void channel_publish(struct channel *channel); /* the program may use its number from now on */
void channel_drop(struct channel *channel);    /* take out of the list and give back; it is taken */
int channel_talk(struct channel *channel, struct talk *talk); /* one call; what failed is said */
bool channel_is_open(uint64_t id);

/* -- learned.c: which contexts know a memory ---------------------------------------------------------- */

struct learned {
    struct learned *next;
    uint64_t channel;
};

bool learned_has(const struct learned *learned, uint64_t channel);
void learned_add(struct learned **list, uint64_t channel);
void learned_leave(struct learned **list, uint64_t channel);
void learned_end(struct learned **list, const char *function, uint64_t memory); /* it is gone: tell them all */

/* -- context.c ------------------------------------------------------------------------------------ */

void answers_forget(struct channel *channel);

/* -- frames.c ------------------------------------------------------------------------------------- */

int frames_flush(struct channel *channel, const char *function); /* hand over inputs that wait for a run */
void frames_renew(struct channel *channel); /* other shapes: inputs and outputs are of another kind now */
void frames_drop(struct channel *channel);

/* -- memory.c ------------------------------------------------------------------------------------- */

/* Put the number of memory that the server knows for this context into *id. */
int memory_known(struct channel *channel, const char *function, const rknn_tensor_mem *mem, uint64_t *id);
void memory_bound(uint64_t id, bool input);
void memory_to_server(void);   /* before a run: what is only mirrored */
void memory_from_server(void); /* after it */
void memory_leave(uint64_t channel); /* a context is gone */
void memory_after_fork(void);

/* -- custom_op.c ---------------------------------------------------------------------------------- */

int operators_socket(const struct channel *channel); /* where the server asks for callbacks, -1 */
bool operators_serve(struct channel *channel);       /* answer one; false: the server has ended */
void operators_drop(struct channel *channel);
void operators_after_fork(struct channel *channel);

/* -- gpu.c: OpenCL for operators of the GPU ---------------------------------------------------------- */

const char *gpu_fault(void); /* why there is no OpenCL; NULL where there is */
void *gpu_program(const char *function, const rknn_custom_op *op, int *code); /* NULL: why was said, *code is set */
bool gpu_begin(void *program, const char *name, rknn_gpu_op_context *gpu);    /* for one node */
void gpu_end(void *kernel, void *program);                                    /* either may be NULL */
void gpu_know(const rknn_tensor_mem *mem);                                    /* its descriptor may be imported */
void gpu_forget(const rknn_tensor_mem *mem);
void gpu_sync(const rknn_tensor_mem *mem, bool to_device);

/* -- life ----------------------------------------------------------------------------------------- */

void channels_after_fork(void);
void channels_drop_all(void);

#endif
