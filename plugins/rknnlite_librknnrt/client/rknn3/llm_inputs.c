/* Inputs of a language model, packed. The twin of ../../rknn3/inputs.py. */
#include "rknn3.h"

#include <string.h>

#define MOST_ROWS (1u << 24) /* rows of embeddings that any model takes: a wild number is no size to read */

/* Rows of embeddings; what is wrong with them, or NULL. */
static const char *rows(struct pack *pack, const float16 *embed, uint64_t count, uint64_t each, uint64_t hidden)
{
    if (count > MOST_ROWS || each > MOST_ROWS || count * each > MOST_ROWS)
        return "more embeddings are given than any model takes";
    uint64_t all = count * each;
    if (all && !embed)
        return "embeddings are counted, but there are none";
    pack_bytes(pack, all ? embed : NULL, all * hidden * sizeof *embed);
    return NULL;
}

static const char *tokens(struct pack *pack, const int32_t *ids, uint64_t count)
{
    if (ids && count > MOST_ROWS)
        return "more tokens are given than any model takes";
    pack_bytes(pack, ids, ids ? count * sizeof *ids : 0);
    return NULL;
}

static const char *plain(struct pack *pack, const rknn3_llm_input *input, uint64_t hidden)
{
    const rknn3_llm_tensor *given = &input->llm_input;
    pack_number(pack, given->enable_thinking);
    pack_text(pack, input->input_type == RKNN3_LLM_INPUT_PROMPT ? given->prompt : NULL);
    if (input->input_type == RKNN3_LLM_INPUT_EMBED)
        return rows(pack, given->embed, given->n_tokens, 1, hidden);
    if (input->input_type == RKNN3_LLM_INPUT_TOKEN)
        return tokens(pack, given->tokens, given->n_tokens);
    return given->prompt ? NULL : "the prompt is NULL";
}

static void marks(struct pack *pack, const char *start, const char *end, const char *content)
{
    pack_text(pack, start);
    pack_text(pack, end);
    pack_text(pack, content);
}

static const char *media(struct pack *pack, const rknn3_llm_multimodal_tensor *given, uint64_t hidden)
{
    pack_number(pack, given->enable_thinking);
    pack_text(pack, given->prompt);
    const char *fault = tokens(pack, given->prompt ? NULL : given->tokens, given->n_tokens);
    const rknn3_llm_image *image = &given->image;
    pack_number(pack, image->n_image_tokens);
    pack_number(pack, image->n_image);
    pack_number(pack, image->image_width);
    pack_number(pack, image->image_height);
    marks(pack, image->image_start, image->image_end, image->image_content);
    fault = fault ? fault : rows(pack, image->image_embed, image->n_image, image->n_image_tokens, hidden);
    const rknn3_llm_audio *audio = &given->audio;
    pack_number(pack, audio->n_audio_tokens);
    pack_number(pack, audio->n_audio);
    marks(pack, audio->audio_start, audio->audio_end, audio->audio_content);
    fault = fault ? fault : rows(pack, audio->audio_embed, audio->n_audio, audio->n_audio_tokens, hidden);
    const rknn3_llm_video *video = &given->video;
    pack_number(pack, video->n_frame_tokens);
    pack_number(pack, video->n_frame_per_video);
    pack_number(pack, video->n_video);
    pack_number(pack, video->frame_width);
    pack_number(pack, video->frame_height);
    marks(pack, video->video_start, video->video_end, video->video_content);
    if (!fault && (video->n_video > MOST_ROWS || video->n_frame_per_video > MOST_ROWS))
        fault = "more frames are given than any model takes";
    return fault ? fault
                 : rows(pack, video->video_embed, video->n_video * video->n_frame_per_video, video->n_frame_tokens, hidden);
}

static const char *auxiliary(struct pack *pack, const rknn3_tensor *given)
{
    uint64_t size = given->mem ? memory_size(given->mem) : 0;
    if (!size || !given->attr)
        return "an auxiliary input needs attr with its index, and mem of rknn3_create_mem";
    uint32_t index, n_elems; /* where they lie is the same in both revisions */
    memcpy(&index, (const char *)given->attr + offsetof(rknn3_tensor_attr, index), sizeof index);
    memcpy(&n_elems, (const char *)given->attr + offsetof(rknn3_tensor_attr, n_elems), sizeof n_elems);
    pack_number(pack, index);
    pack_number(pack, n_elems);
    pack_number(pack, (uint32_t)given->attr->dtype);
    pack_bytes(pack, (const char *)given->mem->virt_addr + given->mem->offset, size);
    return NULL;
}

const char *pack_llm_inputs(struct pack *pack, const rknn3_llm_input *inputs, uint32_t count, uint64_t hidden)
{
    const char *fault = NULL;
    for (uint32_t i = 0; !fault && i < count; i++) {
        const rknn3_llm_input *input = &inputs[i];
        pack_number(pack, (uint32_t)input->input_type);
        pack_text(pack, input->role);
        if (input->input_type == RKNN3_LLM_INPUT_AUX)
            fault = auxiliary(pack, &input->aux_input);
        else if (input->input_type == RKNN3_LLM_INPUT_MULTIMODAL)
            fault = media(pack, &input->multimodal_input, hidden);
        else if ((uint32_t)input->input_type <= RKNN3_LLM_INPUT_EMBED)
            fault = plain(pack, input, hidden);
        else
            fault = "its input_type is none of 0 to 4";
    }
    return fault ? fault : pack->lost ? "there is no memory for its data" : NULL;
}
