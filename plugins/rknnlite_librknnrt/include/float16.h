/* IEEE half precision as its 16 bits. */
/* SPDX-License-Identifier: Apache-2.0. Written by: python -m tools.headers */
#ifndef RKNNLITE_FLOAT16_H
#define RKNNLITE_FLOAT16_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint16_t float16;

#ifdef __cplusplus
}
#endif

#endif
