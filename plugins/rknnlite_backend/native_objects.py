"""Objects of a C library as Python objects: each is given back exactly once, and children before parents.

A ``Native`` gives its object back when nobody holds it any more. Whatever lives inside another object (memory
in a context, a duplicate in its original) holds a reference to it, so plain reference counting yields the
right order, also when an exception unwinds; at interpreter exit ``weakref.finalize`` goes from the youngest to
the oldest. After ``fork`` the child owns nothing: its finalizers are switched off, and contexts that hold such
objects are told (``abandon_after_fork``).
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from rknnlite.log import logger

__all__ = ["Abandonable", "Native", "abandon_after_fork"]

_PATIENCE = 5.0  # seconds that a finalizer waits for a call under way in another thread


def _failed(function: str, code: int) -> object:
    return f"{function} failed: error code {code}"


class Native:
    """One object of a C library.

    Args:
        value: what C calls it: a context number, a pointer, an address.
        destroy: called once with ``args``; returns a code (0: done). Must not refer to this object.
        parents: objects that have to outlive this one.
        guard: lock that a call into the library holds; nothing is destroyed under such a call.
    """

    __slots__ = ("__weakref__", "_finalizer", "_inside", "_parents", "value")

    explain: Callable[[str, int], object] = staticmethod(_failed)
    """Name and code of a destroying function that failed -> what the log says; for a library's own words."""

    def __init__(
        self,
        value: Any,
        destroy: Callable[..., int],
        args: tuple[Any, ...],
        parents: tuple[Any, ...] = (),
        guard: Any = None,
    ) -> None:
        self.value = value
        self._parents = parents
        self._inside: set[object] = set()  # one mark per object inside, until C has destroyed that
        mark, places = object(), tuple(p._inside for p in parents if isinstance(p, Native))
        for place in places:
            place.add(mark)
        leave = (mark, places)
        self._finalizer = weakref.finalize(self, _destroy, destroy, args, guard, leave, self.explain)
        _living.add(self)

    @property
    def alive(self) -> bool:
        """Whether the object has not been given back."""
        return self._finalizer.alive

    def release(self) -> None:
        """Give the object back now, whoever still holds it; again does nothing."""
        self._finalizer()
        self._parents = ()

    def retire(self) -> None:
        """Give the object back now if nothing is left inside, else when the last of that has gone.

        For the end of a context: a frame that a kept traceback holds must not keep the NPU's memory.
        """
        if not self._inside:
            self.release()

    def adopt(self, other: Any) -> None:
        """Keep ``other``, which C uses through this object, until this one is given back."""
        self._parents = (*self._parents, other)

    def disown(self) -> None:
        """Never give the object back: another process owns it."""
        self._finalizer.detach()


def _destroy(
    destroy: Callable[..., int],
    args: tuple[Any, ...],
    guard: Any,
    leave: tuple[object, tuple[set[object], ...]],
    explain: Callable[[str, int], object],
) -> None:
    if guard is not None and not guard.acquire(timeout=_PATIENCE):
        logger.error("a context is still running in another thread and is not released")
        return
    try:
        code = destroy(*args)
        mark, places = leave
        for place in places:
            place.discard(mark)
    finally:
        if guard is not None:
            guard.release()
    if code:
        logger.error("%s", explain(getattr(destroy, "__name__", "release"), code))


class Abandonable(Protocol):
    """What holds objects that the parent process owns after a fork."""

    def abandon(self) -> None:
        """In the child: refuse every use from now on, give nothing back."""


_living: weakref.WeakSet[Native] = weakref.WeakSet()
_holders: weakref.WeakSet[Abandonable] = weakref.WeakSet()


def abandon_after_fork(holder: Abandonable) -> None:
    """Have ``abandon`` called in every child process that is forked while ``holder`` lives."""
    _holders.add(holder)


def _after_fork() -> None:
    for native in list(_living):
        native.disown()
    for holder in list(_holders):
        holder.abandon()


os.register_at_fork(after_in_child=_after_fork)
