"""Attention of few rows by ``attention.c``: keys and values are read in float16 where they lie in the cache.

``attention.py`` is the definition. A copy of the cache that stays wide would take twice the room of the cache,
and twice the time to read.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ParamInvalid

from ..kernels.parallel import parts_of, run_blocks
from .attention import Queries, attend

__all__ = ["CompiledAttention"]

Array = NDArray[Any]
_UNIT = 16
"""Numbers of a key come in multiples of it: lanes of the widest processor."""
_MOST_WIDTH = 512
_KEYS = 32
"""Keys that are widened at a time."""
_SHARED = 1 << 20
"""Numbers of keys, times rows, from which on waking another core takes less time than half of the work."""
_TOLERANCE = 1e-5


class _Attention(ctypes.Structure):
    """``struct attention``."""

    _fields_ = (
        *((name, ctypes.c_ssize_t) for name in ("heads", "rows", "tokens", "dim", "width", "keys", "keep")),
        *((name, ctypes.c_ssize_t) for name in ("key_step", "value_step")),
        *((name, ctypes.c_void_p) for name in ("turned", "kept", "mask", "key", "value")),
        ("cap", ctypes.c_float),
    )


class CompiledAttention:
    """A ``AttentionFunction``. Raises ParamInvalid when the library gives wrong sums."""

    def __init__(self, library: ctypes.CDLL) -> None:
        size, address = ctypes.c_ssize_t, ctypes.c_void_p
        self._attend = library.rknnlite_attend
        self._attend.argtypes = [ctypes.POINTER(_Attention), size, size, address, address, address]
        self._attend.restype = None
        self._check()

    def __call__(self, queries: Queries, keys: Array, values: Array) -> Array:
        """Keys and values are views of float16 (kv heads, keys, head_dim), whose heads may lie apart."""
        heads, count, dim = keys.shape
        if dim > _MOST_WIDTH:
            return attend(queries, keys.astype(np.float32), values.astype(np.float32))
        rows, width = queries.turned.shape[1], -(-dim // _UNIT) * _UNIT
        turned = _wide(queries.turned, width)
        kept = None if queries.kept is None else _wide(queries.kept, width)
        mask = None if queries.mask is None else np.ascontiguousarray(queries.mask)
        steps = keys.strides[0] // 2, values.strides[0] // 2
        addresses = (_address(array) for array in (turned, kept, mask, keys, values))
        given = _Attention(
            heads, rows, queries.tokens, dim, width, count, queries.keep, *steps, *addresses, queries.cap
        )
        size = rows * keys.size
        shares = parts_of(count, _KEYS) if size >= _SHARED else (slice(0, count),)
        out = np.empty((len(shares), heads, rows, width), np.float32)
        weights = np.empty((2, len(shares), heads, rows), np.float32)
        target, peaks, step = out.ctypes.data, weights.ctypes.data, weights.strides[1]
        totals = peaks + weights.strides[0]

        def work(share: slice) -> None:
            at = share.start // shares[0].stop * step
            self._attend(given, share.start, share.stop, target + at * width, peaks + at, totals + at)

        run_blocks(work, shares, size)
        found = (out[0] if len(shares) == 1 else _together(out, *weights))[:, :, :dim]
        return found if queries.sinks is None else found * _share(queries.sinks, *weights)[..., None]

    def _check(self) -> None:
        """A small cache with all that may be asked of it."""
        random = np.random.default_rng(0)
        keys, values = random.standard_normal((2, 2, _KEYS + 7, 20)).astype(np.float16)
        turned, kept = random.standard_normal((2, 2, 6, 20)).astype(np.float32)
        mask = np.where(random.random((2, _KEYS + 7)) < 0.3, np.float32(-1e30), np.float32(0))
        sinks = random.standard_normal((2, 6)).astype(np.float32)
        for queries in (Queries(turned, 2), Queries(turned, 2, kept, 5, 3.0, mask, sinks)):
            wanted = attend(queries, keys.astype(np.float32), values.astype(np.float32))
            far = float(np.abs(self(queries, keys, values) - wanted).max() / np.abs(wanted).max())
            if not far < _TOLERANCE:
                raise ParamInvalid(
                    f"the native engine is wrong here: attention differs by {far:.1e} of the largest result"
                )


def _wide(rows: Array, width: int) -> Array:
    if rows.shape[2] < width:
        rows = np.pad(rows, ((0, 0), (0, 0), (0, width - rows.shape[2])))
    return np.ascontiguousarray(rows)


def _address(array: Any) -> Any:
    return None if array is None else array.ctypes.data


def _together(parts: Array, peaks: Array, totals: Array) -> Array:
    """What cores found in their keys, weighed by the exponentials that each of them summed."""
    weights = totals * np.exp(peaks - peaks.max(axis=0))
    weights /= weights.sum(axis=0)
    return np.einsum("shr,shrd->hrd", weights, parts)


def _share(sinks: Array, peaks: Array, totals: Array) -> Array:
    """What tokens keep of each row beside its sink."""
    peak = peaks.max(axis=0)
    total = (totals * np.exp(peaks - peak)).sum(axis=0)
    with np.errstate(over="ignore"):  # of a sink far above all tokens: they keep nothing
        return np.asarray(total / (total + np.exp(sinks - peak)))
