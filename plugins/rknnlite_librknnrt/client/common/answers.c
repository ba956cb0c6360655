/* Answers of queries, kept while they stay true. */
#include "client.h"

#include <stdlib.h>
#include <string.h>

const struct answer *answers_find(const struct answer *list, uint32_t command, uint32_t index, uint64_t room)
{
    while (list && (list->command != command || list->index != index || list->room != room))
        list = list->next;
    return list;
}

struct answer *answers_keep(struct answer **list, uint32_t command, uint32_t index, uint64_t room, const void *bytes,
                            uint64_t size)
{
    struct answer *answer = calloc(1, sizeof *answer + size);
    if (!answer)
        return NULL;
    answer->command = command;
    answer->index = index;
    answer->room = room;
    answer->size = size;
    if (size)
        memcpy(answer->bytes, bytes, size);
    answer->next = *list;
    *list = answer;
    return answer;
}

void answers_forget(struct answer **list)
{
    while (*list) {
        struct answer *next = (*list)->next;
        free(*list);
        *list = next;
    }
}
