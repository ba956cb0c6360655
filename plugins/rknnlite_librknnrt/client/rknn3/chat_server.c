/* The chat server: a process of its own below the one that computes, which ends with this one. */
#include "rknn3.h"

#include "rkllm3_server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void tell_status(void *userdata, int status)
{
    const StatusCallback *callback = userdata;
    callback->status_callback(callback->status_userdata, (ServerStatus)status);
}

/* A conversation that lasts as long as the server runs; callbacks come to the thread that waits in here. */
static int serve(struct channel *channel, struct talk *talk, StatusCallback *callback)
{
    channel->own = calloc(1, sizeof *channel->own);
    struct session *session = channel->own ? calloc(1, sizeof *session) : NULL;
    int end = session ? callbacks_open(session) : -1;
    if (!session || end < 0) {
        free(session);
        return failed(talk->function, RKNN3_ERR_OUT_OF_MEMORY, "no memory for a server");
    }
    channel->own->session = session;
    if (callback && callback->status_callback) {
        session->status = tell_status;
        session->status_userdata = callback;
    }
    talk->fds = &end;
    talk->n_fds = 1;
    int code = channel_talk(channel, talk);
    free(talk->answer);
    close(end);
    return code;
}

PUBLIC int start_server(const char *params, StatusCallback *callback)
{
    struct talk talk = {.function = "start_server", .call = CALL3_CHAT_SERVER, .payload = params};
    int code = 0;
    if (!params)
        return failed(talk.function, RKNN3_ERR_ARGUMENT_INVALID, "the parameters are NULL");
    talk.size = strlen(params);
    struct channel *channel = channel_open(talk.function, &library_hooks, &code);
    if (!channel)
        return code;
    code = serve(channel, &talk, callback);
    channel_drop(channel);
    return code;
}

PUBLIC int stop_server(void)
{
    struct talk talk = {.function = "stop_server", .call = CALL3_CHAT_STOP};
    int code = 0;
    struct channel *channel = channel_open(talk.function, &library_hooks, &code);
    if (!channel)
        return code;
    code = channel_talk(channel, &talk);
    free(talk.answer);
    channel_drop(channel);
    return code;
}
