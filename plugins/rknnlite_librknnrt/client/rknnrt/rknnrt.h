/* The parts of librknnrt.so, for each other; each file may call those that stand above it. */
#ifndef RKNNLITE_RKNNRT_H
#define RKNNLITE_RKNNRT_H

#include "client.h"
#include "rknn_api.h"
#include "rknn_custom_op.h"
#include "rknn_matmul_api.h"

#define MOST_TENSORS 4096 /* of one call */

/* librknnmrt.so, for RV1103 and RV1106, is compiled of the same files with RKNN_MINI, and without the functions that are FULL. */
#ifdef RKNN_MINI
#define MINI true
#define FULL
#else
#define MINI false
#define FULL PUBLIC
#endif

/* Of a function that librknnmrt.so has and refuses. */
#define NOT_IN_MINI "librknnmrt has no such path: give memory of rknn_create_mem to the tensors, by rknn_set_io_mem"

/* -- memory.c: memory that programs share with contexts ------------------------------------------------ */

/* Make the context know a memory, and put the number that it has there into *id. */
int memory_import(struct channel *channel, const char *function, const rknn_tensor_mem *mem, uint64_t *id);
void memory_bound(uint64_t id, bool input);
void memory_to_server(void);   /* before a run: what is only mirrored */
void memory_from_server(void); /* after it */
void memory_leave(uint64_t channel); /* a context is gone */

/* -- frames.c, inputs.c, outputs.c, run.c: the common path ----------------------------------------------- */

void frames_renew(struct channel *channel); /* other shapes: inputs and outputs are of another kind now */
void frames_drop(struct channel *channel);
int inputs_flush(struct channel *channel, const char *function); /* hand over inputs that wait for a run */

/* -- gpu.c: OpenCL for operators of the GPU ---------------------------------------------------------- */

const char *gpu_fault(void); /* why there is no OpenCL; NULL where there is */
void *gpu_program(const char *function, const rknn_custom_op *op, int *code); /* NULL: why was said, *code is set */
bool gpu_begin(void *program, const char *name, rknn_gpu_op_context *gpu);    /* for one node */
void gpu_end(void *kernel, void *program);                                    /* either may be NULL */
void gpu_know(const rknn_tensor_mem *mem);                                    /* its descriptor may be imported */
void gpu_forget(const rknn_tensor_mem *mem);
void gpu_sync(const rknn_tensor_mem *mem, bool to_device);

/* -- custom_op.c: operators of the program ------------------------------------------------------------- */

int operators_socket(const struct channel *channel); /* where the server asks for callbacks, -1 */
bool operators_serve(struct channel *channel);       /* answer one; false: the server has ended */
void operators_drop(struct channel *channel);
void operators_after_fork(struct channel *channel);

/* -- hooks.c: what all of these do with a conversation ----------------------------------------------------- */

extern const struct channel_hooks library_hooks;

#endif
