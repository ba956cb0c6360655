/* What librknnrt.so and librknn3_api.so share: conversations with the process that computes.
 *
 * Each file here may call those that stand above it, and nothing of ../rknnrt and ../rknn3 but by ``struct channel_hooks``.
 */
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

#ifndef PUBLIC
#define PUBLIC __attribute__((visibility("default")))
#endif

/* -- ../rknnrt/library.c, ../rknn3/library.c: name and codes of the library that this is compiled into --------- */

struct library {
    const char *name;   /* for messages */
    const char *opener; /* the function that starts the server */
    int failed, context_invalid, unavailable, no_memory; /* its codes for these */
};

extern const struct library library;

/* -- failure.c ------------------------------------------------------------------------------------ */

/* Say on stderr what failed; returns the code. */
int failed(const char *function, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* -- wire.c: descriptors and bytes ---------------------------------------------------------------- */

bool wire_send(int sock, const void *head, size_t head_size, const void *payload, size_t size, const int *fds,
               int n_fds);
bool wire_recv(int sock, void *bytes, size_t size, int *fds, int *n_fds);
/* At least ``size`` bytes, and what lies behind them up to ``room``: how many, 0 at the end. */
size_t wire_recv_ahead(int sock, void *bytes, size_t size, size_t room, int *fds, int *n_fds);
/* Wait until there is something to read. Where the last wait was ``quick`` it is looked for again and again for WATCHED
 * nanoseconds before this thread sleeps: waking it takes as long as a small network. Each time in vain makes for a longer
 * pause, in calls, until it is tried again: other programs have the processors. */
#define WATCHED 100000u
#define MOST_PAUSE 1023u
struct watch {
    bool quick;
    unsigned failed, pause;
};
bool wire_watch(int sock, struct watch *watch);
int wire_memory(size_t size); /* a descriptor of fresh memory, -1 */

/* -- handover.c: what programs hand over to the server ------------------------------------------------ */

int handover_bytes(const void *bytes, uint64_t size); /* a descriptor of a copy, -1 */
/* The same of these bytes of a file; errno is ERANGE where they are not all in it. */
int handover_part(const char *path, uint64_t offset, uint64_t size);
char *handover_path(const char *path); /* meaning the same in the server, which began in another folder; the caller frees it */

/* -- pack.c: values one behind the other ------------------------------------------------------------ */

struct pack {
    char *bytes;
    size_t size, room;
    bool lost; /* there was no memory */
};

void pack_number(struct pack *pack, uint64_t number);
void pack_bytes(struct pack *pack, const void *bytes, uint64_t size); /* NULL: none, which is told */
void pack_text(struct pack *pack, const char *text);

/* -- detached_spawn.c: a process that is no child of this one --------------------------------------- */

struct detached_program {
    const char *path;
    char *const *arguments, *const *environment;
    const posix_spawn_file_actions_t *files;
    const posix_spawnattr_t *attributes;
};

pid_t detached_spawn(const struct detached_program *program, int *error); /* -1 and why */

/* -- server_process.c: the process that computes ------------------------------------------------------ */

/* A connection to a thread of the server for context ``id``; the server is started when there is none. -1: there is
 * none, and why was said. */
int server_connect(uint64_t id);
void server_doubt(void);      /* a connection has ended: the whole server may be about to */
void server_stop(void);       /* end it */
void server_after_fork(void); /* in the child: it is the parent's */

/* -- answers.c: answers of queries that stay true ------------------------------------------------------- */

struct answer {
    struct answer *next;
    uint32_t command, index;
    uint64_t room;  /* bytes that the program had for it: with the two above, what was asked */
    bool later;     /* of librknn3_api: the structure of the later revision */
    uint64_t size;
    char bytes[];
};

const struct answer *answers_find(const struct answer *list, uint32_t command, uint32_t index, uint64_t room);
/* Keeps a copy; without memory for it there is none. Returns the record, NULL. */
struct answer *answers_keep(struct answer **list, uint32_t command, uint32_t index, uint64_t room, const void *bytes,
                            uint64_t size);
void answers_forget(struct answer **list);

/* -- channel.c: one conversation ------------------------------------------------------------------ */

struct operators;
struct frames;
struct own;
struct channel;

/* What a library does with the conversations that it opens. */
struct channel_hooks {
    void (*closed)(uint64_t id);             /* a context is gone */
    void (*drop)(struct channel *channel);   /* free what hangs on one */
    void (*after_fork)(struct channel *channel); /* in the child */
    int (*callback_socket)(const struct channel *channel); /* where the server asks for callbacks, -1 */
    bool (*callback)(struct channel *channel); /* answer one; false: the server has ended */
};

/* One context of the program, and its thread on the server. */
struct channel {
    struct channel *next;
    const struct channel_hooks *hooks;
    uint64_t id;
    int sock;
    int users;           /* calls under way; guarded by the list's lock */
    bool inherited;      /* opened before a fork */
    bool broken;         /* the server has ended */
    struct watch watch;  /* for answers */
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

/* A new one, taken; NULL and the code. */
struct channel *channel_open(const char *function, const struct channel_hooks *hooks, int *code);
struct channel *channel_take(const char *function, uint64_t id, int *code); /* for one call; NULL and the code */
struct channel *channel_look(uint64_t id);                                  /* the same, NULL and no word */
void channel_let_go(struct channel *channel);
void channel_publish(struct channel *channel); /* the program may use its number from now on */
void channel_drop(struct channel *channel);    /* take out of the list and give back; it is taken */
int channel_talk(struct channel *channel, struct talk *talk); /* one call; what failed is said */
bool channel_is_open(uint64_t id);
bool channels_are_leaving(void); /* the program, or the library, is at its end */

/* -- importers.c: the contexts that have imported a memory --------------------------------------------- */

struct importer {
    struct importer *next;
    uint64_t channel;
};

bool importers_have(const struct importer *list, uint64_t channel);
void importers_add(struct importer **list, uint64_t channel);
void importers_remove(struct importer **list, uint64_t channel);
void importers_end(struct importer **list, const char *function, uint64_t memory); /* it is gone: tell them all */

#endif
