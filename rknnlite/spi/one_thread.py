"""Calls that one thread makes one after another, in the order in which they were asked for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Optional, TypeVar

from ..native.forks import Owner

__all__ = ["OneThread"]

T = TypeVar("T")
_Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]
_LOOK = 0.02  # seconds between two requests to stop


class OneThread:
    """Makes calls in a thread of its own, which begins with the first one and ends when there are no more.

    Nothing here refers to whoever asks, so that an owner that is dropped goes as soon as its calls are made. After a
    fork the child has a thread of its own and none of the parent's calls.

    Args:
        name: of the thread.
        daemon: whether the interpreter may end before the calls do.
        idle: seconds that the thread waits for another call before it ends; a new one for every frame costs more.
    """

    def __init__(self, name: str, daemon: bool, idle: float = 0.0) -> None:
        self._name, self._daemon, self._idle = name, daemon, idle
        self._closed = False
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._owner = Owner()
        self._changed = threading.Condition()
        self._calls: deque[_Call] = deque()
        self._thread: Optional[threading.Thread] = None  # the latest, which may have ended
        self._serving = False

    # -- for owners ---------------------------------------------------------------------------------------

    def submit(self, function: Callable[..., T], *args: Any, future: Future[T] | None = None) -> Future[T]:
        """Ask for a call; what it returns or raises is in the future, which may be cancelled until it begins.

        Args:
            function: gets ``args``.
            future: one of the caller's, who keeps hold of it when an interrupt comes meanwhile.

        Raises:
            RuntimeError: closed, or the system has no thread left.
        """
        if not self._owner.is_here:
            self._begin_anew()
        future = Future() if future is None else future
        call: _Call = (future, function, args)
        with self._changed:
            if self._closed:
                raise RuntimeError(f"{self._name} is closed")
            self._calls.append(call)
            self._changed.notify()
            if self._serving:
                return future
            thread = threading.Thread(target=self._serve, name=self._name, daemon=self._daemon)
            self._thread, self._serving = thread, True
        try:
            thread.start()
        except BaseException:  # an interrupt may come when the call has begun
            self._take_back(call)
            raise
        return future

    def _take_back(self, call: _Call) -> None:
        with self._changed:
            self._thread, self._serving = None, False
            if call in self._calls:
                self._calls.remove(call)

    def close(self, stop: Callable[[], object] | None = None) -> None:
        """Cancel the calls that have not begun and wait for the one that has; may be called again.

        From that call itself there is no waiting, and none in a forked child. ``stop`` is called again and again
        until the call under way has ended.
        """
        if not self._owner.is_here:
            return
        with self._changed:
            self._closed = True
            left, thread = list(self._calls), self._thread
            self._calls.clear()
            self._changed.notify()
        for future, _, _ in left:
            if future.cancel():
                future.set_running_or_notify_cancel()  # whoever waits for several futures hears of it by this
        if thread is None or thread is threading.current_thread():
            return
        while thread.is_alive():
            if stop is not None:
                stop()
            thread.join(None if stop is None else _LOOK)

    # -- the thread ---------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            call = self._next()
            if call is None:
                return
            self._make(*call)
            del call  # it may be all that keeps an owner alive

    def _next(self) -> _Call | None:
        with self._changed:
            if not self._calls and self._idle and not self._closed:
                self._changed.wait(self._idle)
            if not self._calls:
                self._leave()
            return self._calls.popleft() if self._mine() else None

    def _mine(self) -> bool:
        """Whether this thread is the one that serves, and not one that has been left to itself."""
        return self._serving and self._thread is threading.current_thread()

    def _leave(self) -> None:
        if self._mine():
            self._serving = False

    def _make(self, future: Future[Any], function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = function(*args)
        except BaseException as error:
            self._made()
            future.set_exception(error)
        else:
            self._made()
            future.set_result(result)
        finally:
            del future, function, args  # or an error would keep this frame, and the frame the future

    def _made(self) -> None:
        """Whoever hears of the result finds a thread that waits for calls, or none that serves."""
        with self._changed:
            if not self._calls and not self._idle:
                self._leave()
