"""Work on blocks that fit the cache, on all cores that the caller may use when there is enough of it.

numpy's element-wise loops run on one core and release the GIL; a small pool of threads drives the others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Optional, TypeVar

import numpy as np
from numpy.typing import NDArray

from rknnlite.native.forks import after_fork
from rknnlite.native.processors import HelperThreads

from .buffers import empty, maker
from .threads import cores, limited, share

__all__ = [
    "BLOCK_ELEMENTS",
    "PER_ELEMENT",
    "SMALL_PRODUCT",
    "channel_blocks",
    "cores",
    "matmul",
    "parts_of",
    "product",
    "run_blocks",
    "run_items",
    "run_parts",
]

Array = NDArray[Any]
T = TypeVar("T")

BLOCK_ELEMENTS = 1 << 18  # 1 MiB of float32: a block stays in the second-level cache
_PARALLEL_ELEMENTS = 1 << 18  # below this, waking threads costs more than it saves
PER_ELEMENT = 16  # multiply-adds of a matrix product in the time of one element of a loop
SMALL_PRODUCT = _PARALLEL_ELEMENTS * PER_ELEMENT  # multiply-adds that one thread does
_LANES = 16  # columns that a kernel of the matrix product takes at once


@functools.lru_cache(maxsize=1024)  # the same from frame to frame
def channel_blocks(channels: int, plane: int) -> Sequence[slice]:
    """Cut ``channels`` planes of ``plane`` elements into slices of about ``BLOCK_ELEMENTS``."""
    return _slices(channels, max(1, min(channels, BLOCK_ELEMENTS // max(1, plane))))


def parts_of(total: int, unit: int = 1, most: Optional[int] = None) -> Sequence[slice]:
    """``range(total)`` in even slices, at multiples of ``unit``.

    One slice per thread of the caller's share; several each where slices would be longer than ``most``.
    """
    return _parts(share(), total, unit, most)


@functools.lru_cache(maxsize=1024)
def _parts(threads: int, total: int, unit: int, most: Optional[int]) -> Sequence[slice]:
    parts = threads if most is None else threads * -(-total // (threads * most))
    return _slices(total, max(unit, -(-total // (parts * unit)) * unit))


def _slices(total: int, step: int) -> Sequence[slice]:
    return tuple(slice(start, min(start + step, total)) for start in range(0, total, step))


def matmul(a: Array, b: Array, out: Optional[Array] = None) -> Array:
    """``numpy.matmul`` of float arrays with two axes or more, divided among the threads of the caller's share.

    The longer side of the result is cut, so that no product is spread over threads and results stay the same.
    """
    result = _result(a, b) if out is None else out
    rows, columns = result.shape[-2:]
    threads = share() if result.size * a.shape[-1] >= SMALL_PRODUCT else 1
    if threads == 1:
        np.matmul(a, b, out=result)
        return result

    def some_rows(part: slice) -> None:
        np.matmul(a[..., part, :], b, out=result[..., part, :])

    def some_columns(part: slice) -> None:
        np.matmul(a, b[..., part], out=result[..., part])

    work, length = (some_rows, rows) if rows > columns else (some_columns, columns)
    _side_by_side(work, _parts(threads, length, _LANES, None), threads)
    return result


def product(a: Array, shape: tuple[int, ...]) -> Callable[[Array], Array]:
    """Prepare ``matmul`` of a float32 matrix with float32 arrays that have the elements of ``shape``."""
    made = (*shape[:-2], len(a), shape[-1])
    if prod(made) * a.shape[1] >= SMALL_PRODUCT:
        return lambda b: matmul(a, b.reshape(shape))
    new = maker(made)

    def small(b: Array) -> Array:
        out = new()
        np.matmul(a, b.reshape(shape), out=out)
        return out

    return small


def _result(a: Array, b: Array) -> Array:
    """An array for the product of ``a`` and ``b``."""
    stack = b.shape[:-2] if a.ndim == 2 else np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*stack, a.shape[-2], b.shape[-1])
    dtype = a.dtype if a.dtype == b.dtype else np.result_type(a, b)
    return empty(shape) if dtype == np.float32 else np.empty(shape, dtype)


def run_blocks(work: Callable[[slice], None], blocks: Sequence[slice], elements: int) -> None:
    """Call ``work`` for every block; in parallel when ``elements`` in all are many."""
    _side_by_side(work, blocks, share() if len(blocks) > 1 and elements >= _PARALLEL_ELEMENTS else 1)


def run_parts(work: Callable[[Sequence[slice]], None], total: int, most: int, elements: int) -> None:
    """Call ``work`` in every thread with its slices of ``range(total)``, none longer than ``most``.

    There is one thread unless ``elements`` are many.
    """
    threads = share() if elements >= _PARALLEL_ELEMENTS else 1
    parts = _parts(threads, total, 1, most)
    if threads == 1:
        work(parts)
    else:
        _blocks.run(work, [(parts[i::threads],) for i in range(min(threads, len(parts)))])


def _side_by_side(work: Callable[[slice], None], blocks: Sequence[slice], threads: int) -> None:
    if threads == 1:
        for block in blocks:
            work(block)
    else:
        _blocks.run(work, [blocks[i::threads] for i in range(min(threads, len(blocks)))])


def run_items(work: Callable[[int], T], count: int, lanes: int) -> list[T]:
    """``[work(0), ..., work(count - 1)]``, computed in ``lanes`` threads that divide the caller's share."""
    if count == 1:
        return [work(0)]
    results: dict[int, T] = {}
    lanes = max(1, min(lanes, count, share()))
    allowed = share() // lanes

    def lane(first: int) -> None:
        with limited(allowed):
            for item in range(first, count, lanes):
                results[item] = work(item)

    _items.run(lane, [[first] for first in range(lanes)])
    return [results[item] for item in range(count)]


class _Threads(HelperThreads):
    """As many as there are cores beside the caller's."""

    def most(self) -> int:
        return cores() - 1


_blocks, _items = _Threads("rknnlite-cpu"), _Threads("rknnlite-batch")  # an item waits for blocks: two pools

after_fork(_blocks.forget)
after_fork(_items.forget)
