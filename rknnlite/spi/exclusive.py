"""Who may call a context when: ``Context.exclusive``, ``Context.infer_async``, and the watch over inputs in use.

One thread may hold a context several times over, ``infer`` inside ``exclusive`` for instance. What it may not do is begin a
frame, or a step of one, in the middle of another: a signal handler would, or an operator that calls the context whose run
calls it. The inputs of one would give the other's outputs, or both would wait for one lock. ``OneCaller.begin_step`` is
where that is refused, for every backend.
"""

from __future__ import annotations

import abc
import atexit
import threading
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from threading import get_ident
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import config
from ..errors import ContextInvalid, InputInvalid
from ..native.forks import made_before_fork
from .arguments import Typed

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .one_thread import OneThread

__all__ = [
    "AT_WORK",
    "CLOSED",
    "FREE",
    "AsyncCalls",
    "Exclusive",
    "OneCaller",
    "OneStep",
    "Unchanged",
    "debugging",
]

CLOSED = "this context is closed; open the model again"
"""Text of the error that every backend answers with."""
FREE, AT_WORK = range(2)
"""What a context does: nothing; a step. Any other number is the thread (``get_ident``) whose frame is about to do its next step."""
_IDLE = 0.1  # seconds that the thread of ``infer_async`` waits for the next frame


def debugging() -> bool:
    """Whether ``RKNNLITE_DEBUG`` asks for checks that cost time."""
    return (config.get("debug") or "") not in ("", "0")


class Unchanged:
    """Remembers what arrays look like, to tell later whether somebody wrote into them meanwhile."""

    def __init__(self, given: Any) -> None:
        self._arrays = _arrays(given)
        self._sums = [_checksum(array) for array in self._arrays]

    def check(self) -> None:
        """Raise InputInvalid when the arrays are not what they were."""
        for number, (array, before) in enumerate(zip(self._arrays, self._sums)):
            if _checksum(array) != before:
                raise InputInvalid(
                    f"input {number} was changed while the call that uses it was under way: the result belongs to "
                    "neither content; keep inputs as they are until the result is there, or hand over a copy"
                )


def _arrays(given: Any) -> list[Any]:
    if isinstance(given, Mapping):
        given = list(given.values())
    if isinstance(given, (list, tuple)):
        return [array for item in given for array in _arrays(item)]
    return [given] if isinstance(given, np.ndarray) else []


def _checksum(array: Any) -> int:
    return zlib.adler32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


class Exclusive:
    """See ``Context.exclusive``; a plain class, because a generator costs several times as much per frame."""

    __slots__ = ("_context",)

    def __init__(self, context: Any) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._context.take()

    def __exit__(self, *exc: object) -> None:
        self._context.let_go()


class OneStep:
    """See ``Context.step``."""

    __slots__ = ("_context", "_outer")

    def __init__(self, context: Any) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._outer = self._context.begin_step()

    def __exit__(self, *exc: object) -> None:
        self._context.end_step(self._outer)


class OneCaller(Typed, abc.ABC):
    """What serves one caller at a time: a second thread that comes in meanwhile is refused, and so is the same thread in the
    middle of a step. Closed once."""

    _busy_reason = (
        "this context is in use by another thread; open one context per thread or guard it with a lock"
    )
    _closed_reason = CLOSED
    _again_reason = (
        "this context is in the middle of a call that this one interrupts: a signal handler, or an operator that the context "
        "itself runs; set a flag there and call when that call has returned, or open a context of its own"
    )
    _ended_reason = (
        "the program is ending, and what computes is no longer there; infer before its end, not in __del__"
    )
    _invalid = ContextInvalid  # at that time modules have lost their names
    _ended = False
    _forked_reason = made_before_fork("this context")

    def __init__(self) -> None:
        self._owner = threading.RLock()
        self._closed = False
        self._work = FREE

    @property
    def closed(self) -> bool:
        """Whether the context has been closed."""
        return self._closed

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the context for a sequence of calls; refused while another thread holds it."""
        return Exclusive(self)

    def take(self) -> None:
        """Begin what ``exclusive`` does, without a ``with`` block: for what happens at every frame.

        The same thread may take again. Each ``take`` that returns is followed by one ``let_go``.

        Raises:
            ContextInvalid: closed, or held by another thread; then there is nothing to let go.
        """
        if self._ended:
            raise self._invalid(self._ended_reason)
        if not self._owner.acquire(False):
            raise ContextInvalid(self._busy_reason)
        if self._closed:
            self._owner.release()
            raise ContextInvalid(self._closed_reason)

    def take_in_turn(self, frames: Callable[[], int], patience: float) -> None:
        """As ``take``, but wait while other threads get frames done.

        Raises:
            ContextInvalid: closed, or ``frames()`` stood still for ``patience`` seconds.
        """
        before: int | None = frames()
        while not self._owner.acquire(timeout=patience):
            before, last = frames(), before
            if before == last:
                raise ContextInvalid(self._busy_reason)
        if self._closed:
            self._owner.release()
            raise ContextInvalid(self._closed_reason)

    def let_go(self) -> None:
        """End what ``take`` began: once for each ``take``, by the thread that took, in a ``finally``."""
        self._owner.release()

    def step(self) -> AbstractContextManager[None]:
        """Hold the context for one step of a frame (setting inputs, running, fetching), see ``begin_step``."""
        return OneStep(self)

    def begin_step(self) -> int:
        """``take``, and refuse to begin in the middle of a step that is under way; what it returns goes to ``end_step``.

        A step of a frame that this thread has begun takes nothing: whoever began the frame holds the context.

        Raises:
            ContextInvalid: closed, held by another thread, or the same thread is at work in here.
        """
        if self._work and self._work == get_ident():
            self._work = AT_WORK
            return AT_WORK
        self.take()
        if self._work:
            self._owner.release()
            raise ContextInvalid(self._again_reason)
        self._work = AT_WORK
        return FREE

    def end_step(self, outer: int) -> None:
        """End what ``begin_step`` began; in a ``finally``."""
        self._work = outer
        if not outer:
            self._owner.release()

    def refuse_inside(self) -> None:
        """For ``close``, before anything is given back: raise ContextInvalid in the middle of this thread's own step."""
        if self._work and self._owner.acquire(False):
            inside = self._work  # and this thread has it; else the step of another has ended meanwhile
            self._owner.release()
            if inside:
                raise ContextInvalid(self._again_reason)

    def close(self) -> None:
        """Release everything; may be called again. Waits for a run under way in another thread.

        Raises:
            ContextInvalid: the same thread is in the middle of a run, which a signal handler interrupts.
        """
        self.refuse_inside()
        with self._owner:
            if not self._closed:
                self._closed = True
                self._release()

    @abc.abstractmethod
    def _release(self) -> None:
        """Give back what the context holds; called once."""

    def abandon(self) -> None:
        """After a fork, in the child: the parent owns what the context holds, nothing is given back."""
        self._owner = threading.RLock()  # the thread that held it does not exist here
        self._work = FREE
        self._closed = True
        self._closed_reason = self._forked_reason


def _end() -> None:
    OneCaller._ended = True


atexit.register(_end)  # early, so that it runs after those of programs


class AsyncCalls(OneCaller):
    """Part of ``Context``: calls that run one after another in a thread of the context's own."""

    _runner: OneThread | None = None

    def infer(self, *arrays: Any, **options: Any) -> list[Any]:
        """See ``Context.infer``."""
        raise NotImplementedError

    def infer_async(self, *arrays: Any, **options: Any) -> Future[list[Any]]:
        """Begin an inference and return; ``result()`` of the future is what ``infer`` would return or raise.

        Calls run one after another in the order in which they were made, in a thread of the context. Inputs are not
        copied: they stay untouched until the result is there (``RKNNLITE_DEBUG=1`` checks that). While a call runs,
        other calls into the context are refused; ``close`` cancels those that have not begun.

        Raises:
            ContextInvalid: the context is closed, or there is no thread for the call.
        """
        if self._ended:
            raise self._invalid(self._ended_reason)
        if self._closed:
            raise ContextInvalid(self._closed_reason)
        if self._runner is None:
            from .one_thread import OneThread  # most programs never call this way

            self._runner = OneThread("rknnlite-async", daemon=False, idle=_IDLE)
        unchanged = Unchanged(arrays) if debugging() else None
        try:
            return self._runner.submit(self._infer_in_turn, arrays, options, unchanged)
        except RuntimeError as error:
            raise ContextInvalid(
                f"no thread for infer_async ({error}); call infer, which needs none, also while the program ends"
            ) from None

    def _infer_in_turn(self, arrays: Any, options: Any, unchanged: Unchanged | None) -> list[Any]:
        with self._owner:  # waits for a caller that holds the context
            results = self.infer(*arrays, **options)
        if unchanged is not None:
            unchanged.check()
        return results

    def close(self) -> None:
        """As ``OneCaller.close``; cancels calls that have not begun."""
        self.refuse_inside()
        self._finish_async()
        super().close()

    def _finish_async(self) -> None:
        """Cancel calls that have not begun, wait for the one that has; from that call itself, do not wait."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()
