/* MODEL FLOATS: float32 passed through to a float16 input, then the same bytes as float16 with a type that was left at 0. */
#include <rknn_api.h>

#include <stdio.h>
#include <string.h>

static float data[1 << 20];

int main(int argc, char **argv)
{
    rknn_context context = 0;
    FILE *file = argc == 3 ? fopen(argv[2], "rb") : NULL;
    if (!file || rknn_init(&context, argv[1], 0, 0, NULL))
        return 1;
    rknn_input input;
    memset(&input, 0, sizeof input); /* type 0: FLOAT32 */
    input.size = (uint32_t)fread(data, 1, sizeof data, file);
    fclose(file);
    input.buf = data;
    input.pass_through = 1;
    printf("%d %d\n", rknn_inputs_set(context, 1, &input), rknn_run(context, NULL));
    input.size /= 2;
    printf("%d\n", rknn_inputs_set(context, 1, &input));
    input.type = RKNN_TENSOR_FLOAT16;
    printf("%d\n", rknn_inputs_set(context, 1, &input));
    return rknn_destroy(context);
}
