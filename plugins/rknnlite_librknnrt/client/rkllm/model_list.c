/* Which models are open. A run holds the conversation of its model; what is asked meanwhile is answered here. */
#include "rkllm_client.h"

#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct own *models;

/* The child has no runs: what it inherited is refused by its conversations. */
static void after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    for (struct own *own = models; own; own = own->next)
        own->running = false;
}

__attribute__((constructor)) static void prepare(void)
{
    pthread_atfork(NULL, NULL, after_fork);
}

static struct own *find(uint64_t id)
{
    struct own *own = models;
    while (own && own->id != id)
        own = own->next;
    return own;
}

void models_add(struct own *own)
{
    pthread_mutex_lock(&lock);
    own->next = models;
    models = own;
    pthread_mutex_unlock(&lock);
}

void models_remove(const struct own *own)
{
    pthread_mutex_lock(&lock);
    struct own **at = &models;
    while (*at && *at != own)
        at = &(*at)->next;
    if (*at)
        *at = own->next;
    pthread_mutex_unlock(&lock);
}

uint64_t model_id(LLMHandle handle)
{
    return (uint64_t)(uintptr_t)handle;
}

int model_unknown(const char *function, LLMHandle handle)
{
    return failed(function, FAILED, "there is no model %p; it was never opened, or destroyed", handle);
}

bool model_begin(LLMHandle handle, bool *known)
{
    pthread_mutex_lock(&lock);
    struct own *own = find(model_id(handle));
    bool free_now = own && !own->running;
    *known = own != NULL;
    if (free_now) {
        own->running = true;
        own->stop = own->told = false;
    }
    pthread_mutex_unlock(&lock);
    return free_now;
}

void model_end(uint64_t id)
{
    pthread_mutex_lock(&lock);
    struct own *own = find(id);
    if (own)
        own->running = false;
    pthread_mutex_unlock(&lock);
}

bool model_runs(LLMHandle handle, bool *known)
{
    pthread_mutex_lock(&lock);
    const struct own *own = find(model_id(handle));
    bool runs = own && own->running;
    *known = own != NULL;
    pthread_mutex_unlock(&lock);
    return runs;
}

bool model_stop(LLMHandle handle)
{
    pthread_mutex_lock(&lock);
    struct own *own = find(model_id(handle));
    bool runs = own && own->running;
    if (runs)
        own->stop = true;
    pthread_mutex_unlock(&lock);
    return runs;
}

bool model_stops(const struct own *own)
{
    pthread_mutex_lock(&lock);
    bool stops = own->stop;
    pthread_mutex_unlock(&lock);
    return stops;
}

int model_batch(LLMHandle handle, struct widths *widths)
{
    pthread_mutex_lock(&lock);
    const struct own *own = find(model_id(handle));
    int count = own ? own->n_batch : 0;
    if (own && widths)
        *widths = own->widths;
    pthread_mutex_unlock(&lock);
    return count;
}

int model_tell(LLMHandle handle, struct talk *talk, struct pack *pack)
{
    bool known;
    int code = 0;
    talk->payload = pack->bytes;
    talk->size = pack->size;
    (void)model_runs(handle, &known);
    struct channel *channel = known && !pack->lost ? channel_take(talk->function, model_id(handle), &code) : NULL;
    if (!known)
        code = model_unknown(talk->function, handle);
    else if (pack->lost)
        code = failed(talk->function, FAILED, "no memory");
    if (channel) {
        code = channel_talk(channel, talk) ? FAILED : 0;
        free(talk->answer);
        channel_let_go(channel);
    }
    free(pack->bytes);
    return code;
}
