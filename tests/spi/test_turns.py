"""``OneCaller.take_in_turn``: a thread waits while others get frames done, and no longer."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from rknnlite.errors import ContextInvalid
from rknnlite.spi.exclusive import FREE, OneCaller


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


def test_a_step_of_a_frame_is_for_the_thread_of_the_frame_alone() -> None:
    caller, refused = Caller(), []

    def other() -> None:
        try:
            caller.end_step(caller.begin_step())
        except ContextInvalid as error:
            refused.append(str(error))

    def elsewhere() -> int:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(20)
        return len(refused)

    caller.take()
    caller._work = threading.get_ident()  # as ``Context.infer`` between two steps
    assert elsewhere() == 1
    outer = caller.begin_step()
    with pytest.raises(ContextInvalid, match="in the middle of a call"):
        caller.begin_step()
    assert elsewhere() == 2
    caller.end_step(outer)
    caller._work = FREE
    assert elsewhere() == 3, "the frame still holds the context"
    caller.let_go()
    assert elsewhere() == 3, "each take has been let go"
