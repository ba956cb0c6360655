"""Handles and lifetimes: every native object goes exactly once, in order, whatever happens."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite.errors import ContextInvalid
from rknnlite.spi import Input
from tests.doubles.rknn1.double1 import Double1, model

from .conftest import picture, scores

Start = Callable[..., Any]


def test_close_may_be_repeated(start: Start, double: Double1) -> None:
    context = start()
    context.close()
    context.close()
    assert context.closed and double.count("rknn_destroy") == 1


def test_nothing_reaches_c_after_close(start: Start, double: Double1) -> None:
    context = start(options={"collect_perf": True, "precompile": True})
    attr, memory = context.native_inputs[0], context.create_mem(72)
    context.close()
    asked = [double.count(name) for name in ("rknn_query", "rknn_run", "rknn_inputs_set", "rknn_outputs_get")]
    for use in (
        lambda: context.infer(picture()),
        lambda: context.set_inputs([Input(0, picture())]),
        context.run,
        context.get_outputs,
        lambda: context.get_outputs_into([np.empty((1, 72), np.float32)]),
        context.start,
        lambda: context.wait(1),
        context.map_inputs,
        context.map_outputs,
        lambda: context.create_mem(16),
        lambda: context.bind(attr, memory),
        lambda: context.sync(memory, "both"),
        lambda: context.versions,
        lambda: context.last_run_us,
        context.perf_table,
        context.precompiled,
        context.dup,
        lambda: memory.ndarray,
    ):
        with pytest.raises(ContextInvalid):
            use()
    after = [double.count(name) for name in ("rknn_query", "rknn_run", "rknn_inputs_set", "rknn_outputs_get")]
    assert after == asked


def test_memory_goes_before_its_context(start: Start, double: Double1) -> None:
    """The double counts a context that goes while something in it is alive."""
    context = start()
    inputs, made = context.map_inputs(), context.create_mem(64)
    context.close()
    assert double.live() == {}
    assert inputs[0].closed and made.closed


def test_a_view_keeps_memory_and_context_alive(start: Start, double: Double1) -> None:
    context = start()
    view, other = context.map_inputs()[0].ndarray, context.create_mem(64).ndarray
    context.close()
    view[:] = 1
    other[:] = 2
    assert double.live() == {"contexts": 1, "mems": 1, "maps": 1}
    del view, other
    assert double.live() == {}


def test_dropped_without_close(double: Double1) -> None:
    context = rknnlite.open(model())
    context.infer(picture())
    context.map_inputs()
    del context
    assert double.live() == {}


def test_opening_and_closing(double: Double1) -> None:
    """200 times, with the garbage collector off: nothing is left, nothing grows."""

    def once() -> None:
        with rknnlite.open(model()) as context:
            context.infer(picture())
            context.map_outputs()
            context.create_mem(100).ndarray.fill(1)

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024

    for _ in range(20):
        once()
    gc.collect()
    gc.disable()
    try:
        before = resident()
        for _ in range(200):
            once()
        assert resident() - before <= 256
        assert gc.collect() == 0, "reference cycles"
    finally:
        gc.enable()
    assert double.live() == {} and double.count("rknn_destroy") == 220


def test_a_thread_each(double: Double1) -> None:
    failed: list[object] = []

    def work(seed: int) -> None:
        try:
            with rknnlite.open(model(us=200)) as context:
                for number in range(20):
                    image = picture(seed * 100 + number)
                    np.testing.assert_array_equal(context.infer(image)[0], scores(image))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_two_threads_in_one_context(start: Start) -> None:
    """The second one is refused; the double counts two calls at once as a race."""
    context = start(us=200_000)
    context.set_inputs([Input(0, picture())])
    context.run()
    inside = threading.Thread(target=context.get_outputs)
    inside.start()
    refused = 0
    while inside.is_alive():
        try:
            _ = context.versions
        except ContextInvalid as error:
            assert "in use by another thread" in str(error)
            refused += 1
    inside.join()
    assert refused


def test_close_waits_for_a_run_in_another_thread(start: Start, double: Double1) -> None:
    context, results = start(us=100_000), []
    future = context.infer_async(picture())
    while not double.count("rknn_run"):
        pass
    context.close()
    results = future.result()
    np.testing.assert_array_equal(results[0], scores(picture()))


def test_fork(start: Start, double: Double1) -> None:
    """The child owns nothing of the parent's, and may open its own."""
    context = start()
    memory = context.create_mem(16)
    (mapped,) = context.map_outputs()
    child = os.fork()
    if not child:
        status = 1
        try:
            for use in (context.run, lambda: memory.ndarray, lambda: mapped.ndarray):
                with pytest.raises(ContextInvalid):
                    use()
            context.close()
            gone = sum(map(double.count, ("rknn_destroy", "rknn_destroy_mem", "rknn_outputs_unmap")))
            with rknnlite.open(model()) as own:
                np.testing.assert_array_equal(own.infer(picture())[0], scores(picture()))
            status = 0 if gone == 0 else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    memory.ndarray[:] = 1
    context.set_inputs([Input(0, picture())])
    context.run()
