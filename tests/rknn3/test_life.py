"""Faces and sessions come and go: memory stays flat, no thread stays behind, nothing is called after release."""

from __future__ import annotations

import contextlib
import gc
import random
import threading
import time
import weakref
from typing import Any

import numpy as np
import psutil
import pytest
from rknnlite_llm import Package

from rknn3lite.api import RKNN3Lite
from rknnlite.errors import RknnError
from tests.rknn3.conftest import ARGS, Talk
from tests.support.corpus import genuine


def one_life(package: Package, rng: random.Random, late: list[Any]) -> None:
    talk, released = Talk(package), threading.Event()

    def result(userdata: Any, result_ptr: Any, state: int) -> int:
        if released.is_set():
            late.append(state)
        return 0

    rknn = RKNN3Lite(llm_mode=True)
    rknn.rknn_log.logger.setLevel(100)
    rknn.load_rknn(package.model, package.weight)
    args = {**ARGS, "max_new_tokens": 10**9}
    assert rknn.init_runtime("rk1820", 0xFF, [args], talk.callback(result=result)) == 0
    assert rknn.session_run_async(tokens=[1, 2, 3])[0] == 0
    time.sleep(rng.random() * 0.006)
    if rng.random() < 0.5:
        assert rknn.session_stop() == 0
        if rng.random() < 0.5:
            rknn.session_stop()
            assert rknn.session_run_async(tokens=[1, 2], max_new_tokens=1)[0] == 0
    rknn.release()
    released.set()


@pytest.mark.slow
def test_five_hundred_lives_leave_nothing_behind(package: Package) -> None:
    rng, late = random.Random(0), []
    threads, process = threading.active_count(), psutil.Process()
    for _ in range(100):
        one_life(package, rng, late)
    files, grown = process.num_fds(), []
    for _ in range(3):  # what lives leave grows every time, what others in this process leave does not
        before = process.memory_info().rss
        for _ in range(400):
            one_life(package, rng, late)
        grown.append(process.memory_info().rss - before)
        if grown[-1] < 6e6:
            break
    assert grown[-1] < 6e6, grown
    assert process.num_fds() <= files + 1
    assert threading.active_count() <= threads
    assert not late


def test_a_few_lives(package: Package) -> None:
    rng, late = random.Random(1), []
    threads = threading.active_count()
    for _ in range(12):
        one_life(package, rng, late)
    assert threading.active_count() <= threads and not late


@pytest.mark.usefixtures("extras")
def test_no_reference_cycles(package: Package) -> None:
    """What a face holds goes with it, without the help of the collector: a run leaves nothing behind."""
    gc.collect()
    gc.disable()
    try:
        talk = Talk(package)
        rknn = RKNN3Lite(llm_mode=True)
        rknn.load_rknn(package.model, package.weight)
        rknn.init_runtime("rk1820", 0xFF, [ARGS], talk.callback())
        assert rknn.session_run(prompt="hello")[0] == 0
        assert rknn.session_run(prompt="a", tokens=[1]) == (-1, [])
        watched = [weakref.ref(rknn), weakref.ref(rknn.rknn_runtime), weakref.ref(rknn.llm)]
        rknn.release()
        del rknn
        assert [ref() for ref in watched] == [None, None, None]
    finally:
        gc.enable()


def _async(rknn: RKNN3Lite, **turn: Any) -> None:
    rknn.session_run_async(**turn)
    rknn.session_wait()


FAILING = {
    "run": lambda rknn, **turn: rknn.session_run(**turn),
    "async run": _async,
    "stream": lambda rknn, **turn: list(rknn.stream(**turn)),
}


@pytest.mark.parametrize("way", FAILING)
@pytest.mark.parametrize("turn", [{"tokens": [1]}, {"tokens": [-1]}], ids=["a callback raises", "bad input"])
def test_errors_leave_no_reference_cycles(package: Package, way: str, turn: dict[str, Any]) -> None:
    """An exception holds frames and frames hold a model: nothing of it may hold the exception."""

    def raising(*_: Any) -> int:
        raise ZeroDivisionError

    gc.collect()
    gc.disable()
    try:
        rknn = RKNN3Lite(llm_mode=True)
        rknn.load_rknn(package.model, package.weight)
        rknn.init_runtime("rk1820", 0xFF, [ARGS], Talk(package).callback(result=raising))
        watched = [weakref.ref(rknn), weakref.ref(rknn.llm), weakref.ref(rknn.rknn_runtime.llm_context)]
        with contextlib.suppress(ZeroDivisionError, RknnError):
            FAILING[way](rknn, **turn)
        del rknn
        for thread in threading.enumerate():  # one that has told the end of a run may still be on its way out
            if thread.name in ("rknnlite-llm", "rknn3lite-runs"):
                thread.join()
        assert [ref() for ref in watched] == [None, None, None]
    finally:
        gc.enable()


def test_repeated_runs_do_not_grow(package: Package) -> None:
    talk = Talk(package)
    rknn = RKNN3Lite(llm_mode=True)
    rknn.load_rknn(package.model, package.weight)
    rknn.init_runtime("rk1820", 0xFF, [ARGS], talk.callback(result=lambda *_: 0, tokenizer=None))
    process = psutil.Process()

    def runs(count: int) -> int:
        for _ in range(count):
            rknn.session_run(tokens=[1, 2, 3], max_new_tokens=1)
            rknn.session_run(tokens=[])
        return process.memory_info().rss

    rknn.rknn_log.logger.setLevel(100)
    before = runs(100)
    assert runs(300) - before < 3e6
    rknn.release()


def test_repeated_inference_does_not_grow() -> None:
    rknn = RKNN3Lite()
    rknn.load_rknn(genuine("conv_relu.rk3588.i8"), None)
    rknn.init_runtime("rk1820", 1)
    attr = rknn.get_inputs_tensor_attr()[0]
    image = np.zeros(tuple(attr.shape[: attr.n_dims]), np.uint8)
    process = psutil.Process()

    def runs(count: int) -> int:
        for _ in range(count):
            rknn.inference([image])
            rknn.get_outputs_tensor_attr()
        return process.memory_info().rss

    before = runs(100)
    assert runs(300) - before < 3e6
    rknn.release()
