"""What does not survive a fork: whose it is, what is said in the child, and what is forgotten there.

Threads, devices and handles of C libraries belong to the process that made them. Objects of a C library are switched off
in the child by ``rknnlite_backend.native_objects``; what a thread of this process works for remembers its ``Owner`` and asks it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ..errors import ContextInvalid

__all__ = ["Owner", "after_fork", "made_before_fork"]

_REMEDY = "open the model in the child"


class Owner:
    """The process that made something, which is this one; a child that it forks is another."""

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether the caller is in that process."""
        return self._pid == os.getpid()

    def check(self, what: str, remedy: str = _REMEDY) -> None:
        """Raise ContextInvalid in a child; ``what`` and ``remedy`` are for its text."""
        if self._pid != os.getpid():
            raise ContextInvalid(made_before_fork(what, remedy))


def made_before_fork(what: str, remedy: str = _REMEDY) -> str:
    """What an error says in the child of something that its parent made."""
    return f"{what} was made before a fork and belongs to the parent process; {remedy}"


def after_fork(forget: Callable[[], object]) -> None:
    """Call ``forget`` first of all in every child that is forked from now on; where nothing is forked, never."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)
