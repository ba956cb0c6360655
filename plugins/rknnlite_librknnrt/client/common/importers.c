/* The contexts that know a memory: a list in each, guarded by the lock of whoever holds the memory. */
#include "client.h"

#include <stdlib.h>

bool learned_has(const struct learned *learned, uint64_t channel)
{
    while (learned && learned->channel != channel)
        learned = learned->next;
    return learned != NULL;
}

void learned_add(struct learned **list, uint64_t channel)
{
    struct learned *learned = malloc(sizeof *learned);
    if (!learned)
        return; /* it is told once more */
    learned->channel = channel;
    learned->next = *list;
    *list = learned;
}

void learned_leave(struct learned **list, uint64_t channel)
{
    for (struct learned **at = list; *at;) {
        struct learned *learned = *at;
        if (learned->channel != channel) {
            at = &learned->next;
            continue;
        }
        *at = learned->next;
        free(learned);
    }
}

void learned_end(struct learned **list, const char *function, uint64_t memory)
{
    while (*list) {
        struct learned *learned = *list;
        struct channel *channel = channel_look(learned->channel);
        if (channel) {
            struct talk talk = {.function = function, .call = CALL_FORGET, .args = {memory}};
            channel_talk(channel, &talk);
            free(talk.answer);
            channel_let_go(channel);
        }
        *list = learned->next;
        free(learned);
    }
}
