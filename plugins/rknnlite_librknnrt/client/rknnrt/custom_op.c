/* Operators of the program: registered here, asked for by the server while a call waits for it. */
#include "rknnrt.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

struct attribute {
    struct attribute *next;
    rknn_custom_op_attr told;
};

struct operator {
    struct operator *next;
    uint64_t number;
    rknn_custom_op told;
    void *program; /* of OpenCL, where it computes on the GPU */
};

/* One node of a model that one of the operators computes. */
struct node {
    struct node *next;
    uint64_t id;
    const struct operator *op;
    rknn_custom_op_context context;
    uint32_t n_inputs, n_outputs;
    rknn_custom_op_tensor *tensors; /* inputs, then outputs; mapped, with descriptors of their own */
    struct attribute *attributes;
};

struct operators {
    int sock;
    struct operator *list;
    struct node *nodes;
};

/* What the server is told of an operator, and what it tells of an attribute. Twins in operators.py. */
struct told_operator {
    uint64_t number, target;
    char op_type[256];
};

struct told_attribute {
    uint32_t name_size, dtype, n_elems, data_size; /* name and data come behind it */
};

static uint64_t last_number;

/* -- life of nodes --------------------------------------------------------------------------------- */

static void free_node(struct node *node)
{
    const bool gpu = node->context.target == RKNN_TARGET_TYPE_GPU;
    for (uint32_t i = 0; node->tensors && i < node->n_inputs + node->n_outputs; i++) {
        rknn_tensor_mem *mem = &node->tensors[i].mem;
        if (gpu)
            gpu_forget(mem);
        if (mem->virt_addr)
            munmap(mem->virt_addr, mem->size ? mem->size : 1);
        if (mem->fd >= 0)
            close(mem->fd);
    }
    while (node->attributes) {
        struct attribute *next = node->attributes->next;
        free(node->attributes->told.data);
        free(node->attributes);
        node->attributes = next;
    }
    if (gpu)
        gpu_end(node->context.gpu_ctx.cl_kernel, NULL);
    free(node->tensors);
    free(node);
}

static void free_operators(struct operator *list)
{
    while (list) {
        struct operator *next = list->next;
        if (list->program)
            gpu_end(NULL, list->program);
        free(list);
        list = next;
    }
}

static struct node **find_node(struct operators *operators, uint64_t id)
{
    struct node **at = &operators->nodes;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

void operators_drop(struct channel *channel)
{
    struct operators *operators = channel->operators;
    if (!operators)
        return;
    while (operators->nodes) {
        struct node *next = operators->nodes->next;
        free_node(operators->nodes);
        operators->nodes = next;
    }
    free_operators(operators->list);
    if (operators->sock >= 0)
        close(operators->sock);
    free(operators);
    channel->operators = NULL;
}

int operators_socket(const struct channel *channel)
{
    return channel->operators ? channel->operators->sock : -1;
}

void operators_after_fork(struct channel *channel)
{
    if (channel->operators && channel->operators->sock >= 0) {
        close(channel->operators->sock);
        channel->operators->sock = -1;
    }
}

/* -- callbacks ------------------------------------------------------------------------------------- */

static bool map_tensors(struct node *node, const char *sizes, const char *attrs, const int *fds)
{
    uint32_t count = node->n_inputs + node->n_outputs;
    bool whole = true;
    node->tensors = calloc(count ? count : 1, sizeof *node->tensors);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t size;
        memcpy(&size, sizes + i * sizeof size, sizeof size);
        if (!node->tensors) {
            close(fds[i]);
            continue;
        }
        rknn_custom_op_tensor *tensor = &node->tensors[i];
        memcpy(&tensor->attr, attrs + i * sizeof tensor->attr, sizeof tensor->attr);
        void *at = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
        tensor->mem.fd = fds[i];
        tensor->mem.size = (uint32_t)size;
        tensor->mem.flags = RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE;
        tensor->mem.virt_addr = at == MAP_FAILED ? NULL : at;
        whole = whole && at != MAP_FAILED;
    }
    return whole && node->tensors;
}

static bool keep_attributes(struct node *node, const char *at, const char *end)
{
    struct told_attribute told;
    while ((size_t)(end - at) >= sizeof told) {
        memcpy(&told, at, sizeof told);
        at += sizeof told;
        struct attribute *kept = calloc(1, sizeof *kept);
        void *data = malloc(told.data_size + 1);
        if (!kept || !data || (size_t)(end - at) < (size_t)told.name_size + told.data_size || told.name_size >= sizeof kept->told.name) {
            free(kept);
            free(data);
            return false;
        }
        memcpy(kept->told.name, at, told.name_size);
        memcpy(data, at + told.name_size, told.data_size);
        ((char *)data)[told.data_size] = 0;
        at += told.name_size + told.data_size;
        kept->told.dtype = (rknn_tensor_type)told.dtype;
        kept->told.n_elems = told.n_elems;
        kept->told.data = data;
        kept->next = node->attributes;
        node->attributes = kept;
    }
    return true;
}

static bool begin_on_gpu(struct node *node)
{
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++)
        gpu_know(&node->tensors[i].mem);
    return gpu_begin(node->op->program, node->op->told.cl_kernel_name, &node->context.gpu_ctx);
}

static int new_node(struct operators *operators, const struct request *request, const char *payload, const int *fds,
                    int n_fds)
{
    struct node *node = calloc(1, sizeof *node);
    uint32_t count = (uint32_t)(request->args[2] + request->args[3]);
    size_t head = count * (sizeof(uint64_t) + sizeof(rknn_tensor_attr));
    if (!node || n_fds != (int)count || request->size < head) {
        for (int i = 0; i < n_fds; i++)
            close(fds[i]);
        free(node);
        return RKNN_ERR_MALLOC_FAIL;
    }
    const struct operator *op = operators->list;
    while (op && op->number != request->args[1])
        op = op->next;
    node->id = request->args[0];
    node->op = op;
    node->n_inputs = (uint32_t)request->args[2];
    node->n_outputs = (uint32_t)request->args[3];
    node->context.target = op ? op->told.target : RKNN_TARGET_TYPE_CPU;
    node->context.internal_ctx = (rknn_custom_op_interal_context)(uintptr_t)node;
    bool whole = map_tensors(node, payload, payload + count * sizeof(uint64_t), fds) && op &&
                 keep_attributes(node, payload + head, payload + request->size);
    if (whole && op->program)
        whole = begin_on_gpu(node);
    if (!whole) {
        free_node(node);
        return RKNN_ERR_MALLOC_FAIL;
    }
    node->next = operators->nodes;
    operators->nodes = node;
    return RKNN_SUCC;
}

static int call(struct node *node, rknn_custom_op_compute_cb callback)
{
    return callback ? callback(&node->context, node->tensors, node->n_inputs, node->tensors + node->n_inputs, node->n_outputs)
                    : RKNN_SUCC;
}

/* Which of the two failed is told in *step. */
static int compute(struct node *node, uint64_t *step)
{
    int code = call(node, node->op->told.prepare);
    if (code && code != RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE)
        return code;
    *step = 1;
    for (uint32_t i = 0; node->op->program && i < node->n_inputs; i++)
        gpu_sync(&node->tensors[i].mem, true);
    code = call(node, node->op->told.compute);
    for (uint32_t i = 0; node->op->program && i < node->n_outputs; i++)
        gpu_sync(&node->tensors[node->n_inputs + i].mem, false);
    return code;
}

static int answer(struct operators *operators, const struct request *request, const char *payload, const int *fds,
                  int n_fds, uint64_t *step)
{
    struct node **at = find_node(operators, request->args[0]), *node = *at;
    if (request->call == CALLBACK_NODE)
        return new_node(operators, request, payload, fds, n_fds);
    if (!node)
        return RKNN_ERR_PARAM_INVALID;
    if (request->call == CALLBACK_INIT)
        return call(node, node->op->told.init);
    if (request->call == CALLBACK_COMPUTE)
        return compute(node, step);
    int code = node->op->told.destroy ? node->op->told.destroy(&node->context) : RKNN_SUCC;
    *at = node->next;
    free_node(node);
    return code;
}

bool operators_serve(struct channel *channel)
{
    struct operators *operators = channel->operators;
    struct request request;
    struct reply reply;
    int fds[MOST_FDS], n_fds = 0;
    if (!wire_recv(operators->sock, &request, sizeof request, fds, &n_fds))
        return false;
    char *payload = malloc((size_t)request.size + 1);
    if (!payload || (request.size && !wire_recv(operators->sock, payload, request.size, NULL, NULL))) {
        free(payload);
        return false;
    }
    memset(&reply, 0, sizeof reply);
    reply.code = answer(operators, &request, payload, fds, n_fds, &reply.args[0]);
    free(payload);
    return wire_send(operators->sock, &reply, sizeof reply, NULL, 0, NULL, 0);
}

/* -- registering ----------------------------------------------------------------------------------- */

static const char *fault_of(const rknn_custom_op *op)
{
    if (!memchr(op->op_type, 0, sizeof op->op_type) || !op->op_type[0])
        return "op_type is empty, or does not end";
    if (op->target != RKNN_TARGET_TYPE_CPU && op->target != RKNN_TARGET_TYPE_GPU)
        return "its target is neither the CPU nor the GPU";
    return op->compute ? NULL : "compute is NULL";
}

static struct operator *keep(const rknn_custom_op *told, uint32_t count, struct told_operator *out, int *code)
{
    const char *function = "rknn_register_custom_ops";
    struct operator *list = NULL;
    for (uint32_t i = 0; i < count && !*code; i++) {
        struct operator *op = calloc(1, sizeof *op);
        if (!op)
            break;
        op->told = told[i];
        if (op->told.target == RKNN_TARGET_TYPE_GPU)
            op->program = gpu_program(function, &told[i], code);
        out[i].target = (uint64_t)op->told.target;
        op->number = out[i].number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
        memcpy(out[i].op_type, told[i].op_type, sizeof out[i].op_type);
        op->next = list;
        list = op;
    }
    return list;
}

static int register_all(struct channel *channel, rknn_custom_op *ops, uint32_t count)
{
    struct talk talk = {.function = "rknn_register_custom_ops", .call = CALL_OPERATORS, .args = {count}};
    int ends[2] = {-1, -1}, code = RKNN_ERR_MALLOC_FAIL;
    struct told_operator *told = calloc(count, sizeof *told);
    if (!channel->operators) {
        channel->operators = calloc(1, sizeof *channel->operators);
        if (channel->operators)
            channel->operators->sock = -1;
    }
    struct operators *operators = channel->operators;
    if (told && operators && operators->sock < 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
        operators->sock = ends[0];
        talk.fds = &ends[1];
        talk.n_fds = 1;
    }
    if (told && operators && operators->sock >= 0) {
        code = 0;
        struct operator *list = keep(ops, count, told, &code), **end = &list;
        while (*end)
            end = &(*end)->next;
        *end = operators->list;
        operators->list = list;
        talk.payload = told;
        talk.size = count * sizeof *told;
        if (!code)
            code = channel_talk(channel, &talk);
        free(talk.answer);
    } else {
        failed(talk.function, code, "no memory for %u operators", count);
    }
    if (ends[1] >= 0)
        close(ends[1]);
    free(told);
    return code;
}

FULL int rknn_register_custom_ops(rknn_context ctx, rknn_custom_op *op, uint32_t custom_op_num)
{
    const char *function = "rknn_register_custom_ops", *fault = NULL;
    int code = 0;
    struct channel *channel = channel_take(function, ctx, &code);
    if (!channel)
        return code;
    if (!op || !custom_op_num || custom_op_num > 4096)
        code = failed(function, RKNN_ERR_PARAM_INVALID, "%u operators at %p", custom_op_num, (void *)op);
    for (uint32_t i = 0; !code && i < custom_op_num; i++)
        if ((fault = fault_of(&op[i])) != NULL)
            code = failed(function, RKNN_ERR_PARAM_INVALID, "operator %u (%.64s): %s", i, op[i].op_type, fault);
        else if (op[i].target == RKNN_TARGET_TYPE_GPU && (fault = gpu_fault()) != NULL)
            code = failed(function, RKNN_ERR_DEVICE_UNAVAILABLE, "operator %u (%.64s): %s", i, op[i].op_type, fault);
    if (!code)
        code = inputs_flush(channel, function);
    if (!code)
        code = register_all(channel, op, custom_op_num);
    channel_let_go(channel);
    return code;
}

FULL void rknn_custom_op_get_op_attr(rknn_custom_op_context *op_ctx, const char *attr_name, rknn_custom_op_attr *op_attr)
{
    if (!op_attr)
        return;
    memset(op_attr, 0, sizeof *op_attr);
    if (!op_ctx || !attr_name || !op_ctx->internal_ctx)
        return;
    const struct node *node = (const struct node *)(uintptr_t)op_ctx->internal_ctx;
    const struct attribute *found = node->attributes;
    while (found && strcmp(found->told.name, attr_name) != 0)
        found = found->next;
    if (found)
        *op_attr = found->told;
    else
        strncpy(op_attr->name, attr_name, sizeof op_attr->name - 1);
}
