/* Images in memory, and changing the order of their channels. */
#include "rknn3.h"

#include <string.h>

static int channels(rknn3_im_fmt format)
{
    return format == RKNN3_IM_FMT_GRAY8 ? 1 : 3;
}

static bool is_packed(rknn3_im_fmt format)
{
    return (unsigned)format <= RKNN3_IM_FMT_GRAY8;
}

/* Bytes of the planes of luma and chroma, rows without padding. */
static uint64_t size_of(uint64_t width, uint64_t height, rknn3_im_fmt format)
{
    if (is_packed(format))
        return width * height * (uint64_t)channels(format);
    bool half = format == RKNN3_IM_FMT_YCbCr_420_SP || format == RKNN3_IM_FMT_YCrCb_420_SP;
    return half ? width * height + 2 * ((width + 1) / 2) * ((height + 1) / 2) : width * height * 2;
}

PUBLIC int rknn3_im_mem_create(rknn3_context context, int32_t width, int32_t height, rknn3_im_fmt format, int32_t size,
                               int32_t core_id, rknn3_mem_alloc_flags flags, rknn3_im_mem *im_mem)
{
    const char *function = "rknn3_im_mem_create";
    if (!channel_is_open(context))
        return failed(function, RKNN3_ERR_CTX_INVALID, "there is no context %llu", (unsigned long long)context);
    if (!im_mem || width < 1 || height < 1 || width > 65536 || height > 65536 || (unsigned)format > RKNN3_IM_FMT_YCrCb_422_SP)
        return failed(function, RKNN3_ERR_ARGUMENT_INVALID, "%d x %d pixels of format %d at %p", width, height, (int)format,
                      (void *)im_mem);
    uint64_t need = size_of((uint64_t)width, (uint64_t)height, format);
    if (size > 0 && (uint64_t)size < need)
        return failed(function, RKNN3_ERR_ARGUMENT_INVALID, "size is %d, the image has %llu bytes", size,
                      (unsigned long long)need);
    rknn3_tensor_mem *mem = rknn3_create_mem(context, size > 0 ? (uint64_t)size : need, core_id, flags);
    if (!mem)
        return RKNN3_ERR_OUT_OF_MEMORY;
    memset(im_mem, 0, sizeof *im_mem);
    im_mem->width = width;
    im_mem->height = height;
    im_mem->stride = is_packed(format) ? width * channels(format) : width;
    im_mem->format = format;
    im_mem->data_mem = mem;
    return RKNN3_SUCCESS;
}

PUBLIC int rknn3_im_mem_destroy(rknn3_context context, rknn3_im_mem *im_mem)
{
    if (!im_mem || !im_mem->data_mem)
        return failed("rknn3_im_mem_destroy", RKNN3_ERR_ARGUMENT_INVALID, "there is no image at %p", (void *)im_mem);
    int code = rknn3_destroy_mem(context, im_mem->data_mem);
    if (!code)
        memset(im_mem, 0, sizeof *im_mem);
    return code;
}

static bool holds(const rknn3_im_mem *image)
{
    uint64_t size = image->data_mem ? memory_size(image->data_mem) : 0;
    int row = is_packed(image->format) ? image->width * channels(image->format) : image->width;
    return size && image->width > 0 && image->height > 0 && image->stride >= row &&
           (uint64_t)image->stride * (uint64_t)image->height <= size &&
           size_of((uint64_t)image->width, (uint64_t)image->height, image->format) <= size;
}

PUBLIC int rknn3_im_cvt_color(rknn3_context context, rknn3_im_mem *src, rknn3_im_mem *dst)
{
    const char *function = "rknn3_im_cvt_color";
    if (!channel_is_open(context))
        return failed(function, RKNN3_ERR_CTX_INVALID, "there is no context %llu", (unsigned long long)context);
    if (!src || !dst || !holds(src) || !holds(dst) || src->width != dst->width || src->height != dst->height)
        return failed(function, RKNN3_ERR_ARGUMENT_INVALID, "two images of one size are needed, with their memory");
    if ((unsigned)src->format > RKNN3_IM_FMT_BGR888 || (unsigned)dst->format > RKNN3_IM_FMT_BGR888)
        return failed(function, RKNN3_ERR_FAIL, "format %d to %d: only RGB888 (0) and BGR888 (1) are exchanged here",
                      (int)src->format, (int)dst->format);
    const unsigned char *from = (unsigned char *)src->data_mem->virt_addr + src->data_mem->offset;
    unsigned char *to = (unsigned char *)dst->data_mem->virt_addr + dst->data_mem->offset;
    int last = src->format == dst->format ? 0 : 2;
    for (int y = 0; y < src->height; y++)
        for (int x = 0; x < src->width; x++) {
            const unsigned char *pixel = from + (size_t)y * (size_t)src->stride + 3 * (size_t)x;
            unsigned char kept[3] = {pixel[last], pixel[1], pixel[2 - last]};
            memcpy(to + (size_t)y * (size_t)dst->stride + 3 * (size_t)x, kept, 3);
        }
    return RKNN3_SUCCESS;
}
