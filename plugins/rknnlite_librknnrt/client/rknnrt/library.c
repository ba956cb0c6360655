/* What makes the shared code librknnrt.so, librknnmrt.so, or librknn_api.so (see ../rknn1): its name and its codes. */
#include "rknnrt.h"

#ifndef RKNNLITE_VERSION
#define RKNNLITE_VERSION "unknown"
#endif

#ifndef LIBRARY_NAME
#define LIBRARY_NAME (MINI ? "librknnmrt" : "librknnrt")
#endif

__attribute__((visibility("default"))) const char rknnlite_librknnrt_marker[] = RKNNLITE_VERSION;

const struct library library = {LIBRARY_NAME,         "rknn_init",
                                RKNN_ERR_FAIL,        RKNN_ERR_CTX_INVALID,
                                RKNN_ERR_DEVICE_UNAVAILABLE, RKNN_ERR_MALLOC_FAIL};
