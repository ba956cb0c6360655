/* The parts of librknn3_api.so, for each other. */
#ifndef RKNNLITE_RKNN3_H
#define RKNNLITE_RKNN3_H

#include "client.h"
#include "rknn3_api.h"

#define MOST_TENSORS 4096

struct session;

/* What librknn3_api keeps of a conversation with the server: of a context, or of a session. */
struct own {
    bool later;      /* the program was compiled with a header of the later revision */
    bool is_session; /* its functions take a session, not a context */
    char *texts;     /* that the last RKNN3_QUERY_LLM_CONFIG points to */
    struct session *session;
    struct told *told; /* answers that stay true until something is set */
};

/* -- query3.c ------------------------------------------------------------------------------------- */

void told_forget(struct own *own);

/* -- model3.c ------------------------------------------------------------------------------------- */

struct channel *context_take(const char *function, rknn3_context context, int *code);
int context_tell(rknn3_context context, struct talk *talk); /* take, talk, let go; the answer is freed */
bool is_later(rknn3_context context);
void program_is_later(rknn3_context context);
int refused(const char *function, rknn3_context context, const char *why);

/* -- memory3.c ------------------------------------------------------------------------------------ */

int memory3_known(struct channel *channel, const char *function, const rknn3_tensor_mem *mem, uint64_t *id);
uint64_t memory3_size(const rknn3_tensor_mem *mem); /* 0: there is none */
void memory3_leave(uint64_t channel);
void memory3_after_fork(void);

/* -- pack.c: values one behind the other ------------------------------------------------------------ */

struct pack {
    char *bytes;
    size_t size, room;
    bool lost; /* there was no memory */
};

void pack_number(struct pack *pack, uint64_t number);
void pack_bytes(struct pack *pack, const void *bytes, uint64_t size); /* NULL: none, which is told */
void pack_text(struct pack *pack, const char *text);
const char *pack_inputs(struct pack *pack, const rknn3_llm_input *inputs, uint32_t count, uint64_t hidden);

/* -- session3.c, callbacks3.c ----------------------------------------------------------------------- */

/* What the server asks the program for while a session runs, or a chat server. */
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

int session_sockets(struct session *session); /* where the server shall ask; its end, -1 */
void session_drop(struct session *session);
bool session_serve(struct session *session);
void sessions_after_fork(void);

#endif
