"""Work on blocks that fit the cache, on all cores that the caller may use when there is enough of it.

numpy's element-wise loops run on one core and release the GIL; a small pool of threads drives the others.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional, TypeVar

import numpy as np
from numpy.typing import NDArray

from .buffers import empty
from .threads import cores, limited, share

__all__ = ["channel_blocks", "cores", "matmul", "parts_of", "run_blocks", "run_items"]

Array = NDArray[Any]
T = TypeVar("T")

BLOCK_ELEMENTS = 1 << 18  # 1 MiB of float32: a block stays in the second-level cache
_PARALLEL_ELEMENTS = 1 << 18  # below this, waking threads costs more than it saves
_PER_ELEMENT = 16  # multiply-adds of a matrix product in the time of one element of a loop
_LANES = 16  # columns that a kernel of the matrix product takes at once


def channel_blocks(channels: int, plane: int) -> list[slice]:
    """Cut ``channels`` planes of ``plane`` elements into slices of about ``BLOCK_ELEMENTS``."""
    step = max(1, min(channels, BLOCK_ELEMENTS // max(1, plane)))
    return [slice(start, min(start + step, channels)) for start in range(0, channels, step)]


def parts_of(total: int, unit: int = 1, most: Optional[int] = None) -> list[slice]:
    """``range(total)`` in even slices, at multiples of ``unit``.

    One slice per thread of the caller's share; several each where slices would be longer than ``most``.
    """
    parts = share()
    if most is not None:
        parts *= -(-total // (parts * most))
    step = max(unit, -(-total // (parts * unit)) * unit)
    return [slice(start, min(start + step, total)) for start in range(0, total, step)]


def matmul(a: Array, b: Array, out: Optional[Array] = None) -> Array:
    """``numpy.matmul`` of float arrays with two axes or more, divided among the threads of the caller's share.

    The longer side of the result is cut, so that no product is spread over threads and results stay the same.
    """
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    result = _result(shape, np.result_type(a, b)) if out is None else out
    rows, columns = shape[-2:]

    def some_rows(part: slice) -> None:
        np.matmul(a[..., part, :], b, out=result[..., part, :])

    def some_columns(part: slice) -> None:
        np.matmul(a, b[..., part], out=result[..., part])

    operations = result.size * a.shape[-1] // _PER_ELEMENT
    work, length = (some_rows, rows) if rows > columns else (some_columns, columns)
    parts = parts_of(length, _LANES) if operations >= _PARALLEL_ELEMENTS else [slice(0, length)]
    run_blocks(work, parts, operations)
    return result


def _result(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return empty(shape) if dtype == np.float32 else np.empty(shape, dtype)


def run_blocks(work: Callable[[slice], None], blocks: list[slice], elements: int) -> None:
    """Call ``work`` for every block; in parallel when ``elements`` in all are many."""
    threads = share()
    if threads == 1 or len(blocks) < 2 or elements < _PARALLEL_ELEMENTS:
        for block in blocks:
            work(block)
        return
    parts = [blocks[i::threads] for i in range(threads) if blocks[i::threads]]
    _side_by_side(_blocks, [functools.partial(_run_part, work, part) for part in parts])


def _run_part(work: Callable[[slice], None], part: list[slice]) -> None:
    for block in part:
        work(block)


def run_items(work: Callable[[int], T], count: int, lanes: int) -> list[T]:
    """``[work(0), ..., work(count - 1)]``, computed in ``lanes`` threads that divide the caller's share."""
    results: dict[int, T] = {}
    lanes = max(1, min(lanes, count, share()))
    allowed = share() // lanes

    def lane(first: int) -> None:
        with limited(allowed):
            for item in range(first, count, lanes):
                results[item] = work(item)

    _side_by_side(_items, [functools.partial(lane, first) for first in range(lanes)])
    return [results[item] for item in range(count)]


def _side_by_side(threads: _Threads, works: list[Callable[[], None]]) -> None:
    """Run all, the first in the calling thread; the first error is raised when all are done."""
    futures = [threads.pool().submit(work) for work in works[1:]]
    try:
        works[0]()
    finally:
        errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None:
            raise error


class _Threads:
    """Threads that are made when they are first needed, once per process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pool: Optional[ThreadPoolExecutor] = None

    def pool(self) -> ThreadPoolExecutor:
        """The executor."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix=self._name)
        return self._pool

    def forget(self) -> None:
        """Threads do not survive a fork."""
        self._pool = None


_blocks, _items = _Threads("rknnlite-cpu"), _Threads("rknnlite-batch")  # an item waits for blocks: two pools

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_blocks.forget)
    os.register_at_fork(after_in_child=_items.forget)
