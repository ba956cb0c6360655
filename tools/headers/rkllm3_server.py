"""``rkllm3_server.h``: the chat server in a program. No table has it: the guide names functions and states, no numbers."""

from __future__ import annotations

from .parts import Function, Header, Text

__all__ = ["SERVER3"]

_STATUS = Text(
    """
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
"""
)
SERVER3 = Header(
    "rkllm3_server.h",
    "The chat server for programs. Declarations of rknnlite's own.",
    (),
    (
        _STATUS,
        Function(
            "int start_server(const char *params, StatusCallback *callback)",
            "JSON as in a file of parameters, or the path of one; returns when the server has ended. callback may be NULL.",
        ),
        Function(
            "int stop_server(void)", "From another thread, or from the callback; 0 where none runs, too."
        ),
    ),
)
