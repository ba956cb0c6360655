/* What makes the shared code librknnrt.so: its name, its codes, what hangs on its contexts. */
#include "client.h"

#include <stdlib.h>

#ifndef RKNNLITE_VERSION
#define RKNNLITE_VERSION "unknown"
#endif

PUBLIC const char rknnlite_librknnrt_marker[] = RKNNLITE_VERSION;

const struct library library = {"librknnrt",          "rknn_init",
                                RKNN_ERR_FAIL,        RKNN_ERR_CTX_INVALID,
                                RKNN_ERR_DEVICE_UNAVAILABLE, RKNN_ERR_MALLOC_FAIL};

void library_drop(struct channel *channel)
{
    answers_forget(channel);
    free(channel->perf);
    frames_drop(channel);
    operators_drop(channel);
}

void library_leave(uint64_t id)
{
    memory_leave(id);
}

void library_after_fork(void)
{
    memory_after_fork();
}

void library_context_after_fork(struct channel *channel)
{
    operators_after_fork(channel);
}

int library_asks(const struct channel *channel)
{
    return operators_socket(channel);
}

bool library_serve(struct channel *channel)
{
    return operators_serve(channel);
}
