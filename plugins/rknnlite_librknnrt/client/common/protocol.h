/* What the library and its server say to each other. The twin of protocol.py; a test compares them.
 *
 * One socket per context. The library asks, the server answers; tensors lie in memory that both have mapped, and only
 * descriptors of it travel. Numbers are those of the machine: both ends are on it.
 */
#ifndef RKNNLITE_PROTOCOL_H
#define RKNNLITE_PROTOCOL_H

#include <stdint.h>

#define PROTOCOL_VERSION 3
#define MOST_FDS 64 /* descriptors that travel with one message */
#define MOST_ARGS 5

/* Calls of the library. */
enum call {
    CALL_INIT = 1,
    CALL_DUP,
    CALL_CLOSE,
    CALL_QUERY,
    CALL_CORE_MASK,
    CALL_BATCH_CORES,
    CALL_SHAPES,
    CALL_INPUTS, /* take the inputs that lie in the staging memory; with a payload: of this kind from now on */
    CALL_RUN,
    CALL_WAIT,
    CALL_OUTPUTS,
    CALL_MEMORY, /* know memory from now on */
    CALL_FORGET, /* the memory is gone */
    CALL_BIND,
    CALL_WEIGHTS,
    CALL_INTERNAL,
    CALL_SYNC,
    CALL_OPERATORS,
    CALL_MATMUL,
    CALL_MATMUL_BIND,
    CALL_MATMUL_MASK,
    CALL_MATMUL_QUANT,
    CALL_MATMUL_SCALE,
    CALL_MATMUL_SHAPE,
    CALL_MATMUL_RUN,
    CALL_NATIVE_B,
    /* librknn3_api */
    CALL3_INIT,
    CALL3_DEVICES,
    CALL3_LOAD,
    CALL3_MODEL_INIT,
    CALL3_DUP,
    CALL3_QUERY,
    CALL3_SHAPE,
    CALL3_RUN,
    CALL3_WAIT,
    CALL3_DUMP,
    CALL3_PROFILE,
    CALL3_PROFILE_MEMORY,
    CALL3_PLUGIN,
    CALL3_GIVEN, /* memory for weights, internal tensors or a KV cache */
    CALL3_KEY,
    CALL3_SESSION,
    CALL3_SESSION_CALLBACKS,
    CALL3_SESSION_RUN,
    CALL3_SESSION_STOP,  /* by the context, while the session runs */
    CALL3_SESSION_STATE, /* the same */
    CALL3_SESSION_PARAMS,
    CALL3_SESSION_TEMPLATE,
    CALL3_SESSION_TOOLS,
    CALL3_SESSION_POLICY,
    CALL3_SESSION_CLEAR,
    CALL3_SESSION_SAVE,
    CALL3_SESSION_LOAD,
    CALL3_CHAT_SERVER,
    CALL3_CHAT_STOP,
    /* librkllmrt */
    CALL_LLM_INIT,
    CALL_LLM_RUN,
    CALL_LLM_TEMPLATE,
    CALL_LLM_TOOLS,
    CALL_LLM_CLEAR,
    CALL_LLM_CUT, /* a part of the cache of a paused run */
    CALL_LLM_SIZES,
    CALL_LLM_LORA,
    CALL_LLM_LOAD,
    CALL_LLM_RELEASE
};

/* What the server asks the program for, on the second socket of a context with operators, of a session, or of a model. */
enum callback {
    CALLBACK_NODE = 1, /* a node: its tensors and attributes, before anything is called */
    CALLBACK_INIT,
    CALLBACK_COMPUTE, /* prepare, then compute */
    CALLBACK_DESTROY,
    /* a session of librknn3_api */
    CALLBACK3_RESULT,
    CALLBACK3_TOKENIZE,
    CALLBACK3_EMBED,
    CALLBACK3_SAMPLE,
    CALLBACK3_OUTPUT,
    /* the chat server */
    CALLBACK3_STATUS,
    /* librkllmrt */
    CALLBACK_LLM_RESULT,
    CALLBACK_LLM_TOKENIZE,
    CALLBACK_LLM_EMBED
};

/* Bits of the first argument of CALL_RUN. */
#define RUN_WITH_INPUTS 1  /* take the inputs in the staging memory first */
#define RUN_WITH_OUTPUTS 2 /* put the outputs into their memory, as they were last asked for */
#define RUN_NON_BLOCK 4

/* Bits of what CALL_INIT answers. */
#define INIT_DYNAMIC 1 /* attributes may change */
#define INIT_SYNCS 2   /* rknn_mem_sync means something */

struct request {
    uint32_t call;
    uint32_t size; /* of the payload behind it */
    uint64_t args[MOST_ARGS];
};

struct reply {
    int32_t code;
    uint32_t size; /* of the payload behind it: the answer, or why it failed */
    uint64_t args[MOST_ARGS];
};

#endif
