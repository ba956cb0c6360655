"""Memory that is used again: never by two at a time, never much of it idle."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_cpu.kernels import buffers

MB = 1 << 20
TWO_MB = (MB // 2,)


@pytest.fixture(autouse=True)
def nothing_idle() -> None:
    buffers.trim()


def resident() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=3))
def test_an_array_like_any_other(shape: list[int]) -> None:
    array = buffers.empty(tuple(shape))
    assert array.shape == tuple(shape) and array.dtype == np.float32
    assert array.flags.writeable and array.flags.c_contiguous
    array[...] = 7
    assert array.min() == array.max() == 7


def test_memory_is_used_again() -> None:
    first = buffers.empty(TWO_MB)
    place = address(first)
    del first
    assert address(buffers.empty((4, MB // 10))) == place, "a smaller array takes the same block"


def test_a_view_keeps_the_memory() -> None:
    array = buffers.empty((2, MB // 4))
    view = array[1, 5:]
    view[:] = 3
    del array
    other = buffers.empty((2, MB // 4))
    other[...] = 4
    assert not np.shares_memory(view, other) and view.min() == view.max() == 3


def test_a_small_array_takes_no_large_block() -> None:
    large = buffers.empty(TWO_MB)
    place = address(large)
    del large
    assert address(buffers.empty((20_000,))) != place


def test_little_stays_idle() -> None:
    before = resident()
    arrays = [buffers.empty(TWO_MB) for _ in range(40)]
    for array in arrays:
        array.fill(1)
    assert resident() - before > 70 * MB
    del array, arrays
    assert resident() - before < 40 * MB, "32 MiB are kept"
    buffers.trim()
    assert resident() - before < 4 * MB


def test_a_forked_child_leaves_its_parent_alone() -> None:
    """Neither arrays in use nor idle blocks are shared, and a lock held elsewhere does not stop the child."""
    used, spare = buffers.empty(TWO_MB), buffers.empty(TWO_MB)
    used.fill(1)
    del spare
    child = os.fork()
    if not child:
        used.fill(2)
        buffers.empty(TWO_MB).fill(2)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert used.min() == used.max() == 1


def test_the_collector_gives_memory_back_at_any_time() -> None:
    """Arrays in cycles are dropped whenever the collector runs, also while another block is taken."""
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for step in range(3000):
            cycle: list[object] = [buffers.empty((20_000 + step % 9 * 5_000,))]
            cycle.append(cycle)
            array = buffers.empty((20_000 + step % 7 * 3_000,))
            assert array.base._block.size >= array.size
    finally:
        gc.set_threshold(*threshold)


def test_threads_never_share_a_block() -> None:
    def work(number: int) -> bool:
        good = True
        for step in range(300):
            array = buffers.empty((20_000 + 777 * (step % 5 + number),))
            array.fill(number)
            good &= bool((array == number).all())
        return good

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
