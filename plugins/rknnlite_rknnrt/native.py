"""Objects of the C library as Python objects: each is given back exactly once, and children before parents.

A ``Native`` gives its object back when nobody holds it any more. Whatever lives inside another object (memory
in a context, a duplicate in its original) holds a reference to it, so plain reference counting yields the
right order, also when an exception unwinds; at interpreter exit ``weakref.finalize`` goes from the youngest to
the oldest. After ``fork`` the child owns nothing: its finalizers are switched off.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any

from rknnlite.errors import ERROR_NAMES, RknnError, error_from_code
from rknnlite.log import logger

__all__ = ["Native", "call_error", "check"]

_REMEDIES = {
    -1: "set RKNN_LOG_LEVEL=4 and read the library's own lines",
    -2: "the NPU did not answer in time; allow more time, or look into dmesg for a reset of the NPU",
    -3: "look whether the NPU's device node is there and open to you (groups render and video)",
    -4: "close other contexts, or use a smaller model",
    -5: "an argument does not fit this model or this version of the library",
    -6: "convert the network again with a toolkit that fits this runtime",
    -7: "the context is gone; open the model again",
    -8: "compare the inputs with the model's input attributes",
    -9: "compare the output buffers with the model's output attributes",
    -10: "update driver and runtime so that they fit each other",
    -11: "convert the network again for this driver",
    -12: "convert the network again for this driver",
    -13: "this board's SoC cannot do that; convert the network for it, or leave the call out",
}


def call_error(function: str, code: int, detail: str = "") -> RknnError:
    """The typed error of a C call that answered ``code``: which call, which code, what to do."""
    name = ERROR_NAMES.get(code, f"unknown code {code}")
    remedy = detail or _REMEDIES.get(code, _REMEDIES[-1])
    return error_from_code(code, f"{function} failed. error code: {name} ({code}); {remedy}")


def check(function: str, code: int, detail: str = "") -> None:
    """Raise the typed error unless ``code`` is 0."""
    if code:
        raise call_error(function, code, detail)


class Native:
    """One object of the C library.

    Args:
        value: what C calls it: a context number, a pointer, an address.
        destroy: called once with ``args``; returns a code (0: done). Must not refer to this object.
        parents: objects that have to outlive this one.
        guard: lock that a call into the library holds; nothing is destroyed under such a call.
    """

    __slots__ = ("__weakref__", "_finalizer", "_inside", "_parents", "value")

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
        mark, places = object(), tuple(parent._inside for parent in parents)
        for place in places:
            place.add(mark)
        self._finalizer = weakref.finalize(self, _destroy, destroy, args, guard, mark, places)
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

    def disown(self) -> None:
        """Never give the object back: another process owns it."""
        self._finalizer.detach()


_PATIENCE = 5.0  # seconds that a finalizer waits for a call under way in another thread


def _destroy(
    destroy: Callable[..., int],
    args: tuple[Any, ...],
    guard: Any,
    mark: object,
    places: tuple[set[object], ...],
) -> None:
    if guard is not None and not guard.acquire(timeout=_PATIENCE):
        logger.error("a context is still running in another thread and is not released")
        return
    try:
        code = destroy(*args)
        for place in places:
            place.discard(mark)
    finally:
        if guard is not None:
            guard.release()
    if code:
        logger.error("%s", call_error(getattr(destroy, "__name__", "release"), code))


_living: weakref.WeakSet[Native] = weakref.WeakSet()


def _forget_after_fork() -> None:
    for native in list(_living):
        native.disown()


os.register_at_fork(after_in_child=_forget_after_fork)
