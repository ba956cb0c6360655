/* The functions of librknnrt that operator plugins call, for nodes that the CPU reference computes.
 *
 * internal_ctx of the context handed to a plugin is then the address of an attribute_table that was announced by
 * rknnlite_op_announce. Any other context belongs to the genuine runtime, and the call is passed on to that: to the one
 * that rknnlite_op_runtime named last, else to what is loaded as librknnrt.so. The name alone does not tell: several files
 * may bear it, this one among them. Two runtimes that call plugins at the same time cannot be told apart.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define ERR_FAIL (-1)
#define OURS "rknnlite_op_announce" /* no other library has this function */

typedef struct {
    char name[256];
    int32_t dtype;
    uint32_t n_elems;
    void *data;
} op_attr;

typedef struct {
    int32_t target;
    uintptr_t internal_ctx;
    void *gpu[3];
    void *priv_data;
} op_context;

typedef struct {
    uint32_t count;
    const op_attr *attrs;
} attribute_table;

typedef struct known {
    struct known *next;
    uintptr_t table;
} known;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static known *tables;
static void *named_get_op_attr, *named_mem_sync; /* of the runtime that registered plugins last */

EXPORT int rknnlite_op_announce(uintptr_t table)
{
    known *entry = malloc(sizeof *entry);
    if (entry == NULL)
        return ERR_FAIL;
    pthread_mutex_lock(&lock);
    entry->table = table;
    entry->next = tables;
    tables = entry;
    pthread_mutex_unlock(&lock);
    return 0;
}

EXPORT void rknnlite_op_withdraw(uintptr_t table)
{
    pthread_mutex_lock(&lock);
    for (known **at = &tables; *at != NULL; at = &(*at)->next)
        if ((*at)->table == table) {
            known *entry = *at;
            *at = entry->next;
            free(entry);
            break;
        }
    pthread_mutex_unlock(&lock);
}

static int ours(uintptr_t table)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    for (known *entry = tables; entry != NULL && !found; entry = entry->next)
        found = entry->table == table;
    pthread_mutex_unlock(&lock);
    return found;
}

/* The functions of the runtime that is about to register plugins; mem_sync is NULL where it has none. */
EXPORT void rknnlite_op_runtime(void *get_op_attr, void *mem_sync)
{
    pthread_mutex_lock(&lock);
    named_get_op_attr = get_op_attr;
    named_mem_sync = mem_sync;
    pthread_mutex_unlock(&lock);
}

/* A function of the genuine runtime: the named one, else that of the library which is loaded under the name. */
static void *genuine(void *const *named, const char *name)
{
    pthread_mutex_lock(&lock);
    int is_named = named_get_op_attr != NULL;
    void *found = *named;
    pthread_mutex_unlock(&lock);
    if (is_named)
        return found;
    void *library = dlopen("librknnrt.so", RTLD_NOW | RTLD_NOLOAD);
    found = library != NULL && dlsym(library, OURS) == NULL ? dlsym(library, name) : NULL;
    if (library != NULL)
        dlclose(library);
    return found;
}

EXPORT void rknn_custom_op_get_op_attr(op_context *ctx, const char *name, op_attr *answer)
{
    const attribute_table *table;

    if (answer == NULL)
        return;
    if (ctx != NULL && !ours(ctx->internal_ctx)) {
        void (*pass_on)(op_context *, const char *, op_attr *) =
            genuine(&named_get_op_attr, "rknn_custom_op_get_op_attr");
        if (pass_on != NULL) {
            pass_on(ctx, name, answer);
            return;
        }
        ctx = NULL;
    }
    memset(answer, 0, sizeof *answer);
    if (ctx == NULL || name == NULL)
        return;
    strncpy(answer->name, name, sizeof answer->name - 1);
    table = (const attribute_table *)ctx->internal_ctx;
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->attrs[i].name, name) == 0) {
            *answer = table->attrs[i];
            return;
        }
}

/* Memory of our nodes is plain and coherent. */
EXPORT int rknn_mem_sync(uintptr_t context, void *mem, int32_t mode)
{
    int (*pass_on)(uintptr_t, void *, int32_t) = NULL;
    if (!ours(context))
        pass_on = genuine(&named_mem_sync, "rknn_mem_sync");
    return pass_on != NULL ? pass_on(context, mem, mode) : 0;
}
