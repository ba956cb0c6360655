/* The parts of librknn3_api.so, for each other; each file may call those that stand above it. */
#ifndef RKNNLITE_RKNN3_H
#define RKNNLITE_RKNN3_H

#include "client.h"
#include "rknn3_api.h"

#define MOST_TENSORS 4096 /* of one call */

struct session;

/* What librknn3_api keeps of a conversation with the server: of a context, or of a session. */
struct own {
    bool later;      /* the program was compiled with a header of the later revision */
    bool is_session; /* its functions take a session, not a context */
    char *texts;     /* that the last RKNN3_QUERY_LLM_CONFIG points to */
    struct session *session;
};

/* -- context.c: a context in a call -------------------------------------------------------------------- */

struct channel *context_take(const char *function, rknn3_context context, int *code);
int context_tell(rknn3_context context, struct talk *talk); /* take, talk, let go; the answer is freed */
bool context_is_later(rknn3_context context); /* of the later revision */
bool environment_is_later(void);              /* what RKNNLITE_RKNN3_VERSION says of programs */
void program_is_later(rknn3_context context); /* it has called a function of the later revision */
int context_refused(const char *function, rknn3_context context, const char *why);

/* -- memory.c --------------------------------------------------------------------------------------- */

/* Make the context know a memory, and put the number that it has there into *id. */
int memory_import(struct channel *channel, const char *function, const rknn3_tensor_mem *mem, uint64_t *id);
uint64_t memory_size(const rknn3_tensor_mem *mem); /* 0: there is none */
void memory_leave(uint64_t channel);

/* -- callbacks.c: of a session, or of a chat server ------------------------------------------------------ */

/* What the server asks the program for. */
struct session {
    rknn3_context context;
    uint64_t hidden, vocab; /* of the model */
    int asks;               /* where the server asks, -1 */
    bool ended;             /* the program was told the end of the run */
    RKLLMCallback callbacks;
    struct output *outputs; /* of the output callback */
    void (*status)(void *userdata, int status); /* of the chat server */
    void *status_userdata;
};

/* One of the program's tensors for the output callback. */
struct output {
    char *at;
    uint64_t size;
};

int callbacks_open(struct session *session); /* where the server shall ask; its end, -1 */
void callbacks_close(struct session *session);
bool callbacks_serve(struct session *session);

/* -- hooks.c: what all of these do with a conversation ----------------------------------------------------- */

extern const struct channel_hooks library_hooks;

/* -- llm_inputs.c ------------------------------------------------------------------------------------- */

/* All inputs of a run; ``hidden``: values per embedding. What is wrong with them, or NULL. */
const char *pack_llm_inputs(struct pack *pack, const rknn3_llm_input *inputs, uint32_t count, uint64_t hidden);

/* -- session_list.c: which sessions there are ------------------------------------------------------------ */

bool sessions_add(uint64_t id, rknn3_context context);
void sessions_remove(uint64_t id);
uint64_t session_id(const rknn3_session *session);
rknn3_context session_context(const rknn3_session *session); /* 0: there is no such session */
int session_unknown(const char *function, const rknn3_session *session); /* says so */
struct channel *session_take(const char *function, rknn3_session *session, int *code);
int session_tell(rknn3_session *session, struct talk *talk); /* one call that has nothing to answer */
int session_tell_pack(rknn3_session *session, struct talk *talk, struct pack *pack); /* the same; the pack is freed */

#endif
