"""What a signal handler does in the middle of a frame: whatever it asks of the same context is refused, and the frame goes on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from rknnlite.errors import ContextInvalid
from rknnlite.spi import Context
from rknnlite.spi.exclusive import OneCaller

__all__ = ["check_interrupts", "handling"]


@contextmanager
def handling(handler: Callable[[], None]) -> Iterator[None]:
    """Inside, SIGUSR1 calls ``handler`` in the main thread."""
    before = signal.signal(signal.SIGUSR1, lambda *_: handler())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


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
