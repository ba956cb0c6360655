/* What failed, on stderr. */
#include "client.h"

#include <stdarg.h>
#include <stdio.h>

#define ROOM 4096

int failed(const char *function, int code, const char *format, ...)
{
    char text[ROOM];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "E %s (rknnlite): %s: %s (error %d)\n", library.name, function, text, code);
    return code;
}
