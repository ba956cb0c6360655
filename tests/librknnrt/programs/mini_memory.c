/* mini_memory MODEL FOLDER: the ways of memory into a context on RV1103 and RV1106: /dev/rk_dma_heap, RK_MPI_MMZ_*, and RGA from a picture
 * in the heap into the input of the network. in0.u8 has the size of the input, out0.i8 is what comes of it. */
#ifndef _GNU_SOURCE /* g++ has it */
#define _GNU_SOURCE
#endif
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

struct allocation {
    uint64_t len;
    uint32_t fd, fd_flags;
    uint64_t heap_flags;
};

#define ALLOC _IOWR('H', 0, struct allocation)
#define SYNC _IOW('b', 0, uint64_t)

/* Of the board's libraries, as their headers have it. */
int RK_MPI_SYS_Init(void);
int RK_MPI_SYS_Exit(void);
int RK_MPI_MMZ_Alloc(void **block, uint32_t size, uint32_t flags);
int RK_MPI_MMZ_Free(void *block);
void *RK_MPI_MMZ_Handle2VirAddr(void *block);
uint64_t RK_MPI_MMZ_Handle2PhysAddr(void *block);
int RK_MPI_MMZ_Handle2Fd(void *block);
uint64_t RK_MPI_MMZ_GetSize(void *block);
void *RK_MPI_MMZ_VirAddr2Handle(void *address);
void *RK_MPI_MMZ_PhyAddr2Handle(uint64_t address);
void *RK_MPI_MMZ_Fd2Handle(int fd);
int RK_MPI_MMZ_IsCacheable(void *block);
int RK_MPI_MMZ_FlushCacheEnd(void *block, uint32_t offset, uint32_t size, uint32_t flags);
int RK_MPI_MMZ_FlushCacheVaddrStart(void *address, uint32_t size, uint32_t flags);
uint64_t RK_MPI_MB_Handle2PhysAddr(void *block);
void *RK_MPI_MB_Handle2VirAddr(void *block);

typedef struct {
    int x, y, width, height;
} rectangle;

typedef struct {
    void *virt, *phys;
    int fd, width, height, wstride, hstride, format, color_space_mode, global_alpha, rd_mode, color, key[2], nn[6], rop;
    uint32_t handle;
} rga_buffer;

rga_buffer wrapbuffer_fd_t(int fd, int width, int height, int wstride, int hstride, int format);
rga_buffer wrapbuffer_virtualaddr_t(void *at, int width, int height, int wstride, int hstride, int format);
rga_buffer wrapbuffer_handle_t(uint32_t handle, int width, int height, int wstride, int hstride, int format);
uint32_t importbuffer_fd(int fd, void *param);
int releasebuffer_handle(uint32_t handle);
int improcess(rga_buffer src, rga_buffer dst, rga_buffer pat, rectangle s, rectangle d, rectangle p, int usage);
int imfill_t(rga_buffer dst, rectangle rect, int color, int sync);
int imcvtcolor_t(rga_buffer src, rga_buffer dst, int from, int to, int mode, int sync);
const char *imStrError_t(int status);

enum { RGB = 0x200, BGR = 0x700, NV12 = 0xa00 };

static rknn_context context;
static rknn_tensor_attr in, out;
static uint8_t *pixels;
static const char *folder;

static int heap(size_t size, void **at)
{
    int fd = open("/dev/rk_dma_heap/rk-dma-heap-cma", O_RDWR);
    CHECK(fd >= 0);
    struct allocation wanted = {size, 0, O_CLOEXEC | O_RDWR, 0};
    CHECK(ioctl(fd, ALLOC, &wanted) == 0);
    struct allocation nothing = {0, 0, O_RDWR, 0};
    CHECK(ioctl(fd, ALLOC, &nothing) == -1 && errno == EINVAL);
    CHECK(close(fd) == 0 && (fcntl((int)wanted.fd, F_GETFL) & O_ACCMODE) == O_RDWR);
    *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)wanted.fd, 0);
    CHECK(*at != MAP_FAILED);
    uint64_t flags = 3;
    CHECK(ioctl((int)wanted.fd, SYNC, &flags) == 0);
    CHECK(ioctl((int)wanted.fd, ALLOC, &wanted) == -1); /* memory is no heap */
    return (int)wanted.fd;
}

static void run_with(rknn_tensor_mem *input, rknn_tensor_mem *output)
{
    CHECK(input && output);
    memset(output->virt_addr, 0x55, out.size_with_stride);
    OK(rknn_set_io_mem(context, input, &in));
    OK(rknn_set_io_mem(context, output, &out));
    OK(rknn_run(context, NULL));
    same(folder, "out0.i8", output->virt_addr, out.n_elems);
    OK(rknn_destroy_mem(context, input));
    OK(rknn_destroy_mem(context, output));
}

static void heaps(void)
{
    void *to, *from;
    int input = heap(in.size_with_stride, &to), output = heap(out.size_with_stride, &from);
    memcpy(to, pixels, in.n_elems);
    run_with(rknn_create_mem_from_fd(context, input, to, in.size_with_stride, 0),
             rknn_create_mem_from_fd(context, output, from, out.size_with_stride, 0));
    munmap(to, in.size_with_stride);
    munmap(from, out.size_with_stride);
    close(input);
    close(output);
    CHECK(open("/dev/rk_dma_heap_is_none", O_RDWR) == -1 && errno == ENOENT);
    int file = open("made", O_RDWR | O_CREAT | O_EXCL, 0640);
    CHECK(file >= 0 && close(file) == 0 && unlink("made") == 0);
}

static void media_memory(void)
{
    void *block = NULL, *second = NULL;
    CHECK(RK_MPI_SYS_Init() == 0 && RK_MPI_MMZ_Alloc(&block, in.size_with_stride, 1) == 0);
    CHECK(RK_MPI_MMZ_Alloc(&second, out.size_with_stride, 0x11) == 0 && RK_MPI_MMZ_Alloc(&second, 0, 0) != 0);
    char *at = (char *)RK_MPI_MMZ_Handle2VirAddr(block);
    uint64_t physical = RK_MPI_MMZ_Handle2PhysAddr(block);
    CHECK(at && physical && physical != RK_MPI_MB_Handle2PhysAddr(second) && RK_MPI_MB_Handle2VirAddr(block) == at);
    CHECK(RK_MPI_MMZ_GetSize(block) == in.size_with_stride && RK_MPI_MMZ_VirAddr2Handle(at + 1) == block);
    CHECK(RK_MPI_MMZ_PhyAddr2Handle(physical) == block && RK_MPI_MMZ_Fd2Handle(RK_MPI_MMZ_Handle2Fd(block)) == block);
    CHECK(RK_MPI_MMZ_IsCacheable(block) == 1 && RK_MPI_MMZ_IsCacheable(second) == 0);
    memcpy(at, pixels, in.n_elems);
    CHECK(RK_MPI_MMZ_FlushCacheEnd(block, 0, in.n_elems, 1) == 0 && RK_MPI_MMZ_FlushCacheVaddrStart(at, 1, 0) == 0);
    CHECK(RK_MPI_MMZ_FlushCacheEnd(&in, 0, 0, 0) != 0);
    void *result = RK_MPI_MMZ_Handle2VirAddr(second);
    run_with(rknn_create_mem_from_fd(context, RK_MPI_MMZ_Handle2Fd(block), at, in.size_with_stride, 0),
             rknn_create_mem_from_fd(context, RK_MPI_MMZ_Handle2Fd(second), result, out.size_with_stride, 0));
    run_with(rknn_create_mem_from_phys(context, physical, at, in.size_with_stride),
             rknn_create_mem_from_phys(context, RK_MPI_MMZ_Handle2PhysAddr(second), result, out.size_with_stride));
    CHECK(RK_MPI_MMZ_Free(block) == 0 && RK_MPI_MMZ_Free(block) != 0 && RK_MPI_MMZ_Free(second) == 0);
    CHECK(!RK_MPI_MMZ_Handle2VirAddr(block) && RK_MPI_SYS_Exit() == 0);
}

/* A picture of twice the size, of BGR, in the heap: scaled and turned into the memory of the input. */
static void pictures(void)
{
    int width = (int)in.dims[2], height = (int)in.dims[1];
    rectangle all = {0, 0, 0, 0}, beyond = {1, 0, width, height}, drect = {0, 0, width, height}, corner = {0, 0, 2, 2};
    void *to;
    int picture = heap((size_t)(width * height) * 12, &to);
    uint8_t *large = (uint8_t *)to;
    for (int y = 0; y < 2 * height; y++)
        for (int x = 0; x < 2 * width; x++)
            for (int c = 0; c < 3; c++)
                large[(y * 2 * width + x) * 3 + c] = pixels[(y / 2 * width + x / 2) * 3 + 2 - c];
    rknn_tensor_mem *input = rknn_create_mem(context, in.size_with_stride);
    rga_buffer dst = wrapbuffer_fd_t(input->fd, width, height, (int)in.w_stride, height, RGB), none;
    memset(&none, 0, sizeof none);
    uint32_t handle = importbuffer_fd(picture, NULL);
    rga_buffer src = wrapbuffer_handle_t(handle, 2 * width, 2 * height, 2 * width, 2 * height, BGR);
    CHECK(handle && imfill_t(dst, drect, 0x727272, 1) == 1 && ((uint8_t *)input->virt_addr)[5] == 0x72);
    CHECK(improcess(src, dst, none, all, beyond, all, 0) == -3 && improcess(src, dst, none, all, all, all, 1) == -1);
    CHECK(strstr(imStrError_t(-1), "not supported") && improcess(src, dst, none, all, drect, all, 1 << 19) == 1);
    run_with(input, rknn_create_mem(context, out.size_with_stride));
    rga_buffer greater = wrapbuffer_fd_t(picture, 4 * width, 4 * height, 0, 0, RGB);
    CHECK(improcess(greater, dst, none, all, all, all, 0) == -3 && releasebuffer_handle(handle) == 1);
    CHECK(releasebuffer_handle(handle) == -3);
    uint8_t gray[2 * 2 * 3 / 2] = {126, 126, 126, 126, 128, 128}, white[2 * 2 * 3];
    CHECK(imcvtcolor_t(wrapbuffer_virtualaddr_t(gray, 2, 2, 2, 2, NV12), wrapbuffer_virtualaddr_t(white, 2, 2, 2, 2, RGB), NV12, RGB,
                       0, 1) == 1);
    CHECK(white[0] == 128 && white[11] == 128);
    CHECK(imfill_t(wrapbuffer_virtualaddr_t(white, 2, 2, 2, 2, 0x7f00), corner, 0, 1) == -1);
    munmap(to, (size_t)(width * height) * 12);
    close(picture);
}

int main(int argc, char **argv)
{
    size_t size;
    CHECK(argc == 3);
    folder = argv[2];
    OK(rknn_init(&context, argv[1], 0, 0, NULL));
    in = attr_of(context, RKNN_QUERY_NATIVE_INPUT_ATTR, 0);
    out = attr_of(context, RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR, 0);
    in.type = RKNN_TENSOR_UINT8;
    pixels = (uint8_t *)load(folder, "in0.u8", &size);
    CHECK(size == in.n_elems && in.w_stride == in.dims[2] && in.dims[3] == 3);
    heaps();
    media_memory();
    pictures();
    OK(rknn_destroy(context));
    free(pixels);
    return 0;
}
