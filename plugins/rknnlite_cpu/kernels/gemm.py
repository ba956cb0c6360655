"""What stands around a matrix product: rows alone, and elements of other types."""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .opencv import module as opencv_module
from .parallel import BLOCK_ELEMENTS, parts_of, run_blocks
from .threads import share

__all__ = ["cast", "in_blocks", "row_sums"]

Array = NDArray[Any]
Convert = Callable[[Array, Array], Any]
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


@functools.cache
def _half() -> Optional[Convert]:
    """OpenCV's conversion of float16 to float32 and back, ten times faster than numpy's; None where it differs."""
    cv2 = opencv_module()
    if cv2 is None:
        return None
    convert = _by_function(cv2) if hasattr(cv2, "convertFp16") else _by_sum(cv2)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(256, 256)
    wide = halves.astype(np.float32)
    with np.errstate(all="ignore"):
        between = (wide[:, 1:] + wide[:, :-1]) / 2  # ties
        expected = (wide, between.astype(np.float16))
    try:
        found = (np.empty_like(wide), np.empty_like(expected[1]))
        convert(halves, found[0])
        convert(between, found[1])
    except Exception:  # cv2.error: this version has no float16
        return None
    same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, expected))
    return convert if same else None


def _by_function(cv2: Any) -> Convert:
    """OpenCV 4: halves are int16 there."""

    def convert(values: Array, out: Array) -> None:
        given, wanted = (x.view(np.int16) if x.dtype == np.float16 else x for x in (values, out))
        cv2.convertFp16(given, wanted)

    return convert


def _by_sum(cv2: Any) -> Convert:
    """OpenCV 5: adding nothing (a negative zero, so that zeros keep their sign) in the type of the result."""

    def convert(values: Array, out: Array) -> None:
        cv2.add(values, -0.0, out, dtype=cv2.CV_32F if out.dtype == np.float32 else cv2.CV_16F)

    return convert
