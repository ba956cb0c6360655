/* Values one behind the other, for the server: numbers of 64 bits, bytes with their size before them. */
#include "client.h"

#include <stdlib.h>
#include <string.h>

static void append(struct pack *pack, const void *bytes, size_t size)
{
    if (pack->lost || !size)
        return;
    if (pack->size + size > pack->room) {
        size_t room = (pack->size + size) * 2;
        char *grown = room > UINT32_MAX ? NULL : realloc(pack->bytes, room);
        if (!grown) {
            pack->lost = true;
            return;
        }
        pack->bytes = grown;
        pack->room = room;
    }
    memcpy(pack->bytes + pack->size, bytes, size);
    pack->size += size;
}

void pack_number(struct pack *pack, uint64_t number)
{
    append(pack, &number, sizeof number);
}

void pack_bytes(struct pack *pack, const void *bytes, uint64_t size)
{
    pack_number(pack, bytes ? size : UINT64_MAX);
    if (bytes)
        append(pack, bytes, size);
}

void pack_text(struct pack *pack, const char *text)
{
    pack_bytes(pack, text, text ? strlen(text) : 0);
}
