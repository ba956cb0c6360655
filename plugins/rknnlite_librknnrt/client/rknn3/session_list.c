/* Which sessions there are, and calls of one. */
#include "rknn3.h"

#include <stdlib.h>

struct entry {
    struct entry *next;
    uint64_t id;
    rknn3_context context;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;

static void after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
}

__attribute__((constructor)) static void prepare(void)
{
    pthread_atfork(NULL, NULL, after_fork);
}

uint64_t session_id(const rknn3_session *session)
{
    return (uint64_t)(uintptr_t)session;
}

rknn3_context session_context(const rknn3_session *session)
{
    pthread_mutex_lock(&lock);
    const struct entry *entry = entries;
    while (entry && entry->id != session_id(session))
        entry = entry->next;
    rknn3_context context = entry ? entry->context : 0;
    pthread_mutex_unlock(&lock);
    return context;
}

bool sessions_add(uint64_t id, rknn3_context context)
{
    struct entry *entry = malloc(sizeof *entry);
    if (!entry)
        return false;
    entry->id = id;
    entry->context = context;
    pthread_mutex_lock(&lock);
    entry->next = entries;
    entries = entry;
    pthread_mutex_unlock(&lock);
    return true;
}

void sessions_remove(uint64_t id)
{
    pthread_mutex_lock(&lock);
    struct entry **at = &entries;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    struct entry *entry = *at;
    if (entry)
        *at = entry->next;
    pthread_mutex_unlock(&lock);
    free(entry);
}

int session_unknown(const char *function, const rknn3_session *session)
{
    return failed(function, RKNN3_ERR_CTX_INVALID, "there is no session %p; it was never opened, or destroyed",
                  (const void *)session);
}

struct channel *session_take(const char *function, rknn3_session *session, int *code)
{
    if (!session_context(session)) {
        *code = session_unknown(function, session);
        return NULL;
    }
    return channel_take(function, session_id(session), code);
}

int session_tell(rknn3_session *session, struct talk *talk)
{
    int code = 0;
    struct channel *channel = session_take(talk->function, session, &code);
    if (!channel)
        return code;
    code = channel_talk(channel, talk);
    free(talk->answer);
    channel_let_go(channel);
    return code;
}

int session_tell_pack(rknn3_session *session, struct talk *talk, struct pack *pack)
{
    talk->payload = pack->bytes;
    talk->size = pack->size;
    int code = pack->lost ? failed(talk->function, RKNN3_ERR_OUT_OF_MEMORY, "no memory") : session_tell(session, talk);
    free(pack->bytes);
    return code;
}
