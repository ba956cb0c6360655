/* reload MODEL FOLDER LEAVE: load the library, use it, unload it, several times; with LEAVE 1 contexts are left open. */
#include <dirent.h>
#include <dlfcn.h>

#include "check.h"

#define FUNCTION(name) (*(void **)&name = dlsym(library, #name), CHECK_FOUND(name))
#define CHECK_FOUND(name) (name ? (void)0 : (fprintf(stderr, "no %s\n", #name), exit(1)))

/* Entries of a folder of /proc: descriptors, threads. */
static int entries(const char *folder)
{
    int count = 0;
    DIR *opened = opendir(folder);
    CHECK(opened);
    while (readdir(opened))
        count++;
    closedir(opened);
    return count;
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    size_t size;
    void *pixels = load(argv[2], "in0.u8", &size);
    const int descriptors = entries("/proc/self/fd"), threads = entries("/proc/self/task");
    for (int round = 0; round < 3; round++) {
        int (*rknn_init)(rknn_context *, void *, uint32_t, uint32_t, rknn_init_extend *);
        int (*rknn_inputs_set)(rknn_context, uint32_t, rknn_input[]);
        int (*rknn_run)(rknn_context, rknn_run_extend *);
        int (*rknn_outputs_get)(rknn_context, uint32_t, rknn_output[], rknn_output_extend *);
        int (*rknn_outputs_release)(rknn_context, uint32_t, rknn_output[]);
        int (*rknn_destroy)(rknn_context);
        void *library = dlopen("librknnrt.so", RTLD_NOW | RTLD_LOCAL);
        CHECK(library);
        const char *marker = (const char *)dlsym(library, "rknnlite_librknnrt_marker");
        CHECK(marker && *marker);
        FUNCTION(rknn_init);
        FUNCTION(rknn_inputs_set);
        FUNCTION(rknn_run);
        FUNCTION(rknn_outputs_get);
        FUNCTION(rknn_outputs_release);
        FUNCTION(rknn_destroy);

        rknn_context context = 0;
        rknn_input input = given(0, pixels, size, RKNN_TENSOR_UINT8, RKNN_TENSOR_NHWC);
        rknn_output output;
        memset(&output, 0, sizeof output);
        output.want_float = 1;
        OK(rknn_init(&context, argv[1], 0, 0, NULL));
        OK(rknn_inputs_set(context, 1, &input));
        OK(rknn_run(context, NULL));
        OK(rknn_outputs_get(context, 1, &output, NULL));
        same(argv[2], "out0.f32", output.buf, output.size);
        if (!atoi(argv[3])) {
            OK(rknn_outputs_release(context, 1, &output));
            OK(rknn_destroy(context));
        }
        CHECK(dlclose(library) == 0);
        CHECK(entries("/proc/self/fd") == descriptors && entries("/proc/self/task") == threads);
    }
    free(pixels);
    return 0;
}
