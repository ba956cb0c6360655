"""What a signal handler does in the middle of a call: what it asks of the same object is refused or right, the call goes on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest

from rknnlite.errors import ContextInvalid
from rknnlite.spi import Context
from rknnlite.spi.exclusive import OneCaller

__all__ = ["alarmed", "check_interrupts", "handling"]


@contextmanager
def handling(handler: Callable[[], None]) -> Iterator[None]:
    """Inside, SIGUSR1 calls ``handler`` in the main thread."""
    before = signal.signal(signal.SIGUSR1, lambda *_: handler())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def alarmed(work: Callable[[], None], ask: Callable[[], None], wanted: int = 40, attempts: int = 2000) -> int:
    """Do ``work`` again and again while an alarm calls ``ask`` every few milliseconds, wherever that comes.

    Returns how many calls of ``ask`` were right; those refused with ContextInvalid count as well.
    """
    asked = 0

    def handler(*_: Any) -> None:
        nonlocal asked
        signal.setitimer(signal.ITIMER_REAL, 0)  # none in the middle of this one
        with suppress(ContextInvalid):
            ask()
        asked += 1
        signal.setitimer(signal.ITIMER_REAL, 0.003)

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.003)
    try:
        for _ in range(attempts):
            work()
            if asked >= wanted:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return asked


def check_interrupts(context: Context, inputs: Sequence[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt each step of ``context.infer(*inputs)``; the handler is refused, the results are as without it."""
    wanted = context.infer(*inputs, raw=True)  # step by step on every backend
    others = [np.zeros_like(array) for array in inputs]
    refused: list[str] = []

    def handler() -> None:
        for call in (lambda: context.infer(*others), context.run, context.get_outputs, context.close):
            with pytest.raises(ContextInvalid, match="signal handler") as caught:
                call()
            refused.append(str(caught.value))

    begin = OneCaller.begin_step

    def interrupted(self: OneCaller) -> int:
        outer = begin(self)
        if self is context:
            with monkeypatch.context() as quiet:  # the handler's own calls are not interrupted
                quiet.setattr(OneCaller, "begin_step", begin)
                signal.raise_signal(signal.SIGUSR1)
        return outer

    with handling(handler), monkeypatch.context() as patch:
        patch.setattr(OneCaller, "begin_step", interrupted)
        found = context.infer(*inputs, raw=True)
    assert len(refused) >= 3 * 4, "each step was interrupted"
    for results in (found, context.infer(*inputs, raw=True)):
        for one, other in zip(wanted, results):
            np.testing.assert_array_equal(other.data, one.data)
