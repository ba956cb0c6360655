"""Work divided among threads: all of it, once, with the first error, and nothing kept behind."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_cpu.kernels import parallel, threads
from rknnlite_cpu.kernels.conv import ConvSpec, windows

from tests.support.corpus import DATA, EXAMPLES, ROOT, open_cpu

MANY = 1 << 20  # elements that are worth a second thread


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of four cores, with threads of the test's own."""
    monkeypatch.setattr(threads, "_CORES", 4)
    monkeypatch.setattr(parallel, "cores", lambda: 4)
    monkeypatch.setattr(parallel, "_blocks", parallel._Threads("test"))


@given(st.integers(1, 5000), st.integers(1, 64), st.none() | st.integers(1, 300), st.integers(1, 9))
def test_parts_cover_everything_once(total: int, unit: int, most: int | None, share: int) -> None:
    with threads.limited(share):
        parts = parallel.parts_of(total, unit, most)
    assert [i for part in parts for i in range(total)[part]] == list(range(total))
    assert all(part.start % unit == 0 for part in parts)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 11])
def test_every_block_is_computed_once(four: None, count: int) -> None:
    hits = np.zeros(count, int)

    def work(block: slice) -> None:
        hits[block] += 1

    parallel.run_blocks(work, [slice(i, i + 1) for i in range(count)], MANY)
    assert (hits == 1).all()


def test_the_first_error_comes_when_all_are_done(four: None) -> None:
    done: list[int] = []
    gate = threading.Event()

    def work(block: slice) -> None:
        if block.start == 1:
            gate.wait(60)  # later than the other error
        done.append(block.start)
        if block.start == 2:
            gate.set()
        if block.start in (1, 2):
            raise ValueError(f"block {block.start}")

    with pytest.raises(ValueError, match="block 1"):
        parallel.run_blocks(work, [slice(i, i + 1) for i in range(4)], MANY)
    assert sorted(done) == [0, 1, 2, 3]


def test_threads_keep_nothing_of_what_they_did(four: None) -> None:
    """An array dies with its owner, whether its work ended well or not; no collector is needed."""

    def use(fails: bool) -> weakref.ref[np.ndarray]:
        array = np.zeros(8)

        def work(block: slice) -> None:
            array[block] = 1
            if fails and block.start:
                raise ValueError

        try:
            parallel.run_blocks(work, [slice(i, i + 1) for i in range(8)], MANY)
        except ValueError:
            assert fails
        return weakref.ref(array)

    gc.collect()
    gc.disable()
    try:
        assert use(False)() is None
        assert use(True)() is None
    finally:
        gc.enable()


def test_a_forked_child_has_threads_of_its_own(four: None) -> None:
    used: set[str] = set()

    def work(block: slice) -> None:
        used.add(threading.current_thread().name)

    blocks = [slice(i, i + 1) for i in range(2)]
    parallel.run_blocks(work, blocks, MANY)
    child = os.fork()
    if not child:
        parallel._blocks.forget()  # as the hook does for the threads of the module
        used.clear()
        parallel.run_blocks(work, blocks, MANY)
        os._exit(0 if any(name.startswith("test") for name in used) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_window_that_leaves_its_array_is_refused() -> None:
    """A damaged file may say so; memory of others is not read."""
    spec = ConvSpec((3, 3), (1, 1), (1, 1), (0, 0), (5, 5), (9, 9))
    with pytest.raises((ValueError, TypeError)):
        windows(np.zeros((1, 1, 5, 5), np.float32), spec)


def calls_of_ours(model: Path) -> tuple[int, int]:
    """Python functions of ours that one inference on one thread goes through, and C functions that these call."""
    found = {"call": 0, "c_call": 0}

    def note(frame: Any, event: str, _: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event in found and any(folder in file.parents for folder in (ROOT / "rknnlite", ROOT / "plugins")):
            found[event] += 1

    with open_cpu(model, threads=1) as context:
        arrays = [np.zeros(attr.dims, np.uint8) for attr in context.inputs]
        for _ in range(2):
            context.infer(arrays)
        sys.setprofile(note)
        context.infer(arrays)
        sys.setprofile(None)
    return found["call"], found["c_call"]


def test_the_calls_of_an_inference_are_counted() -> None:
    """24 layers on one thread: less than 27 Python calls of ours each; see benchmarks/cpu_calls.py."""
    calls, _ = calls_of_ours(EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn")
    assert 0 < calls < 24 * 27


@pytest.mark.parametrize(
    ("model", "most"),
    [
        (EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn", 1400),
        (DATA / "mobilenetv2_like.rk3588.i8.rknn", 330),
        (DATA / "mobilenetv2_like.rk3588.fp16.rknn", 430),
        (DATA / "resnet_like.rk3588.i8.rknn", 300),
        (DATA / "resnet_like.rk3588.fp16.rknn", 340),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_few_calls_around_the_arithmetic(model: Path, most: int) -> None:
    """A figure that no machine changes: what is prepared once is not worked out in every frame."""
    pytest.importorskip("cv2")  # depthwise layers by numpy are other calls
    assert sum(calls_of_ours(model)) < most
