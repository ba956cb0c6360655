/* Writes down what arrived: members by name, and all bytes of a structure. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __thread char *written;
static __thread size_t written_size;

/* NULL when nobody wants to know. */
FILE *begin_record(const char *call) {
    if (!getenv("RKLLM_DOUBLE_LOG")) return NULL;
    FILE *out = open_memstream(&written, &written_size);
    fprintf(out, "{\"call\": \"%s\", \"pid\": %d", call, (int)getpid());
    return out;
}

static void quote(FILE *out, const char *text) {
    if (!text) {
        fputs("null", out);
        return;
    }
    fputc('"', out);
    for (const unsigned char *c = (const void *)text; *c; c++)
        if (*c < 32 || *c == '"' || *c == '\\')
            fprintf(out, "\\u%04x", *c);
        else
            fputc(*c, out);
    fputc('"', out);
}

static void hexadecimal(FILE *out, const void *at, size_t size) {
    fputc('"', out);
    for (size_t i = 0; i < size; i++) fprintf(out, "%02x", ((const unsigned char *)at)[i]);
    fputc('"', out);
}

static void describe(FILE *out, const layout *of, const char *at, int chosen);

static void value(FILE *out, const field *f, const char *at, int chosen) {
    int64_t number = 0;
    float real;
    const char *pointer = NULL;
    if (f->kind == 's' || f->kind == 'P' || f->kind == 'p') memcpy(&pointer, at, sizeof pointer);
    switch (f->kind) {
    case 's': quote(out, pointer); break;
    case 'p': fputs(pointer ? "true" : "false", out); break;
    case 'P':
        if (pointer)
            describe(out, f->of, pointer, 0);
        else
            fputs("null", out);
        break;
    case 'S': describe(out, f->of, at, 0); break;
    case 'U': describe(out, f->of, at, chosen); break;
    case 'x': hexadecimal(out, at, f->size); break;
    case 'f':
        memcpy(&real, at, sizeof real);
        fprintf(out, "%.9g", real);
        break;
    default: /* little endian everywhere */
        memcpy(&number, at, f->size);
        if (f->kind == 'i' && f->size < 8 && number >> (f->size * 8 - 1)) number -= (int64_t)1 << f->size * 8;
        fprintf(out, "%lld", (long long)number);
    }
}

/* chosen: the member of a union that counts, from 1; 0: all members. */
static void describe(FILE *out, const layout *of, const char *at, int chosen) {
    static const char *const members[] = {"prompt_input", "token_input", "embed_input", "multimodal_input"};
    int32_t type = -1, written_already = 0;
    fputc('{', out);
    for (const field *f = of->fields; f->name; f++) {
        if (!strcmp(f->name, "input_type")) memcpy(&type, at + f->offset, sizeof type);
        if (chosen && (chosen > 4 || strcmp(f->name, members[chosen - 1]))) continue;
        fprintf(out, "%s\"%s\": ", written_already++ ? ", " : "", f->name);
        value(out, f, at + f->offset, type >= 0 ? type + 1 : 5);
    }
    fputc('}', out);
}

/* A list of structures, and their bytes. */
void record_struct(FILE *out, const char *name, const layout *of, const void *at, int count) {
    if (!out) return;
    fprintf(out, ", \"%s\": ", name);
    if (!at) {
        fputs("null", out);
        return;
    }
    fputc('[', out);
    for (int i = 0; i < count; i++) {
        if (i) fputs(", ", out);
        describe(out, of, (const char *)at + i * of->size, 0);
    }
    fprintf(out, "], \"%s bytes\": ", name);
    hexadecimal(out, at, of->size * count);
}

void record_text(FILE *out, const char *name, const char *text) {
    if (!out) return;
    fprintf(out, ", \"%s\": ", name);
    quote(out, text);
}

void record_number(FILE *out, const char *name, long number) {
    if (out) fprintf(out, ", \"%s\": %ld", name, number);
}

void record_bytes(FILE *out, const char *name, const void *at, size_t size) {
    if (!out) return;
    fprintf(out, ", \"%s\": ", name);
    if (at)
        hexadecimal(out, at, size);
    else
        fputs("null", out);
}

void end_record(FILE *out) {
    if (!out) return;
    fputs("}\n", out);
    fclose(out);
    int file = open(getenv("RKLLM_DOUBLE_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    ssize_t done = write(file, written, written_size); /* one write: lines of several processes do not mix */
    (void)done;
    close(file);
    free(written);
}
