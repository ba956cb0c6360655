/* The process around a post-process plugin: linked with the plugin's object, run by qemu-riscv64 (or, on a RISC-V
 * machine, as it is). It waits for commands on a socket and works on a shared memory file; see process.py.
 */
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_TENSORS 64
#define MAGIC 0x72763364u
enum { OPEN = 1, MAP = 2, COMPUTE = 3, CLOSE = 4 };
enum { QUERY_IN_OUT_NUM = 0, QUERY_INPUT_ATTR = 1, QUERY_OUTPUT_ATTR = 2, QUERY_SDK_VERSION = 5,
       QUERY_NATIVE_INPUT_ATTR = 8, QUERY_NATIVE_OUTPUT_ATTR = 9, QUERY_POST_NUM = 18, QUERY_POST_OUTPUT_ATTR = 19 };
enum { ERR_FAIL = -1, ERR_ARGUMENT = -2 };

typedef struct {
    uint32_t index;
    char name[256];
    uint32_t n_dims, shape[16];
    uint64_t aligned_size;
    uint32_t n_stride;
    uint64_t stride[17];
    uint32_t n_elems;
    int32_t dtype, layout, qnt_type;
    float scale;
    int32_t zero_point, core_id;
} tensor_attr;

typedef struct {
    void *virt_addr;
    uint64_t phys_addr;
    int32_t fd;
    uint64_t buffer_id, offset, size, flags;
    int32_t core_id;
    void *priv_data;
    int32_t mem_type;
} tensor_mem;

typedef struct {
    tensor_mem *mem;
    tensor_attr *attr;
} tensor;

typedef struct op_context {
    uint64_t rknn_ctx;
    void *priv_data, *user_data;
    int (*get_param)(struct op_context *, const char *, void *); /* later headers only; others never look here */
} op_context;

typedef struct {
    const char *op_type;
    int32_t plugin_type, target;
    uint32_t version;
    const char *author, *description;
    int (*init)(op_context *);
    int (*prepare)(op_context *, tensor *, uint32_t, tensor *, uint32_t);
    int (*compute)(op_context *, tensor *, uint32_t, tensor *, uint32_t);
    int (*deinit)(op_context *);
    int (*get_output_num)(op_context *);
    int (*get_attrs)(op_context *, tensor_attr *, uint32_t, tensor_attr *, uint32_t);
} custom_op;

typedef struct {
    uint32_t magic, n_inputs, n_outputs, n_results;
    uint64_t inputs_end, total; /* the plugin's inputs lie in [sizeof header, inputs_end), its results behind */
    uint64_t output_at[MAX_TENSORS], result_at[MAX_TENSORS];
    char text[256], op_type[256];
    tensor_attr inputs[MAX_TENSORS], outputs[MAX_TENSORS], results[MAX_TENSORS];
} header;

extern custom_op *rknn3_register_custom_ops_plugin(int index);

static header *shared;
static custom_op *op;
static int opened; /* init has succeeded, deinit has not run */
static op_context ctx;
static tensor in[MAX_TENSORS], out[MAX_TENSORS];
static tensor_mem in_mem[MAX_TENSORS], out_mem[MAX_TENSORS];
static char *in_base, *out_base;

static int complain(int code, const char *what, long number)
{
    snprintf(shared->text, sizeof shared->text, what, number);
    return code;
}

/* -- what plugins call ------------------------------------------------------------------------------------ */

static int answer_attr(const tensor_attr *attrs, uint32_t count, void *info, uint64_t size)
{
    uint32_t index;
    if (size != sizeof *attrs)
        return complain(ERR_ARGUMENT, "the plugin has tensor attributes of %ld bytes, the header 1.0.0 has 512: compile "
                        "it against that one", (long)size);
    index = ((tensor_attr *)info)->index;
    if (index >= count)
        return ERR_ARGUMENT;
    memcpy(info, &attrs[index], size);
    return 0;
}

int rknn3_query(uint64_t context, int cmd, void *info, uint64_t size)
{
    (void)context;
    if (info == NULL)
        return ERR_ARGUMENT;
    if (cmd == QUERY_IN_OUT_NUM || cmd == QUERY_POST_NUM) {
        if (size != 2 * sizeof(uint32_t))
            return ERR_ARGUMENT;
        ((uint32_t *)info)[0] = shared->n_inputs;
        ((uint32_t *)info)[1] = cmd == QUERY_IN_OUT_NUM ? shared->n_outputs : shared->n_results;
        return 0;
    }
    if (cmd == QUERY_INPUT_ATTR || cmd == QUERY_NATIVE_INPUT_ATTR)
        return answer_attr(shared->inputs, shared->n_inputs, info, size);
    if (cmd == QUERY_OUTPUT_ATTR || cmd == QUERY_NATIVE_OUTPUT_ATTR)
        return answer_attr(shared->outputs, shared->n_outputs, info, size);
    if (cmd == QUERY_POST_OUTPUT_ATTR)
        return answer_attr(shared->results, shared->n_results, info, size);
    if (cmd == QUERY_SDK_VERSION) {
        memset(info, 0, size);
        strncpy(info, "1.0.0", size ? size - 1 : 0);
        return 0;
    }
    return ERR_ARGUMENT;
}

static const char *pick(const char *const *names, int count, int number)
{
    return number >= 0 && number < count && names[number] ? names[number] : "UNKNOWN";
}

const char *rknn3_get_type_string(int type)
{
    static const char *const names[] = {"FP32", "FP16", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32",
                                        "INT64", NULL, "BOOL", "INT4"};
    return pick(names, 12, type);
}

const char *rknn3_get_qnt_type_string(int type)
{
    static const char *const names[] = {"NONE", "PER_LAYER_SYMMETRIC", "PER_LAYER_ASYMMETRIC",
                                        "PER_CHANNEL_SYMMETRIC", "PER_CHANNEL_ASYMMETRIC", "PER_GROUP_SYMMETRIC",
                                        "PER_GROUP_ASYMMETRIC"};
    return pick(names, 7, type);
}

const char *rknn3_get_layout_string(int layout)
{
    static const char *const names[] = {"UNDEFINED", "NCHW", "NHWC", "NC1HWC2", "CHWN", "HWIO", "OIHW",
                                        "O1I1HWI2O2"};
    return pick(names, 8, layout);
}

static int get_param(op_context *context, const char *name, void *attr)
{
    (void)context, (void)name, (void)attr;
    return ERR_ARGUMENT; /* a post-process plugin has no node, hence no attributes */
}

/* What the headers of picolibc and newlib refer to and other C libraries do not have: <ctype.h>, <assert.h>. */

char _ctype_[257];         /* flags of EOF, then of 0 to 255 */
char _ctype_b[127 + 257]; /* the same behind those of negative characters, as picolibc of 2025 has them */

__attribute__((constructor)) static void fill_ctype(void)
{
    for (int c = 0; c < 128; c++)
        _ctype_b[127 + 1 + c] = _ctype_[1 + c] = (isupper(c) ? 1 : 0) | (islower(c) ? 2 : 0) | (isdigit(c) ? 4 : 0) | (isspace(c) ? 8 : 0)
            | (ispunct(c) ? 16 : 0) | (iscntrl(c) ? 32 : 0) | (isxdigit(c) && !isdigit(c) ? 64 : 0)
            | (c == ' ' ? 128 : 0);
}

void __assert_func(const char *file, int line, const char *function, const char *condition)
{
    fprintf(stderr, "%s:%d: %s: assertion %s failed\n", file, line, function, condition);
    abort();
}

/* -- commands --------------------------------------------------------------------------------------------- */

static int open_plugin(void)
{
    int code, count;
    for (int i = 0; i < 256 && (op = rknn3_register_custom_ops_plugin(i)) != NULL; i++)
        if (op->plugin_type == 0)
            break;
    if (op == NULL)
        return complain(ERR_FAIL, "the plugin registers no post-process operator (plugin_type 0)%.0ld", 0);
    if (op->op_type != NULL)
        snprintf(shared->op_type, sizeof shared->op_type, "%s", op->op_type);
    if (op->target != 1)
        return complain(ERR_FAIL, "the operator has target %ld; only 1, the CPU, exists", op->target);
    if (op->version != 1)
        return complain(ERR_FAIL, "the operator says version %ld, this host knows version 1", (long)op->version);
    if (op->compute == NULL || op->get_output_num == NULL || op->get_attrs == NULL)
        return complain(ERR_FAIL, "the operator lacks compute, get_output_num or get_attrs%.0ld", 0);
    ctx.rknn_ctx = 1;
    ctx.get_param = get_param;
    if (op->init != NULL && (code = op->init(&ctx)) != 0)
        return shared->text[0] ? code : complain(code, "init answers %ld", code);
    opened = 1;
    count = op->get_output_num(&ctx);
    if (count < 1 || count > MAX_TENSORS)
        return complain(ERR_FAIL, "get_output_num answers %ld", count);
    shared->n_results = count;
    code = op->get_attrs(&ctx, shared->outputs, shared->n_outputs, shared->results, shared->n_results);
    return code == 0 ? 0 : complain(code, "get_attrs answers %ld", code);
}

static void describe(tensor *tensors, tensor_mem *memory, tensor_attr *attrs, char *base, const uint64_t *at,
                     uint32_t count, uint64_t begin)
{
    for (uint32_t i = 0; i < count; i++) {
        memset(&memory[i], 0, sizeof memory[i]);
        memory[i].virt_addr = base + (at[i] - begin);
        memory[i].size = attrs[i].aligned_size;
        memory[i].fd = -1;
        tensors[i].mem = &memory[i];
        tensors[i].attr = &attrs[i];
    }
}

static int map_tensors(int fd)
{
    uint64_t begin = (sizeof(header) + 4095) & ~4095ull;
    in_base = mmap(NULL, shared->inputs_end - begin, PROT_READ, MAP_SHARED, fd, begin);
    out_base = mmap(NULL, shared->total - shared->inputs_end, PROT_READ | PROT_WRITE, MAP_SHARED, fd, shared->inputs_end);
    if (in_base == MAP_FAILED || out_base == MAP_FAILED)
        return complain(ERR_FAIL, "the tensors cannot be mapped: error %ld", errno);
    describe(in, in_mem, shared->outputs, in_base, shared->output_at, shared->n_outputs, begin);
    describe(out, out_mem, shared->results, out_base, shared->result_at, shared->n_results, shared->inputs_end);
    return 0;
}

static int compute(void)
{
    int code = 0;
    if (op->prepare != NULL)
        code = op->prepare(&ctx, in, shared->n_outputs, out, shared->n_results);
    return code ? code : op->compute(&ctx, in, shared->n_outputs, out, shared->n_results);
}

static int close_plugin(void)
{
    const int code = opened && op->deinit != NULL ? op->deinit(&ctx) : 0;
    opened = 0;
    return code;
}

int main(int argc, char **argv)
{
    int fd = argc > 2 ? atoi(argv[1]) : -1, sock = argc > 2 ? atoi(argv[2]) : -1;
    int32_t command, code;

    shared = mmap(NULL, (sizeof(header) + 4095) & ~4095ull, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED || shared->magic != MAGIC)
        return 2;
    while (read(sock, &command, sizeof command) == sizeof command) {
        shared->text[0] = '\0';
        if (command == OPEN)
            code = open_plugin();
        else if (command == MAP)
            code = map_tensors(fd);
        else if (command == COMPUTE)
            code = compute();
        else
            code = close_plugin();
        if (write(sock, &code, sizeof code) != sizeof code || command == CLOSE)
            break;
    }
    close_plugin(); /* the context was dropped without a word */
    fflush(NULL);
    return 0;
}
