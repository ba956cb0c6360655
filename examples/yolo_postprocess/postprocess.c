/* Decoding and non-maximum suppression as a post-process plugin for the RISC-V cores of RK1820/RK1828.
 *
 *     riscv64-unknown-elf-gcc --specs=picolibc.specs -march=rv64gc -mabi=lp64d -mcmodel=medany -fpic -O2 -c \
 *         -I"$(rknnlite new-plugin --print-include)" -o libpostprocess_shapes.so postprocess.c
 *
 * Takes the heads as the model leaves them (int8 with scale and zero point, float16 or float32; NCHW) and answers
 * one float32 tensor [1, 64, 6]: score, class, x1, y1, x2, y2 in pixels, best first, zero past the last box.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rknn3_op.h"

#define ANCHORS_PER_HEAD 3
#define HEADS 2
#define MOST 64
#define CANDIDATES 1024
#define SCORE 0.35f
#define OVERLAP 0.45f

static const float anchors[HEADS][ANCHORS_PER_HEAD][2] = {{{14, 14}, {20, 20}, {27, 27}}, {{33, 33}, {39, 39}, {46, 46}}};

typedef struct {
    float score, kind, x1, y1, x2, y2;
} box;

typedef struct {
    uint32_t picture_height;
    box candidates[CANDIDATES];
} state;

static float half_to_float(uint16_t half)
{
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const float size = exponent ? ldexpf((float)(fraction | 1024), exponent - 25) : ldexpf((float)fraction, -24);
    return half & 0x8000 ? -size : size;
}

static float value(const rknn3_tensor *tensor, uint32_t at)
{
    const char *data = (const char *)tensor->mem->virt_addr + tensor->mem->offset;
    const rknn3_tensor_attr *attr = tensor->attr;

    if (attr->dtype == RKNN3_TENSOR_INT8)
        return (((const int8_t *)data)[at] - attr->qnt_info.zero_point) * attr->qnt_info.scale;
    if (attr->dtype == RKNN3_TENSOR_FLOAT16)
        return half_to_float(((const uint16_t *)data)[at]);
    return ((const float *)data)[at];
}

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* Boxes of one head above SCORE, appended to those found so far; returns how many there are then. */
static uint32_t decode(state *mine, uint32_t found, const rknn3_tensor *head, const float sizes[][2])
{
    const uint32_t h = head->attr->shape[2], w = head->attr->shape[3], plane = h * w;
    const uint32_t channels = head->attr->shape[1] / ANCHORS_PER_HEAD;
    const float stride = (float)mine->picture_height / h;

    for (uint32_t a = 0; a < ANCHORS_PER_HEAD; a++)
        for (uint32_t i = 0; i < plane && found < CANDIDATES; i++) {
            const uint32_t at = a * channels * plane + i;
            const float object = sigmoid(value(head, at + 4 * plane));
            uint32_t kind = 0;
            float best, score, cx, cy, bw, bh;

            if (object < SCORE)
                continue; /* no class can lift it */
            for (uint32_t c = 1; c + 5 < channels; c++)
                if (value(head, at + (5 + c) * plane) > value(head, at + (5 + kind) * plane))
                    kind = c;
            best = sigmoid(value(head, at + (5 + kind) * plane));
            score = object * best;
            if (score < SCORE)
                continue;
            cx = (2 * sigmoid(value(head, at)) - 0.5f + i % w) * stride;
            cy = (2 * sigmoid(value(head, at + plane)) - 0.5f + i / w) * stride;
            bw = 2 * sigmoid(value(head, at + 2 * plane));
            bh = 2 * sigmoid(value(head, at + 3 * plane));
            bw = bw * bw * sizes[a][0] / 2;
            bh = bh * bh * sizes[a][1] / 2;
            mine->candidates[found++] = (box){score, (float)kind, cx - bw, cy - bh, cx + bw, cy + bh};
        }
    return found;
}

/* Highest score first; ties by class, then from the left, so that every C library sorts alike. */
static int better_first(const void *left, const void *right)
{
    const box *a = left, *b = right;
    if (a->score != b->score)
        return a->score < b->score ? 1 : -1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return (a->x1 > b->x1) - (a->x1 < b->x1);
}

static float overlap(const box *a, const box *b)
{
    const float width = fminf(a->x2, b->x2) - fmaxf(a->x1, b->x1);
    const float height = fminf(a->y2, b->y2) - fmaxf(a->y1, b->y1);
    const float shared = fmaxf(0, width) * fmaxf(0, height);
    return shared / ((a->x2 - a->x1) * (a->y2 - a->y1) + (b->x2 - b->x1) * (b->y2 - b->y1) - shared);
}

static void suppress(state *mine, uint32_t found, box *answer)
{
    uint32_t kept = 0;
    qsort(mine->candidates, found, sizeof(box), better_first);
    for (uint32_t i = 0; i < found && kept < MOST; i++) {
        const box *next = &mine->candidates[i];
        uint32_t k = 0;
        while (k < kept && overlap(&answer[k], next) <= OVERLAP)
            k++;
        if (k == kept)
            answer[kept++] = *next;
    }
}

/* -- callbacks -------------------------------------------------------------------------------------------- */

static int shapes_init(rknn3_custom_op_context *ctx)
{
    rknn3_tensor_attr picture = {.index = 0};
    state *mine;

    if (rknn3_query(ctx->rknn_ctx, RKNN3_QUERY_INPUT_ATTR, &picture, sizeof picture) != 0 || picture.n_dims != 4)
        return -1;
    mine = malloc(sizeof *mine);
    if (mine == NULL)
        return -6;
    mine->picture_height = picture.shape[picture.layout == RKNN3_TENSOR_NHWC ? 1 : 2];
    ctx->user_data = mine;
    return 0;
}

static int shapes_deinit(rknn3_custom_op_context *ctx)
{
    free(ctx->user_data);
    ctx->user_data = NULL;
    return 0;
}

static int shapes_output_num(rknn3_custom_op_context *ctx)
{
    (void)ctx;
    return 1;
}

static int shapes_attrs(rknn3_custom_op_context *ctx, rknn3_tensor_attr *inputs, uint32_t n_inputs,
                        rknn3_tensor_attr *outputs, uint32_t n_outputs)
{
    const uint32_t shape[3] = {1, MOST, 6};
    (void)ctx;
    if (n_inputs != HEADS || n_outputs != 1)
        return -2;
    for (uint32_t i = 0; i < n_inputs; i++)
        if (inputs[i].n_dims != 4 || inputs[i].layout != RKNN3_TENSOR_NCHW || inputs[i].shape[1] % ANCHORS_PER_HEAD)
            return -8;
    memset(outputs, 0, sizeof *outputs);
    strcpy(outputs->name, "boxes");
    outputs->n_dims = 3;
    memcpy(outputs->shape, shape, sizeof shape);
    outputs->n_elems = MOST * 6;
    outputs->dtype = RKNN3_TENSOR_FLOAT32;
    outputs->qnt_info.scale = 1;
    outputs->core_id = inputs[0].core_id;
    outputs->aligned_size = sizeof(box) * MOST;
    return 0;
}

static int shapes_compute(rknn3_custom_op_context *ctx, rknn3_tensor *inputs, uint32_t n_inputs,
                          rknn3_tensor *outputs, uint32_t n_outputs)
{
    state *mine = ctx->user_data;
    box *answer = (box *)((char *)outputs[0].mem->virt_addr + outputs[0].mem->offset);
    uint32_t found = 0;
    (void)n_outputs;

    for (uint32_t i = 0; i < n_inputs; i++)
        found = decode(mine, found, &inputs[i], anchors[i]);
    memset(answer, 0, sizeof(box) * MOST);
    suppress(mine, found, answer);
    return 0;
}

static rknn3_custom_op shapes = {
    .op_type = "ShapesPostProcess",
    .plugin_type = RKNN3_OP_PLUGIN_TYPE_POSTPROCESS,
    .target = RKNN3_OP_TARGET_TYPE_CPU,
    .version = 1,
    .author = "rknnlite",
    .description = "YOLO decoding and non-maximum suppression",
    .init = shapes_init,
    .compute = shapes_compute,
    .deinit = shapes_deinit,
    .get_output_num = shapes_output_num,
    .get_attrs = shapes_attrs,
};

rknn3_custom_op *rknn3_register_custom_ops_plugin(int index)
{
    return index == 0 ? &shapes : NULL;
}
