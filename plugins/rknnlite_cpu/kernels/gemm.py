"""What stands around a matrix product: rows alone, and elements of other types."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .half import Convert
from .half import converter as _half
from .parallel import BLOCK_ELEMENTS, parts_of, run_blocks
from .threads import share

__all__ = ["cast", "in_blocks", "row_sums"]

Array = NDArray[Any]
_DEPTH = 512  # rows that one sum of ``row_sums`` covers, whatever the number of threads


def row_sums(left: Array, right: Array, depth: int = _DEPTH) -> Array:
    """[1, K] x [K, N] -> float32 [parts, N], which add up to the product; a part covers at most ``depth`` rows.

    One row is a matter of reading ``right`` once: threads take rows of it, which lie together in memory. Each takes the
    next part when it is free: one that wakes late on a busy machine leaves more to the other.
    """
    step = min(depth, _DEPTH)
    starts = range(0, len(right), step)
    sums = np.empty((len(starts), right.shape[1]), np.float32)
    left_over = deque(enumerate(starts))

    def work(_: slice) -> None:
        with contextlib.suppress(IndexError):  # nothing is left
            while True:
                number, start = left_over.popleft()
                np.matmul(left[0, start : start + step], right[start : start + step], out=sums[number])

    run_blocks(work, [slice(thread, thread + 1) for thread in range(share())], right.size)
    return sums


def in_blocks(convert: Convert, values: Array, out: Array) -> Array:
    """Call ``convert(values[rows], out[rows])`` for rows that stay in the cache, in all threads; gives ``out``."""
    most = max(1, BLOCK_ELEMENTS // max(1, values[:1].size))

    def work(rows: slice) -> None:
        convert(values[rows], out[rows])

    run_blocks(work, parts_of(len(values), most=most), values.size)
    return out


def cast(values: Array, dtype: Any) -> Array:
    """The same numbers [rows, columns] as elements of another type; ``values`` itself where they are already."""
    wanted = np.dtype(dtype)
    if values.dtype == wanted:
        return values
    convert = _half() if {values.dtype.char, wanted.char} == {"e", "f"} else None
    return in_blocks(convert or _assign, values, np.empty(values.shape, wanted))


def _assign(values: Array, out: Array) -> None:
    with np.errstate(over="ignore"):
        out[...] = values
