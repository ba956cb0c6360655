/* What every program here needs: checks that say where they failed, files of numbers, comparison byte by byte. C99 and C++. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknn_api.h"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A call that must answer this code. */
#define CODE(expected, call)                                                                                           \
    do {                                                                                                               \
        int code_ = (call);                                                                                            \
        if (code_ != (expected)) {                                                                                     \
            fprintf(stderr, "%s:%d: %s answered %d, not %d\n", __FILE__, __LINE__, #call, code_, (int)(expected));     \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define OK(call) CODE(RKNN_SUCC, call)

/* A call that must fail, with whatever code. */
#define FAILS(call) CHECK((call) < 0)

/* All of FOLDER/NAME (NAME alone where folder is NULL); the caller frees it. */
static inline void *load(const char *folder, const char *name, size_t *size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s%s%s", folder ? folder : "", folder ? "/" : "", name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    void *data = malloc(length > 0 ? (size_t)length : 1);
    CHECK(data && length >= 0 && fread(data, 1, (size_t)length, file) == (size_t)length);
    fclose(file);
    if (size)
        *size = (size_t)length;
    return data;
}

/* Whether data is what FOLDER/NAME holds, bit for bit; the first difference is told. */
static inline void same(const char *folder, const char *name, const void *data, size_t size)
{
    size_t expected;
    unsigned char *golden = (unsigned char *)load(folder, name, &expected);
    if (expected != size) {
        fprintf(stderr, "%s: %zu bytes, not %zu\n", name, size, expected);
        exit(1);
    }
    for (size_t i = 0; i < size; i++)
        if (golden[i] != ((const unsigned char *)data)[i]) {
            fprintf(stderr, "%s: byte %zu of %zu is %d, not %d\n", name, i, size, ((const unsigned char *)data)[i], golden[i]);
            exit(1);
        }
    free(golden);
}

/* An input of the common path: NHWC where it has four dimensions, else in the model's order. */
static inline rknn_input given(uint32_t index, void *data, size_t size, rknn_tensor_type type, rknn_tensor_format fmt)
{
    rknn_input input;
    memset(&input, 0, sizeof input);
    input.index = index;
    input.buf = data;
    input.size = (uint32_t)size;
    input.type = type;
    input.fmt = fmt;
    return input;
}

static inline rknn_tensor_attr attr_of(rknn_context context, rknn_query_cmd command, uint32_t index)
{
    rknn_tensor_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.index = index;
    OK(rknn_query(context, command, &attr, sizeof attr));
    CHECK(attr.index == index);
    return attr;
}

/* One frame of a model with one output: input from FOLDER/IN, float32 result as in FOLDER/OUT. */
static inline void frame(rknn_context context, const char *folder, const char *in, const char *out)
{
    size_t size;
    void *data = load(folder, in, &size);
    rknn_input input = given(0, data, size, RKNN_TENSOR_UINT8, RKNN_TENSOR_NHWC);
    rknn_output output;
    memset(&output, 0, sizeof output);
    output.want_float = 1;
    OK(rknn_inputs_set(context, 1, &input));
    OK(rknn_run(context, NULL));
    OK(rknn_outputs_get(context, 1, &output, NULL));
    same(folder, out, output.buf, output.size);
    OK(rknn_outputs_release(context, 1, &output));
    free(data);
}

/* in0.u8 and in1.u8 as the two inputs of a model. */
static inline void give_images(rknn_context context, const char *folder)
{
    rknn_input inputs[2];
    size_t size;
    for (uint32_t i = 0; i < 2; i++) {
        void *data = load(folder, i ? "in1.u8" : "in0.u8", &size);
        inputs[i] = given(i, data, size, RKNN_TENSOR_UINT8, RKNN_TENSOR_NHWC);
    }
    OK(rknn_inputs_set(context, 2, inputs));
    for (int i = 0; i < 2; i++)
        free(inputs[i].buf);
}

/* The two outputs of a model, real numbers, are those files. */
static inline void same_outputs(rknn_context context, const char *folder, const char *const *names)
{
    rknn_output outputs[2];
    memset(outputs, 0, sizeof outputs);
    for (uint32_t i = 0; i < 2; i++) {
        outputs[i].index = i;
        outputs[i].want_float = 1;
    }
    OK(rknn_outputs_get(context, 2, outputs, NULL));
    for (int i = 0; i < 2; i++)
        same(folder, names[i], outputs[i].buf, outputs[i].size);
    OK(rknn_outputs_release(context, 2, outputs));
}

#endif
