/* What makes the shared code librkllmrt.so: its name, its codes, and the words by which its version is told. */
#include "rkllm_client.h"

#ifndef RKNNLITE_VERSION
#define RKNNLITE_VERSION "unknown"
#endif
#ifndef RKLLM_VERSION
#define RKLLM_VERSION "unknown"
#endif

/* As the vendor's files have it: tools read the version there. */
PUBLIC const char rknnlite_librkllmrt_marker[] =
    "RKLLM SDK (version: " RKLLM_VERSION " | target: Linux | build: rknnlite " RKNNLITE_VERSION ")";

const struct library library = {"rkllm: librkllmrt " RKLLM_VERSION, "rkllm_init", FAILED, FAILED, FAILED, FAILED};
