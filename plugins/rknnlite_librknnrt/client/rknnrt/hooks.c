/* What channel.c calls of this library: what hangs on a context. */
#include "rknnrt.h"

#include <stdlib.h>

static void drop(struct channel *channel)
{
    answers_forget(&channel->answers);
    free(channel->perf);
    frames_drop(channel);
    operators_drop(channel);
}

const struct channel_hooks library_hooks = {.closed = memory_leave,
                                            .drop = drop,
                                            .after_fork = operators_after_fork,
                                            .callback_socket = operators_socket,
                                            .callback = operators_serve};
