"""Heads of maps in 8 bits decoded by a small C library, built on first use where there is a compiler; numpy says what is right.

A frame takes a fifth of numpy's time: what that pays is its calls, not its numbers.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.addresses import address
from rknnlite_programs import buildcache

from rknnlite.errors import BackendUnavailable, RknnError
from rknnlite.log import logger
from rknnlite.tensor import DType

from .head import Limits
from .logits import may_contradict
from .stored import Stored
from .yolo_sides import Stride

__all__ = ["CompiledSides", "built", "library"]

Array = NDArray[Any]
_SOURCE = Path(__file__).with_name("sides.c")
_COLUMNS = 7
"""Of ``struct box``, 32 bits each: four corners, score, kind, place."""
_BYTES = (DType.INT8, DType.UINT8)


class _StrideLayout(ctypes.Structure):
    """``struct stride``."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("width", "cells", "pixels", "bins", "sides", "scores", "sums")),
        *((f"flip_{name}", ctypes.c_int32) for name in ("sides", "scores", "sums")),
        *((name, ctypes.c_float) for name in ("sides_scale", "sides_zero")),
        *((name, ctypes.c_void_p) for name in ("meanings", "exponentials")),
    )


class _LimitsLayout(ctypes.Structure):
    """``struct limits``."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("classes", "across", "most")),
        ("overlap", ctypes.c_float),
        ("least", ctypes.c_void_p),
    )


@functools.lru_cache(maxsize=1)
def library() -> Optional[Any]:
    """The function, or None where it cannot be built or loaded; why not is logged once."""
    try:
        return built("-O3")
    except BackendUnavailable as error:
        logger.debug("boxes are decoded with numpy: %s", error)
        return None
    except (RknnError, OSError) as error:
        logger.warning("boxes are decoded with numpy: %s", error)
        return None


def built(*flags: str) -> Any:
    """The function, compiled with ``flags`` or as it was before; raise where it cannot be built or loaded."""
    path = buildcache.build_library("librknnlite_sides.so", _SOURCE, "decoding of boxes", *flags)
    function = ctypes.CDLL(str(path)).rknnlite_sides
    address = ctypes.c_void_p
    function.argtypes = [address, ctypes.c_int, address, address, address]
    function.restype = ctypes.c_int
    return function


class CompiledSides:
    """The strides of one head, told once.

    ``fits``: all their maps are int8 or uint8, channels first, with a scale that is a number; scores can be nothing else.
    """

    def __init__(self, strides: Sequence[Stride], outputs: int) -> None:
        self._strides, self._outputs = list(strides), outputs
        self._cells = sum(s.sides.height * s.sides.width for s in strides)
        self._kept: list[Array] = []  # tables that the library reads
        layouts = [self._layout(stride) for stride in strides]
        self._layouts = (_StrideLayout * len(layouts))(*layouts)
        self._read = [m.index for s in strides for m in (s.sides, s.scores, s.total) if m is not None]
        self._types = [
            np.dtype(m.attr.dtype.numpy) for s in strides for m in (s.sides, s.scores, s.total) if m
        ]
        self._limits: tuple[Optional[Limits], Any] = (None, None)

    @staticmethod
    def fits(strides: Sequence[Stride]) -> bool:
        """Whether the library knows such maps."""
        maps = [m for s in strides for m in (s.sides, s.scores, s.total) if m is not None]
        scales = [m.attr.quant.scale if m.attr.quant else 0.0 for m in maps]
        plain = all(m.attr.dtype in _BYTES and not m.last for m in maps)
        told = not any(may_contradict(s.scores_stored) for s in strides)
        return plain and told and all(0 < scale < np.inf for scale in scales)

    def best(self, outputs: Sequence[Array], limits: Limits) -> Optional[Array]:
        """Rows of what stays, float32 [n, 7], best first: corners, score; class and place are int32 in the same bits.

        None where outputs are not as stored or lie apart in memory, or the library is not there.
        """
        for index, dtype in zip(self._read, self._types):
            array = outputs[index]
            if (array.dtype is not dtype and array.dtype != dtype) or not array.flags.c_contiguous:
                return None
        function = library()
        if function is None or limits.most < 1:
            return None
        known, layout = self._limits
        if known != limits:
            layout = self._limits_layout(limits)
            self._limits = (limits, layout)
        addresses = (ctypes.c_void_p * self._outputs)()
        for index in self._read:
            addresses[index] = address(outputs[index])
        rows = np.empty((min(limits.most, self._cells), _COLUMNS), np.float32)
        count = function(self._layouts, len(self._layouts), addresses, ctypes.byref(layout[0]), address(rows))
        if count < 0:
            raise MemoryError("decoding of boxes: no memory for the candidates")
        return rows[:count]

    def _layout(self, s: Stride) -> _StrideLayout:
        scores = s.scores_stored
        limits = np.iinfo(s.scores.attr.dtype.numpy.str)
        meanings = scores.scores(np.arange(limits.min, limits.max + 1)).astype(np.float32)
        exponentials = np.exp(-np.arange(256) * s.sides_stored.scale).astype(np.float32)
        self._kept += [meanings, exponentials]
        total = None if s.logits else s.total
        flips = (
            0x80 if m is not None and m.attr.dtype == DType.UINT8 else 0 for m in (s.sides, s.scores, total)
        )
        zero = float(s.sides_stored.zero) - (0x80 if s.sides.attr.dtype == DType.UINT8 else 0)
        indices = s.sides.index, s.scores.index, -1 if total is None else total.index
        size = s.sides.width, s.sides.width * s.sides.height, s.sides.stride, s.sides.channels // 4
        tables = meanings.ctypes.data, exponentials.ctypes.data
        return _StrideLayout(*size, *indices, *flips, float(s.sides_stored.scale), zero, *tables)

    def _limits_layout(self, limits: Limits) -> tuple[_LimitsLayout, Array]:
        """``struct limits``, and the table that it points to."""
        least = []
        for s in self._strides:
            least.append(_as_int8(s.scores_stored, limits.score))
            rules = None if s.logits else s.total_stored
            least.append(0 if rules is None else _as_int8(rules, limits.score - s.slack))
        table = np.array(least, np.int32)
        classes = self._strides[0].scores.channels
        most = min(limits.most, self._cells)
        return _LimitsLayout(classes, limits.across, most, limits.overlap, table.ctypes.data), table


def _as_int8(stored: Stored, score: float) -> int:
    dtype = stored.attr.dtype
    return int(stored.least(score, dtype.numpy)) - (0x80 if dtype == DType.UINT8 else 0)
