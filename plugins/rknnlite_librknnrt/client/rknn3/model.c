/* Contexts of librknn3_api: opening, settings, closing. */
#include "rknn3.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- opening and closing ------------------------------------------------------------------------------ */

static struct channel *opened(const char *function, struct talk *talk, int *code)
{
    struct channel *channel = channel_open(function, &library_hooks, code);
    if (!channel)
        return NULL;
    channel->own = calloc(1, sizeof *channel->own);
    if (!channel->own) {
        *code = failed(function, RKNN3_ERR_OUT_OF_MEMORY, "no memory for a context");
    } else {
        channel->own->later = environment_is_later();
        *code = channel_talk(channel, talk);
        free(talk->answer);
    }
    if (!*code)
        return channel;
    channel_drop(channel);
    return NULL;
}

PUBLIC int rknn3_init(rknn3_context *context, rknn3_init_extend *init_extend)
{
    const char *function = "rknn3_init", *device = init_extend ? init_extend->device_id : NULL;
    struct talk talk = {.function = function, .call = CALL3_INIT, .payload = device, .size = device ? strlen(device) : 0};
    int code = 0;
    if (!context)
        return failed(function, RKNN3_ERR_ARGUMENT_INVALID, "context is NULL");
    struct channel *channel = opened(function, &talk, &code);
    if (!channel)
        return code;
    channel_publish(channel);
    *context = (rknn3_context)channel->id;
    channel_let_go(channel);
    return RKNN3_SUCCESS;
}

PUBLIC int rknn3_dup_context(rknn3_context context_in, rknn3_context *context_out)
{
    const char *function = "rknn3_dup_context";
    struct talk talk = {.function = function, .call = CALL3_DUP, .args = {context_in}};
    int code = 0;
    if (!context_out)
        return failed(function, RKNN3_ERR_ARGUMENT_INVALID, "context_out is NULL");
    struct channel *from = context_take(function, context_in, &code);
    if (!from)
        return code;
    struct channel *twin = opened(function, &talk, &code);
    if (twin) {
        channel_publish(twin);
        *context_out = (rknn3_context)twin->id;
        channel_let_go(twin);
    }
    channel_let_go(from);
    return code;
}

PUBLIC int rknn3_destroy(rknn3_context context)
{
    const char *function = "rknn3_destroy";
    int code = 0;
    struct channel *channel = context_take(function, context, &code);
    if (!channel)
        return code;
    if (!channel->broken) {
        struct talk talk = {.function = function, .call = CALL_CLOSE};
        channel_talk(channel, &talk);
        free(talk.answer);
    }
    channel_drop(channel);
    return RKNN3_SUCCESS;
}

PUBLIC int rknn3_load_model_from_path(rknn3_context context, const char *model_path, const char *weight_path)
{
    struct talk talk = {.function = "rknn3_load_model_from_path", .call = CALL3_LOAD};
    struct pack pack = {0};
    if (!model_path)
        return failed(talk.function, RKNN3_ERR_ARGUMENT_INVALID, "model_path is NULL");
    char *model = handover_path(model_path), *weight = weight_path && *weight_path ? handover_path(weight_path) : NULL;
    pack_text(&pack, model);
    pack_text(&pack, weight);
    talk.payload = pack.bytes;
    talk.size = pack.size;
    int code = context_tell(context, &talk);
    free(pack.bytes);
    free(model);
    free(weight);
    return code;
}

PUBLIC int rknn3_load_model_from_data(rknn3_context context, const void *model_data, uint64_t model_size,
                                      const void *weight_data, uint64_t weight_size)
{
    struct talk talk = {.function = "rknn3_load_model_from_data", .call = CALL3_LOAD};
    if (!model_data || !model_size)
        return failed(talk.function, RKNN3_ERR_ARGUMENT_INVALID, "%llu bytes of a model at %p",
                      (unsigned long long)model_size, model_data);
    bool weights = weight_data && weight_size;
    int fds[2] = {handover_bytes(model_data, model_size), weights ? handover_bytes(weight_data, weight_size) : -1};
    int code;
    if (fds[0] < 0 || (weights && fds[1] < 0)) {
        code = failed(talk.function, RKNN3_ERR_MODEL_INVALID, "the %llu bytes of the %s cannot be read: %s",
                      (unsigned long long)(fds[0] < 0 ? model_size : weight_size), fds[0] < 0 ? "model" : "weights",
                      strerror(errno));
    } else {
        talk.args[0] = model_size;
        talk.args[1] = weights ? weight_size : 0;
        talk.fds = fds;
        talk.n_fds = weights ? 2 : 1;
        code = context_tell(context, &talk);
    }
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return code;
}

PUBLIC int rknn3_model_init(rknn3_context context, rknn3_config *config)
{
    struct talk talk = {.function = "rknn3_model_init", .call = CALL3_MODEL_INIT};
    if (config) {
        talk.args[0] = config->run_core_mask;
        talk.args[1] = config->run_timeout;
        talk.args[2] = (uint64_t)config->user_mem_weight | (uint64_t)config->user_mem_internal << 8;
    }
    return context_tell(context, &talk);
}

/* -- settings ----------------------------------------------------------------------------------------- */

PUBLIC int rknn3_set_shape(rknn3_context context, int32_t shape_id)
{
    struct talk talk = {.function = "rknn3_set_shape", .call = CALL3_SHAPE, .args = {(uint64_t)(int64_t)shape_id}};
    return context_tell(context, &talk);
}

PUBLIC int rknn3_register_custom_ops_plugins(rknn3_context ctx, const char *plugin_path, int64_t size)
{
    (void)size; /* of the path, or 0 */
    struct talk talk = {.function = "rknn3_register_custom_ops_plugins", .call = CALL3_PLUGIN};
    if (!plugin_path)
        return failed(talk.function, RKNN3_ERR_ARGUMENT_INVALID, "plugin_path is NULL");
    char *path = handover_path(plugin_path);
    talk.payload = path;
    talk.size = path ? strlen(path) : 0;
    int code = context_tell(ctx, &talk);
    free(path);
    return code;
}

/* Memory per core, for what the server keeps elsewhere: it is checked, and not written. */
static int given(const char *function, rknn3_context context, rknn3_tensor_mem *mem[], const int *cores, int64_t count,
                 uint64_t what)
{
    struct talk talk = {.function = function, .call = CALL3_GIVEN, .args = {what}};
    struct pack pack = {0};
    if (!mem || count < 1 || count > 64)
        return failed(function, RKNN3_ERR_ARGUMENT_INVALID, "memory of %lld cores at %p", (long long)count, (void *)mem);
    for (int64_t i = 0; i < count; i++) {
        uint64_t size = mem[i] ? memory_size(mem[i]) : 0;
        if (!size)
            return failed(function, RKNN3_ERR_ARGUMENT_INVALID, "the memory of core %lld is none: %p", (long long)i,
                          (void *)mem[i]);
        pack_number(&pack, (uint64_t)(int64_t)(cores ? cores[i] : mem[i]->core_id));
        pack_number(&pack, size);
    }
    talk.payload = pack.bytes;
    talk.size = pack.size;
    int code = context_tell(context, &talk);
    free(pack.bytes);
    return code;
}

PUBLIC int rknn3_set_internal_mem(rknn3_context context, rknn3_tensor_mem *mem[], uint32_t n_core)
{
    return given("rknn3_set_internal_mem", context, mem, NULL, n_core, 0);
}

PUBLIC int rknn3_set_kvcache_mem(rknn3_context context, rknn3_tensor_mem *mem[], int *npu_core_indices, int n_core)
{
    return given("rknn3_set_kvcache_mem", context, mem, npu_core_indices, n_core, 1);
}

PUBLIC int rknn3_set_weight_mem(rknn3_context context, rknn3_tensor_mem *mem[], uint32_t n_core);
int rknn3_set_weight_mem(rknn3_context context, rknn3_tensor_mem *mem[], uint32_t n_core)
{
    program_is_later(context);
    return given("rknn3_set_weight_mem", context, mem, NULL, n_core, 2);
}
