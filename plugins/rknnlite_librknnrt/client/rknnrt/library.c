/* What makes the shared code librknnrt.so or librknnmrt.so: its name and its codes. */
#include "rknnrt.h"

#ifndef RKNNLITE_VERSION
#define RKNNLITE_VERSION "unknown"
#endif

PUBLIC const char rknnlite_librknnrt_marker[] = RKNNLITE_VERSION;

const struct library library = {MINI ? "librknnmrt" : "librknnrt", "rknn_init",
                                RKNN_ERR_FAIL,        RKNN_ERR_CTX_INVALID,
                                RKNN_ERR_DEVICE_UNAVAILABLE, RKNN_ERR_MALLOC_FAIL};
