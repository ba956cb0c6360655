/* What channel.c calls of this library: what hangs on a context, or on a session. */
#include "rknn3.h"

#include <stdlib.h>
#include <unistd.h>

static void drop(struct channel *channel)
{
    answers_forget(&channel->answers);
    if (!channel->own)
        return;
    callbacks_close(channel->own->session);
    free(channel->own->texts);
    free(channel->own);
    channel->own = NULL;
}

static void after_fork(struct channel *channel)
{
    struct session *session = channel->own ? channel->own->session : NULL;
    if (session && session->asks >= 0) {
        close(session->asks);
        session->asks = -1;
    }
}

static int callback_socket(const struct channel *channel)
{
    return channel->own && channel->own->session ? channel->own->session->asks : -1;
}

static bool callback(struct channel *channel)
{
    return callbacks_serve(channel->own->session);
}

const struct channel_hooks library_hooks = {.closed = memory_leave,
                                            .drop = drop,
                                            .after_fork = after_fork,
                                            .callback_socket = callback_socket,
                                            .callback = callback};
