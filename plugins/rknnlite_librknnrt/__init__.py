"""``librknnrt.so``, ``librknnmrt.so``, ``librknn_api.so``, ``librknn3_api.so`` and ``librkllmrt.so`` for programs without a board.

``client`` is the libraries in C (``common``, and ``rknnrt`` with ``rknnmrt`` and ``rknn1`` on top of it, ``rknn3`` and
``rkllm`` with what each has for itself; ``mpi`` and ``rga`` stand for libraries of boards), ``server`` the process that they
start, with the rooms ``rknn3`` and ``rkllm``; ``build`` and ``recipe`` find the libraries or build them.

The library has no Python in it, so it loads into any process. It starts one server for its process, with a scrubbed environment;
each context is a conversation over a socket of its own, with a thread there (``context_thread``). Over sockets go numbers and
descriptors: inputs, outputs and ``rknn_tensor_mem`` are memfds that both processes have mapped. Memory belongs to no context: each
that is given some learns of it then, by its descriptor.

* A frame is one exchange. Inputs of a kind that the server has taken once are copied into the staging memory and taken with the
  run; outputs come with the run when the program fetched those of the run before. Answers of queries are kept while they stay
  true.
* Operators of the program are called in the thread that waits: the server asks for them over a second socket.
* The server is no child of the program (``detached_spawn.c``), so that its ``wait()`` loops and SIGCHLD handlers never meet it,
  and it cannot outlive it: the kernel kills it when the last writing end of a pipe is closed. ``PR_SET_PDEATHSIG`` would do so
  already when the thread that started it ends.
* A fork's child gets -7 for what it inherited, and starts a server of its own when it opens a context.

``protocol.h`` and ``protocol.py`` are twins; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import hookimpl

if TYPE_CHECKING:
    from rknnlite.spi.command import Command

__all__ = ["rknnlite_register_commands"]


@hookimpl
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer ``rknnlite librknnrt`` and ``rknnlite exec``."""
    from rknnlite.libraries import commands_of

    for command in commands_of("librknnrt"):
        register(command)
