/* Inputs of a run, packed. The twin of ../../rkllm/inputs.py. */
#include "rkllm_client.h"

#include <stdlib.h>
#include <string.h>

#define MOST_ROWS (1u << 24) /* rows of embeddings that any model takes: a wild number is no size to read */

void pack_real(struct pack *pack, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    pack_number(pack, bits);
}

void pack_path(struct pack *pack, const char *path)
{
    char *whole = path ? handover_path(path) : NULL;
    pack_text(pack, whole);
    free(whole);
}

/* Rows of embeddings; what is wrong with them, or NULL. */
static const char *rows(struct pack *pack, const float *embed, uint64_t count, uint64_t each, uint64_t hidden)
{
    if (count > MOST_ROWS || each > MOST_ROWS || count * each > MOST_ROWS)
        return "more embeddings are given than any model takes";
    uint64_t all = count * each;
    if (all && !embed)
        return "embeddings are counted, but there are none";
    pack_bytes(pack, all ? embed : NULL, all * hidden * sizeof *embed);
    return NULL;
}

static void pack_media(struct pack *pack, const size_t *numbers, int count)
{
    for (int i = 0; i < count; i++)
        pack_number(pack, numbers[i]);
}

#ifdef HAS_MEDIA
static void tags(struct pack *pack, const char *start, const char *end, const char *content)
{
    pack_text(pack, start);
    pack_text(pack, end);
    pack_text(pack, content);
}
#endif

#define UNSET "The n_image/n_image_token of multimodal_input is not set"

static const char *multimodal(struct pack *pack, const RKLLMMultiModalInput *given, uint64_t width)
{
    if (!given->prompt)
        return "the prompt is NULL";
    pack_text(pack, given->prompt);
#ifdef HAS_MEDIA
    const RKLLMImageInput *image = &given->image;
    const RKLLMVideoInput *video = &given->video;
    if (!video->video_embed && (!image->n_image || !image->n_image_tokens))
        return UNSET;
    pack_media(pack, (const size_t[]){image->n_image_tokens, image->n_image, image->image_width, image->image_height}, 4);
    tags(pack, image->image_start, image->image_end, image->image_content);
    const char *fault = rows(pack, image->image_embed, image->image_embed ? image->n_image : 0, image->n_image_tokens, width);
    size_t frames = video->video_embed ? video->n_video * video->n_frame_per_video : 0;
    if (video->n_video > MOST_ROWS || video->n_frame_per_video > MOST_ROWS)
        return "more frames are given than any model takes";
    pack_media(pack, (const size_t[]){video->n_frame_tokens, video->n_frame_per_video, video->n_video, video->frame_width,
                                      video->frame_height}, 5);
    tags(pack, video->video_start, video->video_end, video->video_content);
    return fault ? fault : rows(pack, video->video_embed, frames, video->n_frame_tokens, width);
#elif defined HAS_SEVERAL_IMAGES
    if (!given->n_image || !given->n_image_tokens)
        return UNSET;
    pack_media(pack, (const size_t[]){given->n_image_tokens, given->n_image, given->image_width, given->image_height}, 4);
    return rows(pack, given->image_embed, given->n_image, given->n_image_tokens, width);
#else
    if (!given->n_image_tokens)
        return UNSET;
    pack_media(pack, (const size_t[]){given->n_image_tokens, 1, 0, 0}, 4);
    return rows(pack, given->image_embed, 1, given->n_image_tokens, width);
#endif
}

static const char *one(struct pack *pack, const RKLLMInput *input, const struct widths *widths)
{
    pack_number(pack, (uint32_t)input->input_type);
#ifdef HAS_ROLES
    pack_text(pack, input->role);
    pack_number(pack, input->enable_thinking);
#endif
    switch (input->input_type) {
    case RKLLM_INPUT_PROMPT:
        pack_text(pack, input->prompt_input);
        return input->prompt_input ? NULL : "the prompt is NULL";
    case RKLLM_INPUT_TOKEN:
        if (!input->token_input.input_ids || input->token_input.n_tokens > MOST_ROWS)
            return "there are no tokens, or more than any model takes";
        pack_bytes(pack, input->token_input.input_ids, input->token_input.n_tokens * sizeof(int32_t));
        return NULL;
    case RKLLM_INPUT_EMBED: return rows(pack, input->embed_input.embed, input->embed_input.n_tokens, 1, widths->hidden);
    case RKLLM_INPUT_MULTIMODAL: return multimodal(pack, &input->multimodal_input, widths->media);
    default: return "its input_type is none of 0 to 3";
    }
}

const char *pack_inputs(struct pack *pack, const RKLLMInput *inputs, int count, const struct widths *widths)
{
    const char *fault = NULL;
    for (int i = 0; !fault && i < count; i++)
        fault = one(pack, &inputs[i], widths);
    return fault ? fault : pack->lost ? "there is no memory for its data" : NULL;
}
