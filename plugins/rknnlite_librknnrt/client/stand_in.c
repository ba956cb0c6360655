/* Stands where the library will be: the marker, and two functions that answer "no device". */
#include "rknn_api.h"

#ifndef RKNNLITE_VERSION
#define RKNNLITE_VERSION "unknown"
#endif
#define PUBLIC __attribute__((visibility("default")))

PUBLIC const char rknnlite_librknnrt_marker[] = RKNNLITE_VERSION;

PUBLIC int rknn_init(rknn_context *context, void *model, unsigned size, unsigned flag, void *extend)
{
    (void)context, (void)model, (void)size, (void)flag, (void)extend;
    return -3;
}

PUBLIC int rknn_destroy(rknn_context context)
{
    (void)context;
    return -7;
}
