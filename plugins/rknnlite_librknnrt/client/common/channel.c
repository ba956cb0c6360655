/* The contexts of the program: each is a conversation with a thread of the server. */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SMALL 256 /* bytes of an answer that are read with its head */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct channel *list;
static uint64_t last_id;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static atomic_bool leaving; /* read by threads that still wait */

static void begin(struct channel *channel)
{
    __atomic_store_n(&channel->caller, pthread_self(), __ATOMIC_RELAXED);
    __atomic_store_n(&channel->calling, true, __ATOMIC_RELEASE);
}

/* Whether this thread is in a call of the channel already; asked without its lock. */
static bool is_calling(const struct channel *channel)
{
    return __atomic_load_n(&channel->calling, __ATOMIC_ACQUIRE) &&
           pthread_equal(__atomic_load_n(&channel->caller, __ATOMIC_RELAXED), pthread_self());
}

/* In the child of a fork: the parent goes on with what was open, here it is refused. */
static void after_fork(void)
{
    server_after_fork();
    pthread_mutex_init(&list_lock, NULL);
    for (struct channel *channel = list; channel; channel = channel->next) {
        close(channel->sock);
        channel->sock = -1;
        channel->hooks->after_fork(channel);
        channel->inherited = true;
        channel->users = 0;
        pthread_mutex_init(&channel->lock, NULL);
    }
}

static void prepare(void)
{
    pthread_atfork(NULL, NULL, after_fork);
}

struct channel *channel_open(const char *function, const struct channel_hooks *hooks, int *code)
{
    pthread_once(&prepared, prepare);
    pthread_mutex_lock(&list_lock);
    uint64_t id = ++last_id;
    pthread_mutex_unlock(&list_lock);
    int sock = server_connect(id);
    if (sock < 0) {
        *code = library.unavailable;
        return NULL;
    }
    struct channel *channel = calloc(1, sizeof *channel);
    if (!channel) {
        close(sock);
        *code = failed(function, library.no_memory, "no memory for a context");
        return NULL;
    }
    channel->hooks = hooks;
    channel->id = id;
    channel->sock = sock;
    channel->users = 1;
    pthread_mutex_init(&channel->lock, NULL);
    pthread_mutex_lock(&channel->lock);
    begin(channel);
    return channel;
}

void channel_publish(struct channel *channel)
{
    pthread_mutex_lock(&list_lock);
    channel->next = list;
    list = channel;
    pthread_mutex_unlock(&list_lock);
}

static struct channel *find(uint64_t id)
{
    struct channel *channel = id ? list : NULL;
    while (channel && channel->id != id)
        channel = channel->next;
    return channel;
}

bool channel_is_open(uint64_t id)
{
    pthread_mutex_lock(&list_lock);
    bool found = find(id) != NULL;
    pthread_mutex_unlock(&list_lock);
    return found;
}

static void free_channel(struct channel *channel)
{
    if (channel->sock >= 0)
        close(channel->sock);
    channel->hooks->drop(channel);
    pthread_mutex_destroy(&channel->lock);
    free(channel);
}

static void leave(struct channel *channel)
{
    pthread_mutex_lock(&list_lock);
    bool last = --channel->users == 0 && channel->sock < 0 && !channel->inherited;
    pthread_mutex_unlock(&list_lock);
    if (last)
        free_channel(channel);
}

struct channel *channel_take(const char *function, uint64_t id, int *code)
{
    pthread_mutex_lock(&list_lock);
    struct channel *channel = find(id);
    if (channel)
        channel->users++;
    pthread_mutex_unlock(&list_lock);
    if (!channel) {
        *code = failed(function, library.context_invalid, "there is no context %llu; it was never opened, or destroyed",
                       (unsigned long long)id);
        return NULL;
    }
    if (is_calling(channel)) {
        *code = failed(function, library.failed, "a callback cannot call into its own context");
        leave(channel);
        return NULL;
    }
    pthread_mutex_lock(&channel->lock);
    if (channel->sock < 0 || channel->inherited) {
        const char *why = channel->inherited ? "belongs to the process that forked this one; open one of its own here"
                                             : "was destroyed by another thread";
        *code = failed(function, library.context_invalid, "context %llu %s", (unsigned long long)id, why);
        pthread_mutex_unlock(&channel->lock);
        leave(channel);
        return NULL;
    }
    begin(channel);
    return channel;
}

/* As channel_take, for what is done on the side: none that is open, or this thread is in a call of it; nothing said. */
struct channel *channel_look(uint64_t id)
{
    pthread_mutex_lock(&list_lock);
    struct channel *channel = find(id);
    bool usable = channel && channel->sock >= 0 && !channel->broken && !is_calling(channel);
    if (usable)
        channel->users++;
    pthread_mutex_unlock(&list_lock);
    if (!usable)
        return NULL;
    pthread_mutex_lock(&channel->lock);
    begin(channel);
    if (channel->sock >= 0)
        return channel;
    channel_let_go(channel);
    return NULL;
}

void channel_let_go(struct channel *channel)
{
    __atomic_store_n(&channel->calling, false, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&channel->lock);
    leave(channel);
}

void channel_drop(struct channel *channel)
{
    pthread_mutex_lock(&list_lock);
    struct channel **at = &list;
    while (*at && *at != channel)
        at = &(*at)->next;
    if (*at)
        *at = channel->next;
    close(channel->sock);
    channel->sock = -1;
    pthread_mutex_unlock(&list_lock);
    channel->hooks->closed(channel->id);
    channel_let_go(channel);
}

static int gone(struct channel *channel, const char *function)
{
    channel->broken = true;
    server_doubt();
    if (leaving) /* a thread that still waits has nobody to tell */
        return library.unavailable;
    return failed(function, library.unavailable,
                  "the process that computes has ended; destroy this context and open the model again");
}

/* Answer callbacks until the server has something to say to this call. */
static bool await(struct channel *channel)
{
    int asks = channel->hooks->callback_socket(channel);
    while (asks >= 0) {
        struct pollfd both[2] = {{.fd = channel->sock, .events = POLLIN}, {.fd = asks, .events = POLLIN}};
        int ready = poll(both, 2, -1);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready < 0 || both[0].revents)
            return ready >= 0;
        if (!channel->hooks->callback(channel))
            return true; /* the end of the other socket says it, too */
    }
    return wire_watch(channel->sock, &channel->watch);
}

int channel_talk(struct channel *channel, struct talk *talk)
{
    struct request request;
    struct {
        struct reply head;
        char rest[SMALL];
    } first;
    const struct reply *reply = &first.head;
    size_t got = 0;
    memset(&request, 0, sizeof request);
    request.call = talk->call;
    request.size = (uint32_t)talk->size;
    memcpy(request.args, talk->args, sizeof request.args);
    talk->answer = NULL;
    talk->answer_size = 0;
    talk->n_got = 0;
    if (channel->broken ||
        !wire_send(channel->sock, &request, sizeof request, talk->payload, talk->size, talk->fds, talk->n_fds) ||
        !await(channel) ||
        !(got = wire_recv_ahead(channel->sock, &first, sizeof first.head, sizeof first, talk->got, &talk->n_got)))
        return gone(channel, talk->function);
    memcpy(talk->told, reply->args, sizeof talk->told);
    if (reply->size) {
        size_t ahead = got - sizeof first.head; /* an answer is all that can lie there */
        char *text = malloc((size_t)reply->size + 1);
        if (!text || ahead > reply->size || !wire_recv(channel->sock, text + ahead, reply->size - ahead, NULL, NULL)) {
            free(text);
            return gone(channel, talk->function);
        }
        memcpy(text, first.rest, ahead);
        text[reply->size] = 0;
        talk->answer = text;
        talk->answer_size = reply->size;
    }
    if (reply->code) {
        if (talk->answer) /* else it is what programs ask of every model: no word */
            failed(talk->function, reply->code, "%s", (char *)talk->answer);
        free(talk->answer);
        talk->answer = NULL;
        talk->answer_size = 0;
    }
    return reply->code;
}

bool channels_are_leaving(void)
{
    return leaving;
}

/* A thread that still calls keeps what it uses. */
static void drop_all(void)
{
    pthread_mutex_lock(&list_lock);
    for (struct channel **at = &list; *at;) {
        struct channel *channel = *at;
        if (channel->users) {
            at = &channel->next;
            continue;
        }
        *at = channel->next;
        free_channel(channel);
    }
    pthread_mutex_unlock(&list_lock);
}

__attribute__((destructor)) static void end(void)
{
    leaving = true;
    drop_all();
    server_stop();
}
