/* What a context keeps for the common path; of frames.c, inputs.c, outputs.c and run.c. */
#ifndef RKNNLITE_FRAMES_H
#define RKNNLITE_FRAMES_H

#include "rknnrt.h"

struct held {
    struct held *next;
    void *buf;
};

struct area {
    char *at; /* mapped here and in the server */
    size_t size;
};

/* What the server is told of an output, and tells of it. Twins in staging.py. */
struct told_output {
    uint32_t index, want_float;
};

struct place {
    uint64_t offset, size, index;
};

struct frames {
    rknn_input *kinds; /* as the server took them, buf left out */
    uint32_t *needs;   /* bytes of each that are taken; a program may say more */
    uint32_t n_inputs;
    struct area in, out;
    bool waiting;    /* inputs lie in the staging memory, to be taken */
    struct told_output *wanted; /* each output as last asked for */
    uint32_t n_outputs;
    bool fetched;   /* outputs of the last run were asked for */
    bool delivered; /* outputs of the last run lie in ``out`` */
    struct place *places; /* of each output in ``out`` */
    uint64_t frame;
    struct held *held; /* buffers that the program has not released */
};

struct frames *frames_of(struct channel *channel); /* NULL: no memory for it */
bool frames_map(struct area *area, int fd, size_t size);
bool outputs_take(struct frames *frames, struct talk *talk); /* what the server tells of them: whether they are there */

#endif
