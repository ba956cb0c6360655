"""``OneThread``: order, ends, interrupts, forks."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, wait
from typing import Any

import pytest

from rknnlite.spi.one_thread import OneThread


@pytest.fixture(params=[0.0, 0.05], ids=["no pause", "a pause"])
def thread(request: pytest.FixtureRequest) -> Iterator[OneThread]:
    made = OneThread("one", daemon=True, idle=request.param)
    yield made
    made.close()
    assert gone()


def running() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "one"]


def gone() -> bool:
    for thread in running():
        thread.join(60)
    return not running()


def test_calls_are_made_in_their_order_by_one_thread(thread: OneThread) -> None:
    made: list[tuple[int, threading.Thread]] = []
    asked = [
        thread.submit(lambda n: made.append((n, threading.current_thread())), number) for number in range(50)
    ]
    assert [future.result(60) for future in asked] == [None] * 50
    assert [number for number, _ in made] == list(range(50))
    assert gone()


def test_a_pause_is_bridged_by_the_same_thread() -> None:
    thread = OneThread("one", daemon=True, idle=5)
    first, second = (thread.submit(threading.get_ident).result(60) for _ in range(2))
    assert first == second
    thread.close()
    assert not running()


def test_without_a_pause_nothing_waits_when_the_result_is_there() -> None:
    thread = OneThread("one", daemon=True)
    for _ in range(200):
        before = thread.submit(threading.current_thread).result(60)
        assert thread.submit(threading.current_thread).result(60) is not before


def test_errors_are_in_the_future_and_the_next_call_is_made(thread: OneThread) -> None:
    failed, well = thread.submit(divmod, 1, 0), thread.submit(divmod, 7, 2)
    with pytest.raises(ZeroDivisionError):
        failed.result(60)
    assert well.result(60) == (3, 1)


def test_close_cancels_what_waits_and_waits_for_what_runs(thread: OneThread) -> None:
    begun, stop = threading.Event(), threading.Event()

    def long() -> int:
        begun.set()
        assert stop.wait(60)
        return 1

    first, second = thread.submit(long), thread.submit(int)
    assert begun.wait(60)
    thread.close(stop.set)
    assert not wait([first, second], 0).not_done
    assert first.result(0) == 1 and second.cancelled() and not running()
    with pytest.raises(CancelledError):
        second.result(0)
    with pytest.raises(RuntimeError, match="one is closed"):
        thread.submit(int)
    thread.close()


def test_closing_from_a_call_does_not_wait_for_itself(thread: OneThread) -> None:
    thread.submit(thread.close).result(60)
    assert gone()


def test_what_asks_is_let_go_without_the_collector(thread: OneThread) -> None:
    class Owner:
        def call(self) -> None:
            raise KeyError("error with frames")

    gc.collect()
    gc.disable()
    try:
        owner = Owner()
        watched = weakref.ref(owner)
        with pytest.raises(KeyError):
            thread.submit(owner.call).result(60)
        del owner
        until = time.monotonic() + 5
        while watched() is not None and time.monotonic() < until:
            time.sleep(0.001)
        assert watched() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("error", [RuntimeError("no thread"), KeyboardInterrupt()])
def test_a_thread_that_does_not_start(
    thread: OneThread, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def refused(_: Any) -> None:
        raise error

    future: Future[int] = Future()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        with pytest.raises(type(error)):
            thread.submit(int, future=future)
    assert future.cancel()
    assert thread.submit(int).result(60) == 0


def test_a_forked_child_has_a_thread_of_its_own(thread: OneThread) -> None:
    stop = threading.Event()
    thread.submit(stop.wait, 5)
    thread.submit(stop.wait, 5)
    child = os.fork()
    if child == 0:
        os._exit(thread.submit(int, "7").result(60))
    stop.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize(("daemon", "printed"), [(False, "made"), (True, "")])
def test_whether_the_interpreter_waits_for_calls(daemon: bool, printed: str) -> None:
    program = (
        "import time; from rknnlite.spi.one_thread import OneThread\n"
        f"OneThread('one', daemon={daemon}).submit(lambda: (time.sleep(0.2), print('made')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == printed
