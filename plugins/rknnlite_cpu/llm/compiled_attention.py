"""Attention of few rows by ``attention.c``: keys and values are read where they lie in the cache, of every type.

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
from .compiled_store import StoreLayout, layout_of
from .kv_cache_formats import code_of, to_fp8
from .kv_cache_storage import Float, Grouped, Half, Store

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
        *((name, ctypes.c_ssize_t) for name in ("rows", "tokens", "dim", "width", "keys", "keep", "slot")),
        *((name, ctypes.c_void_p) for name in ("turned", "kept", "mask")),
        ("store", ctypes.POINTER(StoreLayout)),
        ("cap", ctypes.c_float),
    )


class CompiledAttention:
    """A ``AttentionFunction``. Raises ParamInvalid when the library gives wrong sums."""

    def __init__(self, library: ctypes.CDLL) -> None:
        size, address = ctypes.c_ssize_t, ctypes.c_void_p
        self._attend = library.rknnlite_attend
        self._attend.argtypes = [
            ctypes.POINTER(_Attention),
            size,
            size,
            size,
            size,
            address,
            address,
            address,
        ]
        self._attend.restype = None
        self._check()

    def __call__(self, queries: Queries, store: Store, seen: slice) -> Array:
        """Keys and values are those of the slots ``seen``."""
        heads, rows, dim = queries.turned.shape
        if dim > _MOST_WIDTH:
            return attend(queries, store.keys(seen.stop)[:, seen], store.values(seen.stop)[:, seen])
        count, width = seen.stop - seen.start, -(-dim // _UNIT) * _UNIT
        turned = _wide(queries.turned, width)
        kept = None if queries.kept is None else _wide(queries.kept, width)
        mask = None if queries.mask is None else np.ascontiguousarray(queries.mask)
        addresses = (_address(array) for array in (turned, kept, mask))
        layout = ctypes.pointer(layout_of(store))
        given = _Attention(
            rows, queries.tokens, dim, width, count, queries.keep, seen.start, *addresses, layout, queries.cap
        )
        size = rows * heads * count * dim
        shares = parts_of(count, _KEYS) if size >= _SHARED else (slice(0, count),)
        out = np.empty((len(shares), heads, rows, width), np.float32)
        weights = np.empty((2, len(shares), heads, rows), np.float32)
        target, peaks, step = out.ctypes.data, weights.ctypes.data, weights.strides[1]
        totals = peaks + weights.strides[0]

        def work(share: slice) -> None:
            at = share.start // shares[0].stop * step
            self._attend(
                given, 0, heads, share.start, share.stop, target + at * width, peaks + at, totals + at
            )

        run_blocks(work, shares, size)
        found = (out[0] if len(shares) == 1 else _together(out, *weights))[:, :, :dim]
        return found if queries.sinks is None else found * _share(queries.sinks, *weights)[..., None]

    def _check(self) -> None:
        """Small caches of every kind with all that may be asked of them."""
        random, dim, slots = np.random.default_rng(0), 32, _KEYS + 16
        keys, values = random.standard_normal((2, 2, slots - 9, dim)).astype(np.float32)
        turned, kept = random.standard_normal((2, 2, 6, dim)).astype(np.float32)
        seen = slice(3, keys.shape[1])
        mask = np.where(random.random((2, seen.stop - 3)) < 0.3, np.float32(-1e30), np.float32(0))
        sinks = random.standard_normal((2, 6)).astype(np.float32)
        codes = [code_of(name) for name in ("int8", "int4", "float8", "float4")]
        grouped = [Grouped(2, slots, dim, 16, code, to_fp8) for code in codes]
        for store in (Float(2, slots, dim), Half(2, slots, dim), *grouped):
            store.put(0, keys, values)
            for queries in (Queries(turned, 2), Queries(turned, 2, kept, 5, 3.0, mask, sinks)):
                wanted = attend(queries, store.keys(seen.stop)[:, seen], store.values(seen.stop)[:, seen])
                far = float(np.abs(self(queries, store, seen) - wanted).max() / np.abs(wanted).max())
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
