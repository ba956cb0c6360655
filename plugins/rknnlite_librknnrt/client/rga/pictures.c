/* librga.so: crop, scale, change of format and fill, by the functions that programs in C call (im2d.h); the processor computes.
 *
 * Pictures of 24 and 32 bits a pixel, and NV12 and NV21 to read from. What else the hardware does (rotating, blending), and
 * the names of C++, are not here. Scaling is bilinear, between the centres of pixels.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define MOST_PIXELS 16384 /* of a row, of a column */

#ifndef RKNNLITE_VERSION
#define RKNNLITE_VERSION "unknown"
#endif

enum { DONE = 1, FAILED = 0, NOT_SUPPORTED = -1, INVALID = -3 }; /* IM_STATUS */

struct rect {
    int x, y, width, height;
};

struct buffer { /* rga_buffer_t: the layout is the vendor's */
    void *virtual, *physical;
    int fd, width, height, row, column, format; /* row: pixels from one to the next */
    int color_space_mode, global_alpha, rd_mode, color, colorkey[2], nn[6], rop_code;
    uint32_t handle;
};

struct format {
    int number;    /* RK_FORMAT_* */
    int bytes;     /* of a pixel; 0: a plane of luma, and one of chroma */
    int places[3]; /* of red, green, blue; of chroma Cb and Cr */
};

static const struct format formats[] = {
    {0x0 << 8, 4, {0, 1, 2}},  {0x1 << 8, 4, {0, 1, 2}}, {0x2 << 8, 3, {0, 1, 2}}, {0x3 << 8, 4, {2, 1, 0}},
    {0x7 << 8, 3, {2, 1, 0}}, {0xa << 8, 0, {0, 1, 0}}, {0xe << 8, 0, {1, 0, 0}},
};

struct picture {
    const struct format *format;
    uint8_t *at;
    int width, height, row, column;
    void *mapped; /* to be unmapped */
    size_t size;
};

/* What importbuffer_* was given. */
struct import {
    struct import *next;
    uint32_t handle;
    int fd;
    void *at;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct import *imports;
static uint32_t last_handle;

/* -- buffers ---------------------------------------------------------------------------------------------- */

static uint32_t import(int fd, void *at)
{
    struct import *import = fd >= 0 || at ? calloc(1, sizeof *import) : NULL;
    if (!import)
        return 0;
    import->fd = fd;
    import->at = at;
    pthread_mutex_lock(&lock);
    import->handle = ++last_handle;
    import->next = imports;
    imports = import;
    pthread_mutex_unlock(&lock);
    return import->handle;
}

PUBLIC uint32_t importbuffer_fd(int fd, const void *param)
{
    (void)param;
    return import(fd, NULL);
}

PUBLIC uint32_t importbuffer_virtualaddr(void *at, const void *param)
{
    (void)param;
    return import(-1, at);
}

PUBLIC uint32_t importbuffer_physicaladdr(uint64_t at, const void *param)
{
    (void)at, (void)param;
    fputs("E librga (rknnlite): importbuffer_physicaladdr: there are no physical addresses here\n", stderr);
    return 0;
}

PUBLIC int releasebuffer_handle(uint32_t handle)
{
    pthread_mutex_lock(&lock);
    struct import **at = &imports;
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    struct import *import = *at;
    if (import)
        *at = import->next;
    pthread_mutex_unlock(&lock);
    free(import);
    return import ? DONE : INVALID;
}

static struct buffer wrapped(int width, int height, int row, int column, int format)
{
    struct buffer buffer;
    memset(&buffer, 0, sizeof buffer);
    buffer.fd = -1;
    buffer.width = width;
    buffer.height = height;
    buffer.row = row;
    buffer.column = column;
    buffer.format = format;
    return buffer;
}

PUBLIC struct buffer wrapbuffer_handle_t(uint32_t handle, int width, int height, int row, int column, int format)
{
    struct buffer buffer = wrapped(width, height, row, column, format);
    buffer.handle = handle;
    return buffer;
}

PUBLIC struct buffer wrapbuffer_virtualaddr_t(void *at, int width, int height, int row, int column, int format)
{
    struct buffer buffer = wrapped(width, height, row, column, format);
    buffer.virtual = at;
    return buffer;
}

PUBLIC struct buffer wrapbuffer_physicaladdr_t(void *at, int width, int height, int row, int column, int format)
{
    struct buffer buffer = wrapped(width, height, row, column, format);
    buffer.physical = at;
    return buffer;
}

PUBLIC struct buffer wrapbuffer_fd_t(int fd, int width, int height, int row, int column, int format)
{
    struct buffer buffer = wrapped(width, height, row, column, format);
    buffer.fd = fd;
    return buffer;
}

static const struct format *format_of(int number)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].number == number)
            return &formats[i];
    return NULL;
}

static bool is_size(int pixels)
{
    return pixels > 0 && pixels <= MOST_PIXELS;
}

/* Where the bytes of a buffer are; a status. ``done`` with it always. */
static int open_picture(const struct buffer *buffer, struct picture *picture)
{
    memset(picture, 0, sizeof *picture);
    picture->format = format_of(buffer->format);
    picture->width = buffer->width;
    picture->height = buffer->height;
    picture->row = buffer->row ? buffer->row : buffer->width;
    picture->column = buffer->column ? buffer->column : buffer->height;
    if (!picture->format)
        return NOT_SUPPORTED;
    if (!is_size(picture->width) || !is_size(picture->height) || !is_size(picture->row) || !is_size(picture->column) ||
        picture->row < picture->width || picture->column < picture->height)
        return INVALID;
    int fd = buffer->fd;
    picture->at = buffer->virtual;
    pthread_mutex_lock(&lock);
    for (struct import *import = buffer->handle ? imports : NULL; import; import = import->next)
        if (import->handle == buffer->handle) {
            fd = import->fd;
            picture->at = import->at;
        }
    pthread_mutex_unlock(&lock);
    if (picture->at)
        return DONE;
    size_t pixels = (size_t)picture->row * (size_t)picture->column;
    picture->size = picture->format->bytes ? pixels * (size_t)picture->format->bytes : pixels * 3 / 2;
    off_t held = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    if (held >= 0 && (size_t)held < picture->size)
        return INVALID;
    picture->mapped = mmap(NULL, picture->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (picture->mapped == MAP_FAILED)
        picture->mapped = NULL;
    picture->at = picture->mapped;
    return picture->at ? DONE : FAILED;
}

static void done(struct picture *picture)
{
    if (picture->mapped)
        munmap(picture->mapped, picture->size);
}

static bool contains(const struct picture *picture, const struct rect *rect)
{
    return rect->x >= 0 && rect->y >= 0 && rect->width > 0 && rect->height > 0 && rect->width <= picture->width - rect->x &&
           rect->height <= picture->height - rect->y;
}

/* -- pixels ----------------------------------------------------------------------------------------------- */

static uint8_t limited(float value)
{
    return value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)(value + 0.5f);
}

/* Red, green and blue; luma and chroma by BT.601 of limited range. */
static void read_pixel(const struct picture *picture, int x, int y, float *rgb)
{
    const struct format *format = picture->format;
    if (format->bytes) {
        const uint8_t *pixel = picture->at + ((size_t)y * (size_t)picture->row + (size_t)x) * (size_t)format->bytes;
        for (int i = 0; i < 3; i++)
            rgb[i] = pixel[format->places[i]];
        return;
    }
    size_t plane = (size_t)picture->row * (size_t)picture->column;
    const uint8_t *chroma = picture->at + plane + (size_t)(y / 2) * (size_t)picture->row + (size_t)(x & ~1);
    float luma = 1.164f * ((float)picture->at[(size_t)y * (size_t)picture->row + (size_t)x] - 16);
    float cb = (float)chroma[format->places[0]] - 128, cr = (float)chroma[format->places[1]] - 128;
    rgb[0] = luma + 1.596f * cr;
    rgb[1] = luma - 0.392f * cb - 0.813f * cr;
    rgb[2] = luma + 2.017f * cb;
}

static void write_pixel(const struct picture *picture, int x, int y, const float *rgb, uint8_t alpha)
{
    const struct format *format = picture->format;
    uint8_t *pixel = picture->at + ((size_t)y * (size_t)picture->row + (size_t)x) * (size_t)format->bytes;
    for (int i = 0; i < 3; i++)
        pixel[format->places[i]] = limited(rgb[i]);
    if (format->bytes == 4)
        pixel[3] = alpha;
}

/* Which two pixels of ``count`` lie beside a position, and the share of the second. */
static float between(int at, int out, int count, int *first, int *second)
{
    float place = ((float)at + 0.5f) * (float)count / (float)out - 0.5f;
    place = place < 0 ? 0 : place;
    *first = (int)place < count ? (int)place : count - 1;
    *second = *first + 1 < count ? *first + 1 : *first;
    return place - (float)*first;
}

static void scale(const struct picture *from, const struct rect *in, const struct picture *to, const struct rect *out)
{
    for (int y = 0; y < out->height; y++) {
        int top, bottom, left, right;
        float down = between(y, out->height, in->height, &top, &bottom);
        for (int x = 0; x < out->width; x++) {
            float along = between(x, out->width, in->width, &left, &right), corners[4][3], rgb[3];
            read_pixel(from, in->x + left, in->y + top, corners[0]);
            read_pixel(from, in->x + right, in->y + top, corners[1]);
            read_pixel(from, in->x + left, in->y + bottom, corners[2]);
            read_pixel(from, in->x + right, in->y + bottom, corners[3]);
            for (int i = 0; i < 3; i++)
                rgb[i] = (corners[0][i] * (1 - along) + corners[1][i] * along) * (1 - down) +
                         (corners[2][i] * (1 - along) + corners[3][i] * along) * down;
            write_pixel(to, out->x + x, out->y + y, rgb, 255);
        }
    }
}

/* -- what programs call ----------------------------------------------------------------------------------- */

static const struct rect *whole(const struct buffer *buffer, struct rect *rect)
{
    if (!rect->width && !rect->height)
        *rect = (struct rect){0, 0, buffer->width, buffer->height};
    return rect;
}

/* ``usage``: what shall happen to the pixels on the way; waiting for it (1 << 19) is all that is done anyway. */
PUBLIC int improcess(struct buffer src, struct buffer dst, struct buffer pat, struct rect srect, struct rect drect,
                     struct rect prect, int usage)
{
    struct picture from, to;
    (void)pat, (void)prect;
    whole(&src, &srect);
    whole(&dst, &drect);
    if (usage & ~(1 << 19))
        return NOT_SUPPORTED;
    int status = open_picture(&src, &from), other = open_picture(&dst, &to);
    status = status != DONE ? status : other;
    if (status == DONE && !to.format->bytes)
        status = NOT_SUPPORTED;
    if (status == DONE && (!contains(&from, &srect) || !contains(&to, &drect)))
        status = INVALID;
    if (status == DONE)
        scale(&from, &srect, &to, &drect);
    done(&from);
    done(&to);
    return status;
}

static int process(struct buffer src, struct buffer dst, struct rect srect)
{
    struct rect all = {0, 0, 0, 0};
    return improcess(src, dst, dst, srect, all, all, 0);
}

PUBLIC int imresize_t(struct buffer src, struct buffer dst, double fx, double fy, int interpolation, int sync)
{
    (void)fx, (void)fy, (void)interpolation, (void)sync; /* the size of dst says it */
    return process(src, dst, (struct rect){0, 0, 0, 0});
}

PUBLIC int imcopy_t(struct buffer src, struct buffer dst, int sync)
{
    (void)sync;
    return src.width == dst.width && src.height == dst.height ? process(src, dst, (struct rect){0, 0, 0, 0}) : INVALID;
}

PUBLIC int imcrop_t(struct buffer src, struct buffer dst, struct rect rect, int sync)
{
    (void)sync;
    return process(src, dst, rect);
}

PUBLIC int imcvtcolor_t(struct buffer src, struct buffer dst, int from, int to, int mode, int sync)
{
    (void)mode, (void)sync;
    src.format = from;
    dst.format = to;
    return process(src, dst, (struct rect){0, 0, 0, 0});
}

/* ``color``: red in the lowest byte, then green, blue, alpha. */
PUBLIC int imfill_t(struct buffer dst, struct rect rect, int color, int sync)
{
    struct picture to;
    (void)sync;
    whole(&dst, &rect);
    int status = open_picture(&dst, &to);
    if (status == DONE && !to.format->bytes)
        status = NOT_SUPPORTED;
    if (status == DONE && !contains(&to, &rect))
        status = INVALID;
    const uint32_t bits = (uint32_t)color;
    const float rgb[3] = {(float)(bits & 255), (float)(bits >> 8 & 255), (float)(bits >> 16 & 255)};
    for (int y = 0; status == DONE && y < rect.height; y++)
        for (int x = 0; x < rect.width; x++)
            write_pixel(&to, rect.x + x, rect.y + y, rgb, (uint8_t)(bits >> 24));
    done(&to);
    return status;
}

PUBLIC int imsync(int fence)
{
    (void)fence;
    return DONE;
}

PUBLIC const char *imStrError_t(int status)
{
    switch (status) {
    case NOT_SUPPORTED: return "not supported by rknnlite's librga";
    case INVALID: return "a buffer, a size or a rectangle is no such thing";
    case FAILED: return "the memory cannot be mapped";
    default: return "done";
    }
}

PUBLIC const char *querystring(int name)
{
    (void)name;
    return "RGA_api version: rknnlite " RKNNLITE_VERSION ", on the processor\n";
}
