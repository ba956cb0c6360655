"""A future that a signal handler may wait for, whatever it interrupts in its thread.

``concurrent.futures.Future.result`` waits with a condition whose lock its thread holds before and after the wait. A
handler that runs there and waits for the pool would wait for a worker, and the worker for that lock. So threads wait
here for a lock that nobody takes for longer than a moment, and none is held when it matters.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Optional

__all__ = ["PoolAnswer"]


class PoolAnswer(Future[Any]):
    """The future of one call; ``result``, ``exception``, ``done`` and ``cancelled`` may be asked in signal handlers."""

    def __init__(self) -> None:
        super().__init__()
        self._over = False  # told first: ``concurrent.futures.wait`` wakes others before the gate is open
        self._given = False
        self._gate = threading.Lock()
        self._gate.acquire()
        self.add_done_callback(_open)  # the first one: called when the future's own lock is free again

    def set_result(self, result: Any) -> None:
        """For the worker."""
        self._over = True
        super().set_result(result)

    def set_exception(self, exception: Optional[BaseException]) -> None:
        """For the worker, and for the watch over late calls."""
        self._over = True
        super().set_exception(exception)

    def _wait(self, timeout: Optional[float]) -> None:
        """Raises TimeoutError. Who finds the gate closed passes it on; a handler that interrupts that finds it given."""
        while not self._given:
            if not self._gate.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
                raise FutureTimeout
            self._gate.release()

    def result(self, timeout: Optional[float] = None) -> Any:
        """What the call returned; raises what it raised, TimeoutError after ``timeout`` seconds, CancelledError."""
        self._wait(timeout)
        return super().result()

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """What the call raised, None; TimeoutError and CancelledError as for ``result``."""
        self._wait(timeout)
        return super().exception()

    def done(self) -> bool:
        """Whether there is a result, an exception or a cancellation; at worst ``result`` waits for it a moment more."""
        return self._over

    def cancelled(self) -> bool:
        """Whether the call was cancelled."""
        return self._given and super().cancelled()


def _open(answer: Future[Any]) -> None:
    assert isinstance(answer, PoolAnswer)
    answer._over = answer._given = True
    answer._gate.release()
