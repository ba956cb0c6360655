"""Closing, threads, duplicates, calls that nobody waits for."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rknnlite
from rknnlite import Context
from rknnlite.errors import ContextInvalid, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi import Backend
from rknnlite.spi.inputs import collect

from .promises import given, optional, promise, refused, same

__all__: list[str] = []  # pytest collects what is here

_DESCRIPTORS = Path("/proc/self/fd")


def steps(context: Context) -> dict[str, Callable[[], Any]]:
    """The calls of a frame, by name."""
    frame = collect(given(context), context.inputs, shapes=context.shapes)
    return {
        "set_inputs": lambda: context.set_inputs(frame),
        "run": context.run,
        "get_outputs": context.get_outputs,
    }


@pytest.mark.parametrize("step", ["set_inputs", "run", "get_outputs"])
def test_a_closed_context_is_told(context: Context, step: str) -> None:
    call = steps(context)[step]
    context.infer(given(context))
    context.close()
    context.close()
    with refused(
        ContextInvalid,
        call=f"{step} of a closed context",
        remedy="do everything within `with self.exclusive():`",
    ):
        call()


@pytest.mark.parametrize("step", ["set_inputs", "run", "get_outputs"])
def test_a_second_thread_is_refused(context: Context, step: str) -> None:
    call = steps(context)[step]
    context.infer(given(context))
    caught: list[BaseException] = []

    def other() -> None:
        try:
            call()
        except BaseException as error:  # whatever it is, the test tells of it
            caught.append(error)

    with context.exclusive():
        thread = threading.Thread(target=other, daemon=True)
        thread.start()
        thread.join(10)
    promise(
        caught and isinstance(caught[0], ContextInvalid),
        f"{step} from a second thread gave {caught or 'no error'} while the first one held the context; "
        "do everything within `with self.exclusive():`, and take no lock of yours outside of it",
    )


def test_close_gives_everything_back(backend: Backend, model: ModelFile) -> None:
    if not _DESCRIPTORS.is_dir():
        pytest.skip("no /proc here")

    def once() -> int:
        with rknnlite.open(model, backend=backend.name) as context:
            context.infer(given(context))
        gc.collect()  # what others left behind is no sign of this one's order
        return len(list(_DESCRIPTORS.iterdir()))

    once()  # what is opened once stays
    counts = [once() for _ in range(4)]
    promise(
        counts[-1] <= counts[0],
        f"after each open and close more files are open: {counts}; close them in _release",
    )


def test_release_is_called_once(opened: Callable[..., Context], monkeypatch: pytest.MonkeyPatch) -> None:
    context = opened()
    calls: list[int] = []
    release = context._release
    monkeypatch.setattr(context, "_release", lambda: (calls.append(1), release()), raising=False)
    context.close()
    context.close()
    promise(
        len(calls) == 1,
        f"close called _release {len(calls)} times; override _release and leave close as it is",
    )


def test_a_context_that_nobody_holds_is_freed(backend: Backend, model: ModelFile) -> None:
    gc.collect()
    gc.disable()
    try:
        context = rknnlite.open(model, backend=backend.name)
        context.infer(given(context))
        watched = weakref.ref(context)
        del context
        promise(
            watched() is None,
            "a context that was dropped is still there: something it holds leads back to it; use weakref where it must",
        )
    finally:
        gc.enable()


def test_contexts_run_side_by_side(opened: Callable[..., Context]) -> None:
    contexts = [opened() for _ in range(3)]
    expected = [contexts[0].infer(given(contexts[0], seed)) for seed in range(3)]
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        context, arrays = contexts[number], given(contexts[number], number)
        results: list[Any] = []
        try:
            results = [context.infer(arrays) for _ in range(5)]
        except Exception as error:  # the test tells of it
            results = [error]
        found[number] = results

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number, results in found.items():
        broken = next(
            (one for one in results if isinstance(one, Exception) or not same(one, expected[number])), None
        )
        promise(
            broken is None,
            f"a context that ran beside others gave {broken if isinstance(broken, Exception) else 'other outputs'}; "
            "contexts share nothing that a run changes",
        )
    promise(
        len(found) == 3, "contexts in three threads were not done in 60 s; do not wait for each other's locks"
    )


def test_calls_that_nobody_waits_for(context: Context) -> None:
    frames = [given(context, seed) for seed in range(3)]
    expected = [context.infer(frame) for frame in frames]
    found = [future.result(60) for future in [context.infer_async(frame) for frame in frames]]
    promise(
        all(map(same, found, expected)),
        "infer_async gives other outputs than infer; keep nothing that belongs to a thread",
    )


def test_a_duplicate_lives_by_itself(context: Context, backend: Backend) -> None:
    arrays = given(context)
    expected = context.infer(arrays)
    with optional(backend.name, "duplicates"):
        twin = context.dup()
    with twin:
        context.close()
        try:
            found: Any = twin.infer(arrays)
        except Exception as error:
            found = [error]
        promise(
            not isinstance(found[0], Exception) and same(found, expected),
            f"a duplicate gives {found[0] if isinstance(found[0], Exception) else 'other outputs'} when its origin is closed; "
            "share weights alone, and free them with the last one",
        )


def test_frames_are_begun_and_waited_for(context: Context, backend: Backend) -> None:
    frames = [given(context, seed) for seed in range(2)]
    expected = [context.infer(frame) for frame in frames]
    for frame, wanted in zip(frames, expected):
        context.set_inputs(collect(frame, context.inputs, shapes=context.shapes))
        with optional(backend.name, "frames that are begun with start"):
            number = context.start()
        context.wait(number)
        promise(
            same(context.get_outputs(), wanted),
            "start, wait, get_outputs give other outputs than infer; compute on the inputs of the beginning",
        )
    with refused(
        ParamInvalid,
        call="wait for a frame that never began",
        remedy="rknnlite_backend.running.check_under_way does so",
    ):
        context.wait(number + 100)


def test_threads_are_limited_or_not(context: Context) -> None:
    found = context.limit_threads(1)
    promise(
        isinstance(found, bool),
        f"limit_threads(1) returned {found!r}; return True where the CPU computes, else leave it as the class has it",
    )
    expected = context.infer(given(context))
    promise(
        all(array.size for array in expected),
        "after limit_threads(1) outputs are empty; runs go on as before",
    )
