/* A context in a call: taken, told, of which revision the program is. */
#include "rknn3.h"

#include <stdlib.h>
#include <string.h>

int context_refused(const char *function, rknn3_context context, const char *why)
{
    if (!channel_is_open(context))
        return failed(function, RKNN3_ERR_CTX_INVALID, "there is no context %llu", (unsigned long long)context);
    return failed(function, RKNN3_ERR_FAIL, "%s", why);
}

/* -- which revision the program was compiled with ---------------------------------------------------- */

bool environment_is_later(void)
{
    const char *version = getenv("RKNNLITE_RKNN3_VERSION");
    return version && *version && strcmp(version, "1.0.0") != 0;
}

bool context_is_later(rknn3_context context)
{
    struct channel *channel = channel_look(context);
    bool later = channel && channel->own ? channel->own->later : environment_is_later();
    if (channel)
        channel_let_go(channel);
    return later;
}

void program_is_later(rknn3_context context)
{
    struct channel *channel = channel_look(context);
    if (!channel)
        return;
    if (channel->own)
        channel->own->later = true;
    channel_let_go(channel);
}

/* -- conversations ------------------------------------------------------------------------------------ */

struct channel *context_take(const char *function, rknn3_context context, int *code)
{
    struct channel *channel = channel_take(function, context, code);
    if (channel && channel->own && !channel->own->is_session)
        return channel;
    if (channel) {
        *code = failed(function, RKNN3_ERR_CTX_INVALID, "%llu is a session, not a context", (unsigned long long)context);
        channel_let_go(channel);
    }
    return NULL;
}

int context_tell(rknn3_context context, struct talk *talk)
{
    int code = 0;
    struct channel *channel = context_take(talk->function, context, &code);
    if (!channel)
        return code;
    answers_forget(&channel->answers);
    code = channel_talk(channel, talk);
    free(talk->answer);
    talk->answer = NULL;
    channel_let_go(channel);
    return code;
}
