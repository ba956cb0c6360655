/* opens MODEL COUNT: as many contexts of it at a time; prints the code of each. */
#include "check.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    for (int i = 0; i < atoi(argv[2]); i++) {
        rknn_context context = 0;
        printf("%d\n", rknn_init(&context, argv[1], 0, 0, NULL));
    }
    return 0;
}
