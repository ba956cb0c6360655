/* What makes the shared code librknn3_api.so: its name and its codes. */
#include "rknn3.h"

#ifndef RKNNLITE_VERSION
#define RKNNLITE_VERSION "unknown"
#endif

PUBLIC const char rknnlite_librknn3_marker[] = RKNNLITE_VERSION;

const struct library library = {"librknn3_api",        "rknn3_init",
                                RKNN3_ERR_FAIL,        RKNN3_ERR_CTX_INVALID,
                                RKNN3_ERR_DEVICE_UNAVAILABLE, RKNN3_ERR_OUT_OF_MEMORY};
