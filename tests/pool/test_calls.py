"""Functions that have a worker's context to themselves: bound memory in a pool, figures, errors."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite import errors
from rknnlite.pool.worker_group import WorkerGroup
from rknnlite.spi import Context
from tests.doubles.double import Double
from tests.support.interrupts import alarmed, handling

from .conftest import answer, image

MakePool = Callable[..., rknnlite.Pool]


class Bound:
    """Memory bound once per context; a call fills it, runs and reads."""

    def __init__(self) -> None:
        self.views: dict[Context, tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, context: Context, value: int) -> float:
        if context not in self.views:
            self.views[context] = self._bind(context)
        frame, scores = self.views[context]
        frame[...] = value
        context.run()
        return float(scores.max())

    def _bind(self, context: Context) -> tuple[np.ndarray, np.ndarray]:
        (native,), (out,) = context.native_inputs, context.native_outputs
        frame, scores = (context.create_mem(attr.size_with_stride) for attr in (native, out))
        context.bind(native, frame)
        context.bind(out, scores)
        return frame.ndarray.view(np.int8), scores.ndarray.view(out.dtype.numpy)


def test_memory_bound_in_every_worker(pool_of: MakePool, double: Double) -> None:
    pool, bound = pool_of(), Bound()
    assert list(pool.map(range(50), call=bound)) == [answer(value) for value in range(50)]
    assert len(bound.views) <= 3 and double.count("rknn_inputs_set") == 0
    assert pool.stats().calls == 50
    bound.views.clear()  # views keep the library's memory


def test_a_function_gets_its_arguments_and_gives_its_result(pool_of: MakePool) -> None:
    pool = pool_of(workers=1, post=lambda outputs: "for infer only")
    found = pool.call(lambda context, *words, end: (context.soc.name, *words, end), "a", "b", end="c")
    assert found.result(60) == ("rk3588", "a", "b", "c")
    assert pool.submit(image(1)).result(60) == "for infer only"


def test_an_error_of_the_function_is_the_callers(pool_of: MakePool) -> None:
    def fails(context: Context) -> None:
        raise ZeroDivisionError("mine")

    pool = pool_of(workers=1)
    with pytest.raises(ZeroDivisionError, match="mine"):
        pool.call(fails).result(60)
    assert (pool.submit(image(1)).result(60)[0] == answer(1)).all()
    assert not pool.stats().workers[0].replaced


def test_an_error_of_the_runtime_inside_it_costs_the_context(pool_of: MakePool, double: Double) -> None:
    pool = pool_of(workers=1)
    double.fault("rknn_run", -1)
    with pytest.raises(errors.RknnError):
        pool.call(lambda context: context.infer(image(1))).result(60)
    assert (pool.submit(image(2)).result(60)[0] == answer(2)).all()
    assert pool.stats().workers[0].replaced == 1


def test_nobody_else_uses_the_context_meanwhile(pool_of: MakePool) -> None:
    pool = pool_of(workers=1)
    entered, leave = threading.Event(), threading.Event()

    def hold(context: Context) -> Any:
        entered.set()
        leave.wait(60)
        return context.infer(image(5))[0]

    held, other = pool.call(hold), pool.submit(image(6))
    assert entered.wait(60) and not other.done()
    leave.set()
    assert (held.result(60) == answer(5)).all() and (other.result(60)[0] == answer(6)).all()


def test_a_call_wakes_a_worker_and_not_the_watch(pool_of: MakePool, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    idle = WorkerGroup._idle_for_good
    monkeypatch.setattr(WorkerGroup, "_idle_for_good", lambda group: looks.append(1) or idle(group))
    pool = pool_of(workers=2, timeout=60)
    for value in range(50):
        assert (pool.submit(image(value)).result(60)[0] == answer(value)).all()
    assert len(looks) < 10


def test_a_signal_handler_that_interrupts_a_call_is_refused(
    pool_of: Callable[..., rknnlite.Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of the queue's own work; elsewhere it is a call like others."""
    pool = pool_of(workers=1)
    jobs, refused = pool._group._jobs, []

    class Interrupted(type(jobs)):  # type: ignore[misc]
        def append(self, job: object) -> None:
            with pytest.raises(errors.ContextInvalid, match="signal handler") as caught:
                pool.submit(image(3))
            refused.append(caught.value)
            super().append(job)

    monkeypatch.setattr(pool._group, "_jobs", Interrupted(jobs))
    assert pool.submit(image(2)).result()[0][0, 0, 0, 0] == answer(2)
    assert len(refused) == 1


def test_closing_there_is_refused_too(pool_of: MakePool) -> None:
    pool = pool_of(workers=1)
    with pool._group._lock, pytest.raises(errors.ContextInvalid, match="signal handler"):
        pool.close()
    assert pool.submit(image(2)).result(60)[0][0, 0, 0, 0] == answer(2)


def test_whoever_holds_a_future_stops_nobody_else(pool_of: MakePool) -> None:
    """A handler may have interrupted its thread in ``cancel`` of a call that a worker wants to begin."""
    pool = pool_of(workers=1)
    entered, leave = threading.Event(), threading.Event()
    first = pool.call(lambda context: entered.set() or leave.wait(60))
    assert entered.wait(60)
    held = pool.submit(image(1))
    with held._condition:
        leave.set()
        assert first.result(60) is True  # the worker goes on to the call that is held
        other = pool.submit(image(2))
        assert pool.stats().calls == 1
    assert held.result(60)[0][0, 0, 0, 0] == answer(1) and other.result(60)[0][0, 0, 0, 0] == answer(2)


def test_a_thread_that_waits_holds_nothing(pool_of: MakePool) -> None:
    """Its handler may ask for more and wait for that, though the only worker must answer the first call before."""
    pool = pool_of(workers=1, queue=1)
    leave, found = threading.Event(), []

    def handler() -> None:
        leave.set()
        found.append(pool.submit(image(3)).result(60)[0][0, 0, 0, 0])

    first = pool.call(lambda context: leave.wait(60))
    waits = type(first)._wait

    def interrupted(self: object, timeout: float | None) -> None:
        if self is first:
            signal.raise_signal(signal.SIGUSR1)
        waits(first, timeout)

    with handling(handler), pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(first), "_wait", interrupted)
        assert first.result(60) is True
    assert found == [answer(3)]


def test_an_alarm_that_asks_for_frames_neither_hangs_nor_changes_results(pool_of: MakePool) -> None:
    pool = pool_of(workers=2, queue=1)

    def ask() -> None:
        assert pool.submit(image(5)).result(60)[0][0, 0, 0, 0] == answer(5)

    def work() -> None:
        assert pool.submit(image(2)).result(60)[0][0, 0, 0, 0] == answer(2)

    assert alarmed(work, ask, wanted=100, attempts=100_000) >= 10


def test_futures_behave_as_those_of_the_standard_library(pool_of: MakePool) -> None:
    pool = pool_of(workers=1)
    leave = threading.Event()
    first, second, third = (pool.call(lambda context: leave.wait(60)) for _ in range(3))
    with pytest.raises(futures.TimeoutError):
        first.result(0.01)
    with pytest.raises(futures.TimeoutError):
        first.exception(0)
    assert second.cancel() and second.cancelled() and second.done() and not first.done()
    with pytest.raises(futures.CancelledError):
        second.result()
    leave.set()
    assert futures.wait([first, third], 10).not_done == set() and set(
        futures.as_completed([first, third], 10)
    )
    assert first.exception() is None and third.result() is True and not third.cancel()
    for value in range(200):
        one = pool.submit(image(value % 50))
        assert one in futures.wait([one], 10).done and one.done()


def test_the_former_name_of_workers_is_taken(pool_of: MakePool) -> None:
    pool = pool_of(size=2)
    assert pool.workers == pool.size == 2
