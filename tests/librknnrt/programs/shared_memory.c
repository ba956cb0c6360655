/* shared_memory FIRST SECOND FOLDER: two models on one frame and one block of internal memory, by descriptor. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

typedef struct {
    rknn_context context;
    rknn_tensor_mem *internal, *input, *output;
    rknn_tensor_attr in, out;
    const char *golden;
} Model;

static void open_model(Model *model, const char *path, const char *golden)
{
    memset(model, 0, sizeof *model);
    OK(rknn_init(&model->context, (void *)path, 0, RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE, NULL));
    model->in = attr_of(model->context, RKNN_QUERY_NATIVE_INPUT_ATTR, 0);
    model->out = attr_of(model->context, RKNN_QUERY_OUTPUT_ATTR, 0);
    model->in.type = RKNN_TENSOR_UINT8;
    model->out.type = RKNN_TENSOR_FLOAT32;
    model->out.size = model->out.n_elems * 4;
    model->golden = golden;
}

static void run(Model *model, const char *folder, const char *suffix)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", model->golden, suffix);
    OK(rknn_run(model->context, NULL));
    same(folder, name, (char *)model->output->virt_addr + model->output->offset, model->out.size);
}

static void write_frame(void *memory, const rknn_tensor_attr *attr, const char *folder, const char *name)
{
    size_t size, row = attr->dims[2] * attr->dims[3], stride = attr->w_stride * attr->dims[3];
    char *pixels = (char *)load(folder, name, &size);
    CHECK(size == attr->n_elems);
    for (uint32_t y = 0; y < attr->dims[1]; y++)
        memcpy((char *)memory + y * stride, pixels + y * row, row);
    free(pixels);
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    const char *folder = argv[3];
    Model models[2];
    open_model(&models[0], argv[1], "first");
    open_model(&models[1], argv[2], "second");
    CHECK(models[0].in.n_elems == models[1].in.n_elems && models[0].in.w_stride == models[1].in.w_stride);

    /* One block for the internal tensors of both, as large as the larger one wants it. */
    uint32_t internal = 0;
    for (int i = 0; i < 2; i++) {
        rknn_mem_size sizes;
        OK(rknn_query(models[i].context, RKNN_QUERY_MEM_SIZE, &sizes, sizeof sizes));
        CHECK(sizes.total_weight_size > 0 && sizes.total_internal_size > 0);
        internal = sizes.total_internal_size > internal ? sizes.total_internal_size : internal;
    }
    internal = (internal + 127) / 128 * 128;
    rknn_tensor_mem *block = rknn_create_mem(models[0].context, internal);
    CHECK(block && block->fd >= 0);
    for (int i = 0; i < 2; i++) {
        models[i].internal = rknn_create_mem_from_fd(models[i].context, block->fd, block->virt_addr, internal, 0);
        CHECK(models[i].internal && models[i].internal->virt_addr == block->virt_addr && models[i].internal->size == internal);
        OK(rknn_set_internal_mem(models[i].context, models[i].internal));
    }

    /* One frame, created by the first and imported by the second. */
    models[0].input = rknn_create_mem(models[0].context, models[0].in.size_with_stride);
    CHECK(models[0].input);
    models[1].input = rknn_create_mem_from_fd(models[1].context, models[0].input->fd, models[0].input->virt_addr,
                                              models[1].in.size_with_stride, 0);
    CHECK(models[1].input && models[1].input->virt_addr == models[0].input->virt_addr);
    for (int i = 0; i < 2; i++) {
        models[i].output = rknn_create_mem(models[i].context, models[i].out.size);
        CHECK(models[i].output);
        OK(rknn_set_io_mem(models[i].context, models[i].input, &models[i].in));
        OK(rknn_set_io_mem(models[i].context, models[i].output, &models[i].out));
    }
    for (int round = 0; round < 2; round++) {
        write_frame(models[0].input->virt_addr, &models[0].in, folder, round ? "other.u8" : "frame.u8");
        OK(rknn_mem_sync(models[0].context, models[0].input, RKNN_MEMORY_SYNC_TO_DEVICE));
        for (int i = 0; i < 2; i++)
            run(&models[i], folder, round ? "_other.f32" : "_frame.f32");
    }

    /* Memory of the program's own: a frame at an offset, two results in one file. */
    const uint32_t page = 4096, offset = page + 64, frame_size = models[0].in.size_with_stride;
    int fd = (int)syscall(SYS_memfd_create, "frames", 1u /* close on exec */);
    CHECK(fd >= 0 && ftruncate(fd, 16 * page) == 0 && offset + frame_size <= 4 * page);
    char *memory = (char *)mmap(NULL, 16 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(memory != MAP_FAILED);
    write_frame(memory + offset, &models[0].in, folder, "frame.u8");
    for (int i = 0; i < 2; i++) {
        CHECK(models[i].out.size <= 6 * page);
        OK(rknn_destroy_mem(models[i].context, models[i].output));
        rknn_tensor_mem *frame = rknn_create_mem_from_fd(models[i].context, fd, memory, frame_size, (int32_t)offset);
        models[i].output = rknn_create_mem_from_fd(models[i].context, fd, memory, models[i].out.size, (int32_t)((4 + 6 * i) * page));
        CHECK(frame && frame->offset == (int32_t)offset && frame->virt_addr == memory && models[i].output);
        OK(rknn_set_io_mem(models[i].context, frame, &models[i].in));
        OK(rknn_set_io_mem(models[i].context, models[i].output, &models[i].out));
        run(&models[i], folder, "_frame.f32");
        OK(rknn_destroy_mem(models[i].context, frame));
    }

    /* Bad descriptors give no memory; the descriptors of the program stay open. */
    CHECK(!rknn_create_mem_from_fd(models[0].context, -1, memory, page, 0));
    CHECK(!rknn_create_mem_from_fd(models[0].context, fd, memory, 17 * page, 0));
    for (int i = 1; i >= 0; i--) {
        OK(rknn_destroy_mem(models[i].context, models[i].output));
        OK(rknn_destroy_mem(models[i].context, models[i].input));
        OK(rknn_destroy_mem(models[i].context, models[i].internal));
    }
    OK(rknn_destroy_mem(models[0].context, block));
    for (int i = 0; i < 2; i++)
        OK(rknn_destroy(models[i].context));
    memory[0] = 1;
    CHECK(ftruncate(fd, page) == 0 && close(fd) == 0);
    return 0;
}
