"""Runs that were begun and not yet waited for: what ``Context.start`` and ``wait`` are made of where this process computes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future
from typing import Any

from rknnlite.errors import ContextInvalid
from rknnlite.native.forks import Owner, made_before_fork
from rknnlite.spi.one_thread import OneThread

from .running import outcome, wait_done

__all__ = ["InFlight"]

_IDLE = 0.1  # seconds that the thread waits for the next frame
_MOST = 16  # frames under way, each with its inputs; and failures that nobody has asked for


class InFlight:
    """The frames of one context, computed one after another in the order of ``begin``, each under its number.

    What a frame raises is kept for the one ``wait`` that asks for it. The owner makes one call at a time; only
    ``close`` may come from another thread meanwhile.
    """

    def __init__(self) -> None:
        self._thread = OneThread("rknnlite-frames", daemon=False, idle=_IDLE)
        self._frames: dict[int, Future[None]] = {}
        self._owner = Owner()
        self._computing = 0  # the thread that computes a frame at this moment

    def begin(self, number: int, compute: Callable[..., None], *args: Any) -> None:
        """Let a frame be computed; waits for an earlier one where too many are under way.

        Where there is no thread to be had, because the program ends, it is computed here and now.
        """
        self._look_around()
        self._tidy()
        future: Future[None] = Future()
        self._frames[number] = future
        try:
            self._thread.submit(self._compute, compute, args, future=future)
        except RuntimeError:
            future.set_running_or_notify_cancel()
            try:
                self._compute(compute, args)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(None)
        except BaseException:
            del self._frames[number]
            raise

    def wait(self, number: int, timeout_ms: int = 0) -> None:
        """Wait for a frame, and raise what it raised; at once for one that was waited for before.

        Raises:
            RunTimeout: it was not done in ``timeout_ms`` (0: as long as it takes). It goes on.
            ContextInvalid: the context was closed meanwhile, or the call comes from inside the frame.
        """
        self._look_around()
        if number in self._frames:
            wait_done(self._frames[number], number, timeout_ms)
            outcome(self._frames.pop(number), number)

    def finish(self) -> None:
        """Wait until nothing is under way; failures stay for ``wait``."""
        self._look_around()
        futures.wait(list(self._frames.values()))

    def close(self) -> None:
        """Give up what has not begun and wait for the frame under way; may come from any thread."""
        self._refuse_from_inside()
        self._thread.close()

    # -- inside -------------------------------------------------------------------------------------------

    def _compute(self, compute: Callable[..., None], args: tuple[Any, ...]) -> None:
        self._computing = threading.get_ident()
        try:
            compute(*args)
        finally:
            self._computing = 0

    def _look_around(self) -> None:
        """A frame cannot wait for itself, and a forked child not for the frames of its parent."""
        self._refuse_from_inside()
        if self._owner.is_here:
            return
        self._owner, self._computing = Owner(), 0
        for number, future in self._frames.items():
            if not future.done():
                lost: Future[None] = Future()
                self._frames[number] = lost
                lost.set_exception(
                    ContextInvalid(made_before_fork(f"frame {number}", "start one in the child"))
                )

    def _refuse_from_inside(self) -> None:
        if self._computing == threading.get_ident():
            raise ContextInvalid(
                "the call comes from inside a custom operator of a frame of the same context"
            )

    def _tidy(self) -> None:
        """Make room for one more frame; forget those that ended well, and failures that nobody asks for."""
        under_way = [future for future in self._frames.values() if not future.done()]
        if len(under_way) >= _MOST:
            futures.wait(under_way[:1])
        failed = []
        for number, future in list(self._frames.items()):
            if not future.done():
                continue
            if future.cancelled() or future.exception() is None:
                del self._frames[number]
            else:
                failed.append(number)
        for number in failed[:-_MOST]:
            del self._frames[number]
