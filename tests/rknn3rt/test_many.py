"""Many times the same: nothing grows, no thread stays, no callback comes after close."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
import pytest
from rknnlite_llm import open_llm

import rknnlite
from rknnlite.spi import Input
from rknnlite.spi.llm import CallState, InferParams, PromptInput, TokenInput
from tests.doubles.rknn3.double3 import Double3, model
from tests.support.brothers import slow_unless

from .conftest import CNN, LLM, callbacks

IMAGE = np.zeros((1, 4, 6, 3), np.uint8)


pytestmark = pytest.mark.parametrize(
    "version", slow_unless(lambda version: version == "1.0.5", ["1.0.0", "1.0.5"])
)
"""What a runtime's revision changes is not what could grow."""


def growth(work: Callable[[], Any], count: int) -> int:
    """Bytes by which ``count`` rounds make the process grow, collector off; the least of several windows.

    A leak grows in every window, caches and the allocator only in some.
    """
    process = psutil.Process()
    windows = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(4):
            before = process.memory_info().rss
            for _ in range(count // 4):
                work()
            windows.append(process.memory_info().rss - before)
    finally:
        gc.enable()
    return 4 * min(windows[1:])


def test_runs_do_not_grow(start: Callable[..., Any]) -> None:
    context = start(*CNN)
    assert growth(lambda: context.infer(IMAGE), 4000) < 256 * 1024


@pytest.mark.slow
def test_opening_and_closing_does_not_grow(double: Double3) -> None:
    content = model(*CNN)

    def once() -> None:
        with rknnlite.open(content) as context:
            context.set_inputs([Input(0, IMAGE)])
            context.run()

    assert growth(once, 2000) < 512 * 1024


def test_memory_does_not_grow(start: Callable[..., Any]) -> None:
    context = start(*CNN)

    def once() -> None:
        mem = context.create_mem(100_000)
        mem.ndarray[:] = 1
        context.sync(mem, "both")

    assert growth(once, 2000) < 512 * 1024


@pytest.mark.slow
def test_turns_do_not_grow(double: Double3) -> None:
    shown = callbacks(
        sampling=lambda logits, name: int(logits.argmax()),
        output=lambda outputs, state: None,
        outputs=(0,),
        result=lambda result, state: None,
    )
    with open_llm(model(*LLM)) as context, context.session(callbacks=shown) as session:
        work = InferParams(max_new_tokens=4)
        assert growth(lambda: session.run(PromptInput("hello"), work), 1000) < 512 * 1024


def test_failing_callbacks_do_not_grow(double: Double3) -> None:
    def fail(tokens: Any) -> Any:
        raise ValueError("no")

    with open_llm(model(*LLM)) as context, context.session(callbacks=callbacks(embed=fail)) as session:

        def once() -> None:
            with pytest.raises(ValueError, match="no"):
                session.run(TokenInput([1]))

        once()
        gc.collect()
        assert growth(once, 600) < 2048 * 1024  # pytest.raises itself leaves cycles


def test_500_sessions(double: Double3) -> None:
    double.latency(100)
    chance = random.Random(3)
    closed: set[int] = set()
    late: list[int] = []
    with open_llm(model(*LLM)) as context:

        def once(number: int) -> None:
            begun = threading.Event()
            tokens = chance.randrange(1, 6)
            seen: list[int] = []

            def result(found: Any, state: CallState) -> None:
                if number in closed:
                    late.append(number)
                seen.extend(found.token_ids)
                if len(seen) >= tokens or state is not CallState.NORMAL:
                    begun.set()

            session = context.session(callbacks=callbacks(result=result))
            run = session.run_async(TokenInput([1]), InferParams(max_new_tokens=100_000))
            way = chance.randrange(4)
            if way:
                assert begun.wait(60)
            if way == 2:
                session.stop()
            session.close()
            closed.add(number)
            assert run.result(0).state is CallState.STOP

        for number in range(100):
            once(number)
        gc.collect()
        before = psutil.Process().memory_info().rss
        for number in range(100, 500):
            once(number)
        assert psutil.Process().memory_info().rss - before < 2048 * 1024
    assert late == [] and len(closed) == 500
    assert not [thread for thread in threading.enumerate() if thread.name == "rknnlite-llm"]
    assert double.count("rknn3_session_init") == double.count("rknn3_session_destroy") == 500
