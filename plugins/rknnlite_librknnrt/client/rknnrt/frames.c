/* The common path: what a context keeps from call to call. A frame is one exchange with the server.
 *
 * Inputs of a kind (type, size, format, pass_through of each) that the server has taken once are only copied into the
 * staging memory, and taken with the run. Outputs come with the run when the program fetched those of the run before.
 */
#include "frames.h"

#include <stdlib.h>
#include <sys/mman.h>

struct frames *frames_of(struct channel *channel)
{
    if (!channel->frames)
        channel->frames = calloc(1, sizeof *channel->frames);
    return channel->frames;
}

static void unmap(struct area *area)
{
    if (area->at)
        munmap(area->at, area->size);
    area->at = NULL;
    area->size = 0;
}

bool frames_map(struct area *area, int fd, size_t size)
{
    unmap(area);
    void *at = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return false;
    area->at = at;
    area->size = size ? size : 1;
    return true;
}

void frames_renew(struct channel *channel)
{
    struct frames *frames = channel->frames;
    if (!frames)
        return;
    free(frames->kinds);
    free(frames->needs);
    free(frames->wanted);
    frames->kinds = NULL;
    frames->needs = NULL;
    frames->wanted = NULL;
    frames->n_inputs = frames->n_outputs = 0;
    frames->waiting = frames->fetched = frames->delivered = false;
}

void frames_drop(struct channel *channel)
{
    struct frames *frames = channel->frames;
    if (!frames)
        return;
    unmap(&frames->in);
    unmap(&frames->out);
    while (frames->held) {
        struct held *next = frames->held->next;
        free(frames->held->buf);
        free(frames->held);
        frames->held = next;
    }
    free(frames->kinds);
    free(frames->needs);
    free(frames->wanted);
    free(frames->places);
    free(frames);
    channel->frames = NULL;
}
