/* What programs ask of every model, with a structure as it lies on the stack: the range of a dynamic shape. */
#include <rknn_api.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    rknn_context context = 0, copy = 0;
    rknn_input_range range;
    if (argc < 2 || rknn_init(&context, argv[1], 0, 0, NULL) || rknn_dup_context(&context, &copy))
        return 1;
    for (int filling = 0; filling < 256; filling += 255) {
        memset(&range, filling, sizeof range);
        printf("%d\n", rknn_query(context, RKNN_QUERY_INPUT_DYNAMIC_RANGE, &range, sizeof range));
        printf("%d\n", rknn_query(copy, RKNN_QUERY_INPUT_DYNAMIC_RANGE, &range, sizeof range));
    }
    return rknn_destroy(copy) || rknn_destroy(context);
}
