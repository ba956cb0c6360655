/* What makes the shared code librknn3_api.so: its name, its codes, what hangs on its contexts and sessions. */
#include "rknn3.h"

#include <stdlib.h>
#include <unistd.h>

#ifndef RKNNLITE_VERSION
#define RKNNLITE_VERSION "unknown"
#endif

PUBLIC const char rknnlite_librknn3_marker[] = RKNNLITE_VERSION;

const struct library library = {"librknn3_api",        "rknn3_init",
                                RKNN3_ERR_FAIL,        RKNN3_ERR_CTX_INVALID,
                                RKNN3_ERR_DEVICE_UNAVAILABLE, RKNN3_ERR_OUT_OF_MEMORY};

void library_drop(struct channel *channel)
{
    if (!channel->own)
        return;
    session_drop(channel->own->session);
    told_forget(channel->own);
    free(channel->own->texts);
    free(channel->own);
    channel->own = NULL;
}

void library_leave(uint64_t id)
{
    memory3_leave(id);
}

void library_after_fork(void)
{
    memory3_after_fork();
    sessions_after_fork();
}

void library_context_after_fork(struct channel *channel)
{
    struct session *session = channel->own ? channel->own->session : NULL;
    if (session && session->asks >= 0) {
        close(session->asks);
        session->asks = -1;
    }
}

int library_asks(const struct channel *channel)
{
    return channel->own && channel->own->session ? channel->own->session->asks : -1;
}

bool library_serve(struct channel *channel)
{
    return session_serve(channel->own->session);
}
