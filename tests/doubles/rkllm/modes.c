/* What tests change about the double, and what it says of itself. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

modes_t modes;

/* What a file is identified by. NO_MARKER: nothing; OTHER_MARKER: a second one that contradicts. */
#ifndef NO_MARKER
__attribute__((used)) static const char marker[] =
    "RKLLM SDK (version: " MARKER " | target: Linux | build: 00000000 2025-01-01 00:00:00)";
#endif
#ifdef OTHER_MARKER
__attribute__((used)) static const char other_marker[] =
    "RKLLM SDK (version: " OTHER_MARKER " | target: Linux | build: 00000000 2025-01-01 00:00:00)";
#endif

static const struct {
    const char *name;
    size_t offset;
    int size; /* of a text; 0: a number */
} settings[] = {
#define TEXT(name) {#name, offsetof(modes_t, name), sizeof modes.name}
#define NUMBER(name) {#name, offsetof(modes_t, name), 0}
    TEXT(platform), TEXT(driver), TEXT(second_init), TEXT(abort), TEXT(async), TEXT(finish), NUMBER(null_handle),
    NUMBER(split), NUMBER(late_callback), NUMBER(prefill_us), NUMBER(token_us), NUMBER(init_us), NUMBER(domain_mb),
    NUMBER(leak_kb), NUMBER(endless), NUMBER(quiet), NUMBER(overflow),
};

EXPORT void double_fault(const char *name, int nth, int code);

static void set(const char *name, const char *value) {
    int nth, code;
    char function[64];
    if (!strcmp(name, "strike")) { /* crash@5: at the 5th token, counted from 0 */
        modes.at = -1;
        sscanf(value, "%15[^@]@%d", modes.strike, &modes.at);
        return;
    }
    if (!strcmp(name, "fault")) { /* rkllm_run:1:-1: once, at the first call after this was read */
        if (sscanf(value, "%63[^:]:%d:%d", function, &nth, &code) == 3) double_fault(function, nth, code);
        return;
    }
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char *at = (char *)&modes + settings[i].offset;
        if (strcmp(name, settings[i].name)) continue;
        if (settings[i].size)
            snprintf(at, settings[i].size, "%s", value);
        else
            *(int *)at = atoi(value);
        return;
    }
    fprintf(stderr, "double: there is no mode %s\n", name);
    abort();
}

/* Commas or lines between settings. */
EXPORT void double_mode(const char *text) {
    char copy[4096], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, ",\n", &rest); word; word = strtok_r(NULL, ",\n", &rest)) {
        char *value = strchr(word, '=');
        if (!value) continue;
        *value = 0;
        set(word, value + 1);
    }
}

/* All as at the start. */
EXPORT void double_plain(void) {
    memset(&modes, 0, sizeof modes);
    modes.split = -1;
    strcpy(modes.platform, "RK3588");
    strcpy(modes.driver, "0.9.8");
}

/* The control file, when it changed. */
void read_control(void) {
    static char last[4096];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char *path = getenv("RKLLM_DOUBLE_CONTROL");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char text[4096];
    if (file < 0) return;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    text[size > 0 ? size : 0] = 0;
    pthread_mutex_lock(&lock);
    if (strcmp(text, last)) {
        strcpy(last, text);
        double_plain();
        double_mode(text);
    }
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void start(void) {
    double_plain();
    if (getenv("RKLLM_DOUBLE")) double_mode(getenv("RKLLM_DOUBLE"));
}

/* A line of the library's log: I to stdout, the rest to stderr. */
void say(char level, const char *format, ...) {
    va_list arguments;
    FILE *out = level == 'I' ? stdout : stderr;
    if (modes.quiet) return;
    va_start(arguments, format);
    fprintf(out, "%c rkllm: ", level);
    vfprintf(out, format, arguments);
    fputc('\n', out);
    fflush(out);
    va_end(arguments);
}
