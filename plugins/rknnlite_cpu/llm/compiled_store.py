"""The KV cache of a layer as ``store.h`` sees it: where the arrays of a ``Store`` lie, which stay as long as it lives."""

from __future__ import annotations

import ctypes
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from .kv_cache_formats import FloatCode
from .kv_cache_storage import Float, Grouped, Store

__all__ = ["StoreLayout", "layout_of"]

Array = NDArray[Any]
_SINGLE, _HALF, _GROUPED = range(3)


class StoreLayout(ctypes.Structure):
    """``struct store``."""

    _fields_ = (
        *((name, ctypes.c_ssize_t) for name in ("kind", "heads", "slots", "dim")),
        *((name, ctypes.c_ssize_t) for name in ("group", "bits", "fp8", "middles")),
        *((name, ctypes.c_void_p) for name in ("keys", "values")),
        *((name, ctypes.c_void_p) for name in ("key_scales", "value_scales", "tail", "filled")),
        *((name, ctypes.c_void_p) for name in ("table", "between")),
        ("top", ctypes.c_float),
    )


_known: WeakKeyDictionary[Store, StoreLayout] = WeakKeyDictionary()


def layout_of(store: Store) -> StoreLayout:
    """Where it all lies; valid as long as the store is."""
    found = _known.get(store)
    if found is None:
        found = _known[store] = _grouped(store) if isinstance(store, Grouped) else _plain(store)
    return found


def _plain(store: Store) -> StoreLayout:
    keys, values = store.whole
    kind = _SINGLE if isinstance(store, Float) else _HALF
    return StoreLayout(kind, *keys.shape, 0, 0, 0, 0, keys.ctypes.data, values.ctypes.data)


def _grouped(store: Grouped) -> StoreLayout:
    group, code, rounded = store.form
    keys, key_scales, tail, filled, values, value_scales = store.whole
    shape = values.shape[0], values.shape[1], tail.shape[2]
    arrays = (keys, values, key_scales, value_scales, tail, filled)
    tables: tuple[Any, ...] = (None, None)
    middles = 0
    if isinstance(code, FloatCode):
        tables, middles = (code.table.ctypes.data, code.between.ctypes.data), len(code.between)
    addresses = (array.ctypes.data for array in arrays)
    return StoreLayout(
        _GROUPED, *shape, group, code.bits, rounded, middles, *addresses, *tables, np.float32(code.top)
    )
