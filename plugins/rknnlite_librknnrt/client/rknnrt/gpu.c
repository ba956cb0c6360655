/* OpenCL for operators of the GPU: loaded when one is registered, one device, context and queue for the process. Its
 * objects are plain pointers here, so that nothing of OpenCL is needed to compile this library. */
#include "rknnrt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICE_GPU = 4, BUILD_LOG = 0x1183, REFERENCE_COUNT = 0x1105, INVALID_VALUE = -30, INVALID_BUFFER_SIZE = -61, MOST_PLATFORMS = 8 };
enum { USE_HOST_PTR = 8, MAP_READ = 1, MAP_WRITE_INVALIDATE = 4 };
enum { IMPORT_TYPE = 0x40B2, IMPORT_HOST = 0x40B3, IMPORT_DMA_BUF = 0x40B4 };

#define FUNCTIONS(X)                                                                                                    \
    X(int32_t, clGetPlatformIDs, (uint32_t, void **, uint32_t *))                                                       \
    X(int32_t, clGetDeviceIDs, (void *, uint64_t, uint32_t, void **, uint32_t *))                                       \
    X(void *, clCreateContext, (const intptr_t *, uint32_t, void **, void *, void *, int32_t *))                        \
    X(void *, clCreateCommandQueue, (void *, void *, uint64_t, int32_t *))                                              \
    X(void *, clCreateProgramWithSource, (void *, uint32_t, const char **, const size_t *, int32_t *))                  \
    X(int32_t, clBuildProgram, (void *, uint32_t, void **, const char *, void *, void *))                               \
    X(int32_t, clGetProgramBuildInfo, (void *, void *, uint32_t, size_t, void *, size_t *))                             \
    X(void *, clCreateKernel, (void *, const char *, int32_t *))                                                        \
    X(void *, clCreateBuffer, (void *, uint64_t, size_t, void *, int32_t *))                                            \
    X(void *, clEnqueueMapBuffer, (void *, void *, uint32_t, uint64_t, size_t, size_t, uint32_t, void *, void *, int32_t *)) \
    X(int32_t, clEnqueueUnmapMemObject, (void *, void *, void *, uint32_t, void *, void *))                             \
    X(int32_t, clGetMemObjectInfo, (void *, uint32_t, size_t, void *, size_t *))                                        \
    X(int32_t, clRetainMemObject, (void *))                                                                             \
    X(int32_t, clReleaseMemObject, (void *))                                                                            \
    X(int32_t, clReleaseKernel, (void *))                                                                               \
    X(int32_t, clReleaseProgram, (void *))

static struct {
#define FIELD(result, name, arguments) result(*name) arguments;
    FUNCTIONS(FIELD)
    void *library, *device, *context, *queue;
    const char *fault; /* why it cannot be used */
    pid_t owner;       /* 0: not tried yet */
} cl;

/* Memory of a node, which operators import by its descriptor: they do so in every run, and never give it back. */
struct known {
    struct known *next;
    int fd;
    void *address, *buffer, *context;
    size_t size;
};

static struct known *known;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* -- the device ------------------------------------------------------------------------------------ */

static const char *load(void)
{
    static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so", "libmali.so.1", "libmali.so"};
    bool whole = true;
    for (size_t i = 0; !cl.library && i < sizeof names / sizeof *names; i++)
        cl.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!cl.library)
        return "there is no libOpenCL.so.1; install ocl-icd-libopencl1, and pocl-opencl-icd to compute on the CPU";
#define FIND(result, name, arguments) whole = (*(void **)&cl.name = dlsym(cl.library, #name)) != NULL && whole;
    FUNCTIONS(FIND)
    return whole ? NULL : "libOpenCL.so.1 lacks functions of OpenCL 1.2";
}

/* A GPU where there is one. */
static void *find_device(void)
{
    static const uint64_t kinds[] = {DEVICE_GPU, 0xffffffff};
    void *platforms[MOST_PLATFORMS], *device = NULL;
    uint32_t count = 0;
    if (cl.clGetPlatformIDs(MOST_PLATFORMS, platforms, &count))
        return NULL;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (uint32_t i = 0; i < count && i < MOST_PLATFORMS; i++)
            if (!cl.clGetDeviceIDs(platforms[i], kinds[kind], 1, &device, NULL))
                return device;
    return NULL;
}

static const char *start(void)
{
    const char *fault = load();
    if (fault)
        return fault;
    cl.device = find_device();
    if (!cl.device)
        return "OpenCL has no device; install a driver for the GPU, or pocl-opencl-icd to compute on the CPU";
    cl.context = cl.clCreateContext(NULL, 1, &cl.device, NULL, NULL, NULL);
    cl.queue = cl.context ? cl.clCreateCommandQueue(cl.context, cl.device, 0, NULL) : NULL;
    return cl.queue ? NULL : "OpenCL makes no context or queue for its device";
}

const char *gpu_fault(void)
{
    pthread_mutex_lock(&lock);
    if (!cl.owner) {
        cl.fault = start();
        cl.owner = getpid();
    }
    const char *fault = cl.owner == getpid() ? cl.fault : "OpenCL was started before a fork";
    pthread_mutex_unlock(&lock);
    return fault;
}

/* Objects of OpenCL are left alone in a child, and at the end, when OpenCL may have gone already. */
static bool gone(void)
{
    return cl.owner != getpid() || channels_are_leaving();
}

/* -- kernels --------------------------------------------------------------------------------------- */

static char *text_of(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long end = file && !fseek(file, 0, SEEK_END) ? ftell(file) : -1;
    if (end > 0 && !fseek(file, 0, SEEK_SET) && (text = malloc((size_t)end)) != NULL)
        *size = fread(text, 1, (size_t)end, file);
    if (file)
        fclose(file);
    return text;
}

void *gpu_program(const char *function, const rknn_custom_op *op, int *code)
{
    size_t size = (size_t)op->cl_source_size;
    const char *source = op->cl_kernel_source;
    char log[2048] = "", *read = size || !source ? NULL : text_of(source, &size);
    const char *text = read ? read : source;
    if (!source || !size) {
        *code = failed(function, RKNN_ERR_PARAM_INVALID, "operator %s: cl_kernel_source %s", op->op_type,
                       source ? "names a file that cannot be read" : "is NULL");
        return NULL;
    }
    void *program = cl.clCreateProgramWithSource(cl.context, 1, &text, &size, NULL);
    free(read);
    if (program && !cl.clBuildProgram(program, 1, &cl.device, op->cl_build_options, NULL, NULL)) {
        void *kernel = cl.clCreateKernel(program, op->cl_kernel_name, NULL);
        if (kernel) {
            cl.clReleaseKernel(kernel);
            return program;
        }
        snprintf(log, sizeof log, "there is no kernel %s in its source", op->cl_kernel_name);
    } else if (program) {
        cl.clGetProgramBuildInfo(program, cl.device, BUILD_LOG, sizeof log - 1, log, NULL);
    }
    *code = failed(function, RKNN_ERR_PARAM_INVALID, "operator %s: its OpenCL source does not build: %s", op->op_type, log);
    if (program)
        cl.clReleaseProgram(program);
    return NULL;
}

bool gpu_begin(void *program, const char *name, rknn_gpu_op_context *gpu)
{
    gpu->cl_context = cl.context;
    gpu->cl_command_queue = cl.queue;
    gpu->cl_kernel = cl.clCreateKernel(program, name, NULL);
    return gpu->cl_kernel != NULL;
}

void gpu_end(void *kernel, void *program)
{
    if (gone())
        return;
    if (kernel)
        cl.clReleaseKernel(kernel);
    if (program)
        cl.clReleaseProgram(program);
}

/* -- memory ---------------------------------------------------------------------------------------- */

void gpu_know(const rknn_tensor_mem *mem)
{
    struct known *entry = calloc(1, sizeof *entry);
    if (!entry)
        return;
    entry->fd = mem->fd;
    entry->address = mem->virt_addr;
    entry->size = mem->size;
    pthread_mutex_lock(&lock);
    entry->next = known;
    known = entry;
    pthread_mutex_unlock(&lock);
}

static struct known **find(int fd)
{
    struct known **at = &known;
    while (*at && (*at)->fd != fd)
        at = &(*at)->next;
    return at;
}

/* All references: of ours there is one, of the operator as many as there were runs. */
static void release(void *buffer)
{
    uint32_t references = 1;
    cl.clGetMemObjectInfo(buffer, REFERENCE_COUNT, sizeof references, &references, NULL);
    while (references-- > 0)
        cl.clReleaseMemObject(buffer);
}

void gpu_forget(const rknn_tensor_mem *mem)
{
    pthread_mutex_lock(&lock);
    struct known **at = find(mem->fd), *entry = *at;
    if (entry) {
        *at = entry->next;
        if (entry->buffer && !gone())
            release(entry->buffer);
        free(entry);
    }
    pthread_mutex_unlock(&lock);
}

/* What the host wrote goes to the device, or what the device wrote to the host, where these have memories of their own. */
void gpu_sync(const rknn_tensor_mem *mem, bool to_device)
{
    pthread_mutex_lock(&lock);
    struct known *entry = *find(mem->fd);
    if (entry && entry->buffer && entry->context == cl.context) {
        uint64_t how = to_device ? MAP_WRITE_INVALIDATE : MAP_READ;
        void *at = cl.clEnqueueMapBuffer(cl.queue, entry->buffer, 1, how, 0, entry->size, 0, NULL, NULL, NULL);
        if (at)
            cl.clEnqueueUnmapMemObject(cl.queue, entry->buffer, at, 0, NULL, NULL);
    }
    pthread_mutex_unlock(&lock);
}

static void *import(void *context, uint64_t flags, int fd, size_t size, int32_t *error)
{
    struct known *entry = *find(fd);
    *error = entry ? INVALID_BUFFER_SIZE : INVALID_VALUE;
    if (!entry || size > entry->size)
        return NULL;
    if (entry->buffer && entry->context != context)
        return cl.clCreateBuffer(context, flags | USE_HOST_PTR, entry->size, entry->address, error);
    if (!entry->buffer) {
        entry->buffer = cl.clCreateBuffer(context, flags | USE_HOST_PTR, entry->size, entry->address, error);
        entry->context = context;
    }
    if (!entry->buffer)
        return NULL;
    *error = cl.clRetainMemObject(entry->buffer); /* the caller's reference, which it may give back */
    return entry->buffer;
}

/* The extension of Mali's OpenCL by which operators take tensors in; OpenCL of other machines has none. */
FULL void *clImportMemoryARM(void *context, uint64_t flags, const intptr_t *properties, void *memory, size_t size,
                               int32_t *error)
{
    typedef void *(*importer)(void *, uint64_t, const intptr_t *, void *, size_t, int32_t *);
    intptr_t type = IMPORT_HOST;
    int32_t ignored;
    void *buffer = NULL;
    if (!error)
        error = &ignored;
    *error = INVALID_VALUE;
    for (const intptr_t *property = properties; property && property[0]; property += 2)
        if (property[0] == IMPORT_TYPE)
            type = property[1];
    if (!memory || gpu_fault())
        return NULL;
    pthread_mutex_lock(&lock);
    bool ours = type == IMPORT_DMA_BUF && *find(*(const int *)memory);
    if (ours)
        buffer = import(context, flags, *(const int *)memory, size, error);
    pthread_mutex_unlock(&lock);
    if (ours)
        return buffer;
    importer genuine = (importer)dlsym(cl.library, "clImportMemoryARM");
    if (genuine)
        return genuine(context, flags, properties, memory, size, error);
    return type == IMPORT_HOST ? cl.clCreateBuffer(context, flags | USE_HOST_PTR, size, memory, error) : NULL;
}
