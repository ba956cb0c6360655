/* The parts of librkllmrt.so, for each other; each file may call those that stand above it.
 *
 * The library is compiled once for each layout of the API: the header that is found as rkllm.h says which one it is.
 */
#ifndef RKNNLITE_RKLLM_CLIENT_H
#define RKNNLITE_RKLLM_CLIENT_H

#include "client.h"
#include "rkllm.h"

#define FAILED (-1)
#define MOST_BATCH 100

#if RKLLM_HEADER_VERSION >= 10203
#define HAS_ROLES 1 /* roles, thinking, batches, figures, and what the callback returns */
#endif
#if RKLLM_HEADER_VERSION >= 10203 || defined RKLLM_HEADER_BETA
#define HAS_SEVERAL_IMAGES 1
#endif
#if RKLLM_HEADER_VERSION >= 10200
#define HAS_HISTORY 1 /* histories, templates, logits */
#endif
#if RKLLM_HEADER_VERSION >= 10300
#define HAS_MEDIA 1 /* videos, tags with each input, sampling with each run, callbacks of models without a tokenizer */
#endif

/* -- model_list.c: which models are open, and what of them any thread may ask ------------------------------ */

/* Values per embedding, and per row of an image or a video: those of all outputs of an encoder, side by side. */
struct widths {
    uint64_t hidden, media;
};

/* What a conversation keeps of its model. */
struct own {
    struct own *next;
    uint64_t id;
    int asks;                    /* where the server asks, -1 */
    int n_batch;
    struct widths widths;
    bool running, stop, told;    /* a run is under way; it shall end; the program was told its end */
    LLMResultCallback result;
    void *userdata;              /* of the run under way */
#ifdef HAS_MEDIA
    RKLLMCallback callbacks;
#endif
};

void models_add(struct own *own);
void models_remove(const struct own *own);
uint64_t model_id(LLMHandle handle);
int model_unknown(const char *function, LLMHandle handle); /* says so */
bool model_begin(LLMHandle handle, bool *known); /* a run; false: one is under way, or there is no such model */
void model_end(uint64_t id);
bool model_runs(LLMHandle handle, bool *known);
bool model_stop(LLMHandle handle); /* false: nothing runs */
bool model_stops(const struct own *own);
int model_batch(LLMHandle handle, struct widths *widths); /* 0: there is no such model; widths may be NULL */
int model_tell(LLMHandle handle, struct talk *talk, struct pack *pack); /* one call; the pack and the answer are freed */

/* -- callbacks.c ------------------------------------------------------------------------------------------- */

bool callbacks_serve(struct own *own);
void callbacks_error(struct own *own); /* tell the program that the run has failed, unless it knows its end */

/* -- hooks.c ------------------------------------------------------------------------------------------------ */

extern const struct channel_hooks library_hooks;

/* -- inputs.c ----------------------------------------------------------------------------------------------- */

void pack_real(struct pack *pack, float value);
void pack_path(struct pack *pack, const char *path); /* whole; NULL: none */
/* All inputs of a run; what is wrong with them, or NULL. */
const char *pack_inputs(struct pack *pack, const RKLLMInput *inputs, int count, const struct widths *widths);

#endif
