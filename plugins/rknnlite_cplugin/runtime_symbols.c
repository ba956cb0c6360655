/* The functions of librknnrt that operator plugins call, for hosts without that library.
 *
 * internal_ctx of the context handed to a plugin is the address of an attribute_table.
 */
#include <stdint.h>
#include <string.h>

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
    uint32_t magic;
    uint32_t count;
    const op_attr *attrs;
} attribute_table;

#define TABLE_MAGIC 0x726b6174u

__attribute__((visibility("default")))
void rknn_custom_op_get_op_attr(op_context *ctx, const char *name, op_attr *answer)
{
    if (answer == NULL)
        return;
    memset(answer, 0, sizeof *answer);
    if (ctx == NULL || name == NULL)
        return;
    strncpy(answer->name, name, sizeof answer->name - 1);
    const attribute_table *table = (const attribute_table *)ctx->internal_ctx;
    if (table == NULL || table->magic != TABLE_MAGIC)
        return;
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->attrs[i].name, name) == 0) {
            *answer = table->attrs[i];
            return;
        }
}

/* Memory is plain and coherent here. */
__attribute__((visibility("default")))
int rknn_mem_sync(uintptr_t context, void *mem, int32_t mode)
{
    (void)context, (void)mem, (void)mode;
    return 0;
}
