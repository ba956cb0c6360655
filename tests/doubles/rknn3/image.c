/* Image buffers on the device, and the calls of the later revision that only have to be there. */
#include "double3.h"

#include <stdlib.h>
#include <string.h>

EXPORT rknn3_tensor_mem *rknn3_create_mem(rknn3_context, uint64_t, int32_t, rknn3_mem_alloc_flags);
EXPORT int rknn3_destroy_mem(rknn3_context, rknn3_tensor_mem *);

static int channels(rknn3_im_fmt format) { return format == RKNN3_IM_FMT_GRAY8 ? 1 : 3; }

EXPORT int rknn3_im_mem_create(rknn3_context ctx, int32_t width, int32_t height, rknn3_im_fmt format, int32_t size,
                               int32_t core, rknn3_mem_alloc_flags flags, rknn3_im_mem *image) {
    int code = enter(ID_rknn3_im_mem_create);
    if (code) return code;
    if (!context_of(ctx) || !image || width < 1 || height < 1 || format > RKNN3_IM_FMT_GRAY8)
        return RKNN3_ERR_ARGUMENT_INVALID;
    memset(image, 0, sizeof *image);
    image->width = width;
    image->height = height;
    image->stride = width * channels(format);
    image->format = format;
    image->data_mem = rknn3_create_mem(ctx, size ? size : image->stride * height, core, flags);
    if (!image->data_mem) return RKNN3_ERR_OUT_OF_MEMORY;
    image->metadata.peer_im_mem_addr = 1;
    live(LIVE_IMAGES, 1);
    return RKNN3_SUCCESS;
}

EXPORT int rknn3_im_mem_destroy(rknn3_context ctx, rknn3_im_mem *image) {
    int code = enter(ID_rknn3_im_mem_destroy);
    if (!image || image->metadata.peer_im_mem_addr != 1) abort(); /* destroyed twice, or never made */
    rknn3_destroy_mem(ctx, image->data_mem);
    memset(image, 0, sizeof *image);
    live(LIVE_IMAGES, -1);
    return code;
}

EXPORT int rknn3_im_cvt_color(rknn3_context ctx, rknn3_im_mem *src, rknn3_im_mem *dst) {
    int code = enter(ID_rknn3_im_cvt_color);
    if (code) return code;
    if (!context_of(ctx) || !src || !dst || src->width != dst->width || src->height != dst->height)
        return RKNN3_ERR_ARGUMENT_INVALID;
    if (src->format > RKNN3_IM_FMT_BGR888 || dst->format > RKNN3_IM_FMT_BGR888) return RKNN3_ERR_FAIL;
    const unsigned char *from = ((memory *)src->data_mem)->device;
    unsigned char *to = ((memory *)dst->data_mem)->device;
    for (int i = 0; i < 3 * src->width * src->height; i++)
        to[i] = src->format == dst->format ? from[i] : from[i / 3 * 3 + 2 - i % 3];
    if (dst->sync_to_host) memcpy(dst->data_mem->virt_addr, to, dst->data_mem->size);
    return RKNN3_SUCCESS;
}

#ifdef LATER
#define CALL(name, ...)                                                                                      \
    EXPORT int name(rknn3_context ctx, __VA_ARGS__) {                                                        \
        int code = enter(ID_##name);                                                                         \
        return code ? code : context_of(ctx) ? RKNN3_SUCCESS : RKNN3_ERR_CTX_INVALID;                        \
    }
#pragma GCC diagnostic ignored "-Wunused-parameter"
CALL(rknn3_set_decrypt_key_from_path, const char *path)
CALL(rknn3_set_decrypt_key_from_data, const void *data, uint64_t size)
CALL(rknn3_load_weight_chunk, uint64_t offset, const void *data, uint64_t size)
CALL(rknn3_set_kvcache_group, int32_t group)
CALL(rknn3_lora_init, const char *path)
CALL(rknn3_lora_init_from_data, const void *data, uint64_t size)
CALL(rknn3_lora_load, rknn3_lora *lora)
CALL(rknn3_lora_unload, rknn3_lora *lora)
CALL(rknn3_lora_enable, rknn3_lora *lora)
CALL(rknn3_lora_disable, rknn3_lora *lora)
CALL(rknn3_set_input_name_alias, const char *from, const char *to)
#endif
