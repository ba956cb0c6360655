"""``OneCaller.take_in_turn``: a thread waits while others get frames done, and no longer."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from rknnlite.errors import ContextInvalid
from rknnlite.spi.exclusive import OneCaller


class Caller(OneCaller):
    """Holds nothing."""

    def _release(self) -> None:
        """Nothing to give back."""


@pytest.fixture
def held() -> Iterator[tuple[Caller, threading.Event]]:
    """A caller that another thread holds until the event is set."""
    caller, taken, done = Caller(), threading.Event(), threading.Event()

    def hold() -> None:
        with caller.exclusive():
            taken.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(20)
    yield caller, done
    done.set()
    thread.join(20)


def test_it_waits_while_frames_get_done(held: tuple[Caller, threading.Event]) -> None:
    caller, done = held
    count = itertools.count()

    def frames() -> int:
        number = next(count)
        if number == 5:
            done.set()
        return number

    caller.take_in_turn(frames, 0.01)
    caller.let_go()
    assert next(count) >= 6


def test_it_is_refused_when_none_is(held: tuple[Caller, threading.Event]) -> None:
    with pytest.raises(ContextInvalid, match="in use by another thread"):
        held[0].take_in_turn(lambda: 3, 0.01)


def test_what_is_closed_meanwhile_says_so(held: tuple[Caller, threading.Event]) -> None:
    caller, done = held
    done.set()
    caller.close()
    for _ in range(2):  # and holds nothing afterwards
        with pytest.raises(ContextInvalid, match="closed"):
            caller.take_in_turn(lambda: 0, 1.0)
