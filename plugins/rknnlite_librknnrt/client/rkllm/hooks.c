/* What channel.c calls of this library: what hangs on a model. */
#include "rkllm_client.h"

#include <stdlib.h>
#include <unistd.h>

static void closed(uint64_t id)
{
    (void)id;
}

static void drop(struct channel *channel)
{
    struct own *own = channel->own;
    if (!own)
        return;
    models_remove(own);
    if (own->asks >= 0)
        close(own->asks);
    free(own);
    channel->own = NULL;
}

static void after_fork(struct channel *channel)
{
    if (channel->own && channel->own->asks >= 0) {
        close(channel->own->asks);
        channel->own->asks = -1;
    }
}

static int callback_socket(const struct channel *channel)
{
    return channel->own ? channel->own->asks : -1;
}

static bool callback(struct channel *channel)
{
    return callbacks_serve(channel->own);
}

const struct channel_hooks library_hooks = {.closed = closed,
                                            .drop = drop,
                                            .after_fork = after_fork,
                                            .callback_socket = callback_socket,
                                            .callback = callback};
