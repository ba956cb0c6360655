/* classify MODEL PICTURE.ppm LABELS: the five likeliest classes of a picture, by the C API of librknnrt.
 *
 * The same source runs on a board with the vendor's library and on a PC with rknnlite's.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknn_api.h"

#define TOP 5

static void fail(const char *what, int code)
{
    fprintf(stderr, "classify: %s (%d)\n", what, code);
    exit(1);
}

/* A binary PPM file as RGB pixels; the caller frees them. */
static unsigned char *read_ppm(const char *path, int *width, int *height)
{
    FILE *file = fopen(path, "rb");
    if (!file || fscanf(file, "P6 %d %d 255", width, height) != 2 || fgetc(file) == EOF || *width < 1 || *height < 1 ||
        *width > 8192 || *height > 8192)
        fail("the picture is no PPM file (P6, 8 bits)", 0);
    size_t size = (size_t)*width * (size_t)*height * 3;
    unsigned char *pixels = malloc(size);
    if (!pixels || fread(pixels, 1, size, file) != size)
        fail("the picture is cut off", 0);
    fclose(file);
    return pixels;
}

/* Bilinear, pixel centres on pixel centres. */
static void resize(const unsigned char *from, int width, int height, unsigned char *to, int to_width, int to_height)
{
    for (int y = 0; y < to_height; y++)
        for (int x = 0; x < to_width; x++) {
            float fy = fmaxf(0, (y + 0.5f) * height / to_height - 0.5f), fx = fmaxf(0, (x + 0.5f) * width / to_width - 0.5f);
            int y0 = (int)fy, x0 = (int)fx, y1 = y0 + 1 < height ? y0 + 1 : y0, x1 = x0 + 1 < width ? x0 + 1 : x0;
            for (int c = 0; c < 3; c++) {
                float top = from[(y0 * width + x0) * 3 + c] * (1 - fx + x0) + from[(y0 * width + x1) * 3 + c] * (fx - x0);
                float low = from[(y1 * width + x0) * 3 + c] * (1 - fx + x0) + from[(y1 * width + x1) * 3 + c] * (fx - x0);
                to[(y * to_width + x) * 3 + c] = (unsigned char)(top * (1 - fy + y0) + low * (fy - y0) + 0.5f);
            }
        }
}

static void print_top(const float *scores, uint32_t count, const char *labels)
{
    char lines[1000][64];
    uint32_t names = 0;
    FILE *file = fopen(labels, "r");
    while (file && names < 1000 && fgets(lines[names], sizeof lines[names], file)) {
        lines[names][strcspn(lines[names], "\r\n")] = 0;
        names++;
    }
    if (file)
        fclose(file);
    float sum = 0, most = scores[0];
    for (uint32_t i = 0; i < count; i++)
        most = fmaxf(most, scores[i]);
    for (uint32_t i = 0; i < count; i++)
        sum += expf(scores[i] - most);
    unsigned char *told = calloc(count, 1);
    for (uint32_t rank = 0; told && rank < TOP && rank < count; rank++) {
        uint32_t best = count;
        for (uint32_t i = 0; i < count; i++)
            if (!told[i] && (best == count || scores[i] > scores[best]))
                best = i;
        told[best] = 1;
        printf("[%2u] score:%.6f class:\"%s\"\n", best, expf(scores[best] - most) / sum, best < names ? lines[best] : "?");
    }
    free(told);
}

int main(int argc, char **argv)
{
    rknn_context context = 0;
    rknn_sdk_version version;
    rknn_tensor_attr in = {0};
    rknn_output output = {0};
    int code, width, height;
    if (argc != 4)
        fail("usage: classify MODEL.rknn PICTURE.ppm LABELS.txt", 0);

    if ((code = rknn_init(&context, argv[1], 0, 0, NULL)) != RKNN_SUCC)
        fail("rknn_init", code);
    if ((code = rknn_query(context, RKNN_QUERY_SDK_VERSION, &version, sizeof version)) != RKNN_SUCC)
        fail("rknn_query of the versions", code);
    if ((code = rknn_query(context, RKNN_QUERY_INPUT_ATTR, &in, sizeof in)) != RKNN_SUCC)
        fail("rknn_query of the input", code);
    printf("runtime %s\ninput %s, %u x %u x %u, %s\n", version.api_version, in.name, in.dims[1], in.dims[2], in.dims[3],
           get_type_string(in.type));

    unsigned char *picture = read_ppm(argv[2], &width, &height), *pixels = malloc(in.n_elems);
    if (!pixels || in.n_dims != 4 || in.dims[3] != 3)
        fail("the model takes no picture of three channels", 0);
    resize(picture, width, height, pixels, (int)in.dims[2], (int)in.dims[1]);

    rknn_input input = {0};
    input.buf = pixels;
    input.size = in.n_elems;
    input.type = RKNN_TENSOR_UINT8;
    input.fmt = RKNN_TENSOR_NHWC;
    output.want_float = 1;
    if ((code = rknn_inputs_set(context, 1, &input)) != RKNN_SUCC)
        fail("rknn_inputs_set", code);
    if ((code = rknn_run(context, NULL)) != RKNN_SUCC)
        fail("rknn_run", code);
    if ((code = rknn_outputs_get(context, 1, &output, NULL)) != RKNN_SUCC)
        fail("rknn_outputs_get", code);
    print_top(output.buf, output.size / sizeof(float), argv[3]);

    rknn_outputs_release(context, 1, &output);
    rknn_destroy(context);
    free(picture);
    free(pixels);
    return 0;
}
