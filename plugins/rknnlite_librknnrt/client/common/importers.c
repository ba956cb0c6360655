/* The contexts that have imported a memory: a list in each, guarded by the lock of whoever holds the memory. */
#include "client.h"

#include <stdlib.h>

bool importers_have(const struct importer *list, uint64_t channel)
{
    while (list && list->channel != channel)
        list = list->next;
    return list != NULL;
}

void importers_add(struct importer **list, uint64_t channel)
{
    struct importer *importer = malloc(sizeof *importer);
    if (!importer)
        return; /* it is told once more */
    importer->channel = channel;
    importer->next = *list;
    *list = importer;
}

void importers_remove(struct importer **list, uint64_t channel)
{
    for (struct importer **at = list; *at;) {
        struct importer *importer = *at;
        if (importer->channel != channel) {
            at = &importer->next;
            continue;
        }
        *at = importer->next;
        free(importer);
    }
}

void importers_end(struct importer **list, const char *function, uint64_t memory)
{
    while (*list) {
        struct importer *importer = *list;
        struct channel *channel = channel_look(importer->channel);
        if (channel) {
            struct talk talk = {.function = function, .call = CALL_FORGET, .args = {memory}};
            channel_talk(channel, &talk);
            free(talk.answer);
            channel_let_go(channel);
        }
        *list = importer->next;
        free(importer);
    }
}
