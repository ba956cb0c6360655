/* The chat server for programs. Declarations of rknnlite's own. */
/* SPDX-License-Identifier: Apache-2.0. Written by: python -m tools.headers */
#ifndef RKNNLITE_RKLLM3_SERVER_H
#define RKNNLITE_RKLLM3_SERVER_H


#ifdef __cplusplus
extern "C" {
#endif

/* What a server is about; the numbers are rknnlite's own, the vendor's are not published. */
typedef enum _ServerStatus {
    SERVER_MODEL_INITED = 0, /* requests are answered */
    SERVER_EXITED = 1,
    SERVER_ERROR = 2
} ServerStatus;

typedef struct _StatusCallback {
    void (*status_callback)(void *userdata, ServerStatus status); /* in the thread of start_server */
    void *status_userdata;
} StatusCallback;

/* JSON as in a file of parameters, or the path of one; returns when the server has ended. callback may be
 * NULL. */
int start_server(const char *params, StatusCallback *callback);

/* From another thread, or from the callback; 0 where none runs, too. */
int stop_server(void);

#ifdef __cplusplus
}
#endif

#endif
