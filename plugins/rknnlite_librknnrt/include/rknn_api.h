/* Stands where the generated header will be. */
#ifndef RKNN_API_H
#define RKNN_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t rknn_context;
int rknn_init(rknn_context *context, void *model, unsigned size, unsigned flag, void *extend);
int rknn_destroy(rknn_context context);

#ifdef __cplusplus
}
#endif
#endif
