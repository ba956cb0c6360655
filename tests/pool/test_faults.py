"""Faults in workers, on the test double: no call lost, no deadlock, the pool stays usable."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, wait
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite import errors
from tests.doubles.double import Double, model

from .conftest import LINES, answer, image

MakePool = Callable[..., rknnlite.Pool]


def check(pool: rknnlite.Pool, count: int = 20) -> None:
    """The pool answers every call with its own result."""
    futures = {i: pool.submit(image(i)) for i in range(count)}
    for value, future in futures.items():
        assert (future.result(60)[0] == answer(value)).all()


def test_one_context_per_core_on_duplicates(pool_of: MakePool, double: Double) -> None:
    pool = pool_of()
    assert pool.workers == 3 and double.live()["contexts"] == 3
    assert double.count("rknn_init") == 1 and double.count("rknn_dup_context") == 2
    assert [worker.core_mask for worker in pool.stats().workers] == [1, 2, 4]
    check(pool)


def test_a_dynamic_model_is_opened_once_per_worker(pool_of: MakePool, double: Double) -> None:
    pool = pool_of("shape 1 4 6 3 -> 1 3 4 6", "shape 1 2 6 3 -> 1 3 2 6", workers=2)
    assert double.count("rknn_init") == 2 and double.count("rknn_dup_context") == 0
    check(pool)
    assert pool.submit(image(3)[:, :2]).result()[0].shape == (1, 3, 2, 6)


def test_a_shape_outside_the_list_is_the_callers_fault(pool_of: MakePool) -> None:
    pool = pool_of("shape 1 4 6 3 -> 1 3 4 6", "shape 1 2 6 3 -> 1 3 2 6", workers=2)
    with pytest.raises(errors.InputInvalid, match=r"\[\[1, 3, 6, 3\]\] are not among the model's"):
        pool.submit(image(1)[:, :3]).result(60)
    check(pool)
    assert not any(worker.replaced for worker in pool.stats().workers)


@pytest.mark.parametrize("code", [-1, -2, -3, -7])
def test_an_error_code_reaches_its_call_and_the_worker_gets_a_new_context(
    pool_of: MakePool, double: Double, code: int
) -> None:
    pool = pool_of(workers=2)
    double.fault("rknn_run", code, 5)
    futures = [pool.submit(image(i)) for i in range(20)]
    failed = [future for future in futures if future.exception(10) is not None]
    assert len(failed) == 1
    with pytest.raises(errors.RknnError) as caught:
        failed[0].result()
    assert caught.value.code == code
    for value, future in enumerate(futures):
        assert future is failed[0] or (future.result()[0] == answer(value)).all()
    check(pool)
    assert sum(worker.replaced for worker in pool.stats().workers) == 1
    assert pool.stats().errors == 1


def test_one_worker_alone_is_replaced_by_opening_the_model_again(pool_of: MakePool, double: Double) -> None:
    pool = pool_of(workers=1)
    double.fault("rknn_run", -1)
    with pytest.raises(errors.RknnError):
        pool.submit(image(1)).result(60)
    check(pool)
    assert double.count("rknn_init") == 2


def test_bad_inputs_cost_no_context(pool_of: MakePool, double: Double) -> None:
    pool = pool_of(workers=2)
    with pytest.raises(errors.InputInvalid, match=r"\[1, 4, 6, 3\]"):
        pool.submit(np.zeros((1, 5, 6, 3), np.uint8)).result(60)
    with pytest.raises(TypeError, match="nonsense"):
        pool.submit(image(1), nonsense=3).result(60)
    check(pool)
    assert not any(worker.replaced for worker in pool.stats().workers)


def test_an_exception_in_post_processing_belongs_to_its_call(pool_of: MakePool) -> None:
    def post(outputs: list[np.ndarray]) -> float:
        value = float(outputs[0].max())
        if value == answer(7):
            raise KeyError("no boxes")
        return value

    pool = pool_of(workers=2, post=post)
    futures = [pool.submit(image(i)) for i in range(12)]
    for value, future in enumerate(futures):
        if value == 7:
            with pytest.raises(KeyError, match="no boxes"):
                future.result(60)
        else:
            assert future.result(60) == answer(value)
    assert not any(worker.replaced for worker in pool.stats().workers)


def test_a_call_that_hangs_ends_at_its_time_limit(pool_of: MakePool, double: Double) -> None:
    pool = pool_of(workers=2, timeout=0.5)
    check(pool)
    double.latency(1_000_000)
    slow = pool.submit(image(1))
    with pytest.raises(errors.RunTimeout, match=r"within 0\.5 s"):
        slow.result(60)
    double.latency(0)
    check(pool)
    stats = pool.stats()
    assert sum(worker.replaced for worker in stats.workers) == 1 and stats.calls == 41


def test_all_workers_hang_and_the_queue_is_answered_nevertheless(pool_of: MakePool, double: Double) -> None:
    pool = pool_of(workers=2, timeout=0.5)
    double.latency(1_000_000)
    hanging = [pool.submit(image(1)), pool.submit(image(2))]
    wait(hanging, 10)
    double.latency(0)
    check(pool)
    assert all(isinstance(future.exception(), errors.RunTimeout) for future in hanging)


def test_a_pool_without_workers_says_so_and_loses_no_call(pool_of: MakePool, double: Double) -> None:
    pool = pool_of(workers=1, queue=50)
    double.latency(30_000)
    double.fault("rknn_run", -1)
    double.fault("rknn_init", -3)
    futures = [pool.submit(image(i)) for i in range(5)]
    codes = [future.exception(10).code for future in futures]  # type: ignore[union-attr]
    assert codes == [-1, -3, -3, -3, -3]
    with pytest.raises(errors.ContextInvalid, match="no worker of this pool is left"):
        pool.submit(image(1))


def test_memory_says_how_many_fit(pool_of: MakePool, double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    class Free:
        available = 3 * 4096 + 5

    monkeypatch.setattr(psutil, "virtual_memory", lambda: Free)
    with pytest.raises(errors.OutOfMemory, match=r"4 fit; use workers=4") as caught:
        pool_of(workers=9)
    assert caught.value.code == -4
    pool_of(workers=4)


def test_memory_that_runs_out_on_the_way(pool_of: MakePool, double: Double) -> None:
    double.fault("rknn_dup_context", -4, 2)
    with pytest.raises(errors.OutOfMemory, match=r"2 of 5 workers fit into memory; use workers=2"):
        pool_of(workers=5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"workers": 0}, "workers must be above 0"),
        ({"queue": -1}, "queue must be above 0"),
        ({"timeout": 0}, "timeout must be above 0"),
        ({"cores": "most"}, "'most'"),
        ({"cores": 5}, "0x5 is not legal on rk3588"),
        ({"cores": (1, 2), "workers": 3}, "2 core masks were given for 3 workers"),
        ({"async_mode": True}, "async_mode"),
        ({"core_mask": 1}, "cores="),
    ],
)
def test_arguments_that_make_no_sense(pool_of: MakePool, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(errors.ParamInvalid, match=words):
        pool_of(**arguments)


@pytest.mark.parametrize(
    ("cores", "masks"),
    [("all", [0xFFFF] * 2), ("auto", [None] * 2), (7, [7, 7]), ((4, 3), [4, 3]), ("spread", [1, 2])],
)
def test_masks(pool_of: MakePool, double: Double, cores: Any, masks: list[int | None]) -> None:
    pool = pool_of(workers=2, cores=cores)
    assert [worker.core_mask for worker in pool.stats().workers] == masks
    assert double.count("rknn_set_core_mask") == sum(mask is not None for mask in masks)


def test_a_chip_with_one_core_takes_no_mask(pool_of: MakePool, double: Double) -> None:
    assert pool_of("platform rk3566", soc="rk3566").size == 1
    check(pool_of("platform rk3566", soc="rk3566", workers=3))
    assert double.count("rknn_set_core_mask") == 0
    with pytest.raises(errors.TargetPlatformUnmatch):
        pool_of("platform rk3566", soc="rk3566", cores=1)


# -- many callers ---------------------------------------------------------------------------------------------


def test_results_reach_their_own_callers(pool_of: MakePool) -> None:
    pool = pool_of()
    wrong: list[int] = []

    def caller(number: int) -> None:
        for step in range(40):
            value = (number * 40 + step) % 100
            if not (pool.submit(image(value)).result(30)[0] == answer(value)).all():
                wrong.append(value)

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and pool.stats().calls == 640


def test_map_keeps_the_order_and_looks_ahead_a_little(pool_of: MakePool) -> None:
    pool = pool_of()
    taken = []

    def endless() -> Any:
        value = 0
        while True:
            taken.append(value)
            yield image(value % 50)
            value += 1

    results = pool.map(endless())
    for value in range(30):
        assert (next(results)[0] == answer(value % 50)).all()
        assert len(taken) <= value + 6
    results.close()
    assert [float(r[0].max()) for r in pool.map(map(image, range(9)))] == [answer(v) for v in range(9)]


def test_map_raises_in_the_place_of_the_call(pool_of: MakePool) -> None:
    pool = pool_of(workers=2)
    items = [image(1), image(2), np.zeros((3,), np.float32), image(4)]
    results = pool.map(items)
    assert float(next(results)[0].max()) == answer(1)
    assert float(next(results)[0].max()) == answer(2)
    with pytest.raises(errors.InputInvalid):
        next(results)
    with pytest.raises(errors.ParamInvalid, match="look_ahead"):
        pool.map(items, look_ahead=0)


def test_a_full_queue_holds_the_submitter_back(pool_of: MakePool, double: Double) -> None:
    pool = pool_of(workers=1, queue=2)
    double.latency(20_000)
    futures = [pool.submit(image(i)) for i in range(10)]
    assert sum(not future.done() for future in futures) <= 3
    for value, future in enumerate(futures):
        assert (future.result(60)[0] == answer(value)).all()


def test_a_callback_may_submit_although_the_queue_is_full(pool_of: MakePool) -> None:
    pool = pool_of(workers=1, queue=1)
    more: list[Any] = []
    first = pool.submit(image(1))
    first.add_done_callback(lambda _: more.extend(pool.submit(image(i)) for i in range(5)))
    second = pool.submit(image(2))
    assert second.result(60) is not None
    assert [float(f.result(60)[0].max()) for f in more] == [answer(i) for i in range(5)]


def test_a_callback_of_a_call_given_up_may_submit_although_the_queue_is_full(pool_of: MakePool) -> None:
    """It runs in the thread that watches the time: if that waited, a successor that hangs would never be found out."""
    pool = pool_of(workers=1, queue=1, timeout=0.1)
    more: list[Any] = []
    submitted, gate = threading.Event(), threading.Event()

    def submit_more(_: Any) -> None:
        more.extend(pool.call(hang) for _ in range(4))
        submitted.set()

    def hang(_: Any) -> None:
        gate.wait()

    try:
        first = pool.call(hang)
        first.add_done_callback(submit_more)
        assert submitted.wait(60), "the watch waits for itself"
        results = [first, *more]
        assert [type(future.exception(60)) for future in results] == [errors.RunTimeout] * 5
    finally:
        gate.set()


def test_coroutines(pool_of: MakePool) -> None:
    pool = pool_of(queue=1)

    async def many() -> list[Any]:
        return await asyncio.gather(*(pool.infer(image(i)) for i in range(30)))

    for value, outputs in enumerate(asyncio.run(many())):
        assert (outputs[0] == answer(value)).all()


def test_a_cancelled_call_is_passed_over(pool_of: MakePool, double: Double) -> None:
    pool = pool_of(workers=1)
    double.latency(20_000)
    futures = [pool.submit(image(i)) for i in range(4)]
    assert futures[2].cancel()
    assert (futures[3].result(60)[0] == answer(3)).all()
    assert pool.stats().calls == 3


def test_inputs_changed_on_the_way(
    pool_of: MakePool, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RKNNLITE_DEBUG", "1")
    pool = pool_of(workers=1)
    double.latency(20_000)
    kept, changed = image(1), image(2)
    futures = [pool.submit(kept), pool.submit(changed), pool.submit(kept)]
    changed[...] = 9
    assert (futures[0].result(60)[0] == answer(1)).all() and (futures[2].result(60)[0] == answer(1)).all()
    with pytest.raises(errors.InputInvalid, match="input 0 was changed while"):
        futures[1].result(60)


# -- the end --------------------------------------------------------------------------------------------------


def test_closing_answers_what_is_queued(pool_of: MakePool, double: Double) -> None:
    pool = pool_of(workers=2, queue=30)
    double.latency(5_000)
    futures = [pool.submit(image(i)) for i in range(20)]
    pool.close()
    assert all(future.done() for future in futures) and double.live() == {}
    assert [float(future.result()[0].max()) for future in futures] == [answer(i) for i in range(20)]
    pool.close()
    with pytest.raises(errors.ContextInvalid, match="this pool is closed"):
        pool.submit(image(1))


def test_closing_may_cancel_what_is_queued(pool_of: MakePool, double: Double) -> None:
    pool = pool_of(workers=1, queue=30)
    double.latency(20_000)
    futures = [pool.submit(image(i)) for i in range(10)]
    pool.close(cancel=True)
    assert all(future.done() for future in futures)
    assert sum(future.cancelled() for future in futures) >= 8
    with pytest.raises(CancelledError):
        futures[-1].result()


def test_closing_does_not_wait_for_a_fresh_context(
    pool_of: MakePool, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rknnlite.pool.worker_group._PATIENCE", 120.0)
    for _ in range(5):
        pool = pool_of(workers=2)
        double.fault("rknn_run", -1)
        future = pool.submit(image(1))
        closing = threading.Thread(target=pool.close)
        closing.start()
        closing.join(60)
        assert not closing.is_alive(), "closing waits as long as a worker would"
        assert isinstance(future.exception(), errors.RknnError)


def test_a_submitter_that_waits_hears_of_the_end(pool_of: MakePool, double: Double) -> None:
    pool = pool_of(workers=1, queue=1)
    double.latency(50_000)
    caught: list[BaseException] = []

    def keep_submitting() -> None:
        try:
            while True:
                pool.submit(image(1))
        except errors.ContextInvalid as error:
            caught.append(error)

    thread = threading.Thread(target=keep_submitting)
    thread.start()
    pool.submit(image(2)).result(60)
    pool.close(cancel=True)
    thread.join(60)
    assert not thread.is_alive() and "closed" in str(caught[0])


def test_a_with_block_cancels_after_an_error(pool_of: MakePool, double: Double) -> None:
    double.latency(20_000)
    with pytest.raises(ZeroDivisionError), pool_of(workers=1, queue=20) as pool:
        futures = [pool.submit(image(i)) for i in range(10)]
        raise ZeroDivisionError
    assert futures[-1].cancelled()


def test_a_forgotten_pool_closes_itself(double: Double) -> None:
    pool = rknnlite.Pool(model(*LINES), workers=2)
    seen = weakref.ref(pool)
    future = pool.submit(image(4))
    assert (future.result(60)[0] == answer(4)).all()
    del pool, future
    gc.collect()
    assert seen() is None and double.live() == {}


def test_a_program_may_end_without_closing(double: Double) -> None:
    program = (
        "import numpy as np, rknnlite\n"
        "from tests.pool.conftest import LINES, image\n"
        "from tests.doubles.double import model\n"
        "pool = rknnlite.Pool(model(*LINES, 'latency 20000'), workers=3, timeout=5)\n"
        "futures = [pool.submit(image(i)) for i in range(12)]\n"
        "print(futures[0].result()[0].max())\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=dict(os.environ)
    )
    said = [line for line in result.stderr.splitlines() if not line.startswith("W RKNN")]
    assert (result.returncode, result.stdout, said) == (0, "1.0\n", [])


def test_a_pool_does_not_go_over_a_fork(pool_of: MakePool) -> None:
    pool = pool_of(workers=2)
    child = os.fork()
    if child == 0:
        try:
            pool.submit(image(1))
        except errors.ContextInvalid as error:
            os._exit(0 if "fork" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    check(pool)


def test_workers_close_their_contexts_in_any_order(double: Double) -> None:
    """Duplicates refer to the first context; the double ends the process when that goes before them."""
    for _ in range(60):
        rknnlite.Pool(model(*LINES), workers=3).close()
        assert double.live() == {}


def test_async_calls_on_the_library(double: Double) -> None:
    double.latency(2_000)
    with rknnlite.open(model(*LINES)) as context:
        futures = [context.infer_async(image(value)) for value in range(6)]
        assert [float(future.result(60)[0].max()) for future in futures] == [answer(v) for v in range(6)]


def test_the_table(pool_of: MakePool) -> None:
    pool = pool_of(workers=2)
    check(pool)
    stats = pool.stats()
    lines = str(stats).splitlines()
    assert lines[0].split() == ["worker", "cores", "calls", "errors", "replaced", "busy", "share"]
    assert len(lines) == 4 and "20 calls in" in lines[-1] and 0 < stats.p50 <= stats.p95
    assert repr(pool) == "<Pool of 2 on rknnrt (rk3588)>"
