"""Where patches lie: their order, windows of attention, angles of positions, and tables of positions for another grid."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["angles", "merged_places", "resampled", "waves", "windows"]

Array = NDArray[Any]


def merged_places(rows: int, columns: int, merge: int) -> Array:
    """Row and column of each patch, int64 (2, patches): those that become one token stand together."""
    places = np.indices((rows, columns))
    cut = places.reshape(2, rows // merge, merge, columns // merge, merge)
    return cut.transpose(0, 1, 3, 2, 4).reshape(2, -1)


def windows(places: Array, edge: int) -> Array:
    """What is added to attention, float32 (patches, patches): nothing within a window of ``edge`` patches, else very little."""
    window = places // edge
    same = (window[:, :, None] == window[:, None, :]).all(axis=0)
    return np.where(same, np.float32(0), np.float32(-1e4))


def angles(places: Array, head: int, theta: float) -> Array:
    """Angles by which queries and keys are turned, float32 (patches, head // 2): the first half by row, the other by column."""
    half = head // 2
    speeds = 1.0 / theta ** (np.arange(0, half, 2, dtype=np.float32) / np.float32(half))
    turned = places[:, :, None].astype(np.float32) * speeds.astype(np.float32)
    return np.concatenate([turned[0], turned[1]], axis=-1)


def waves(places: Array, hidden: int) -> Array:
    """Sines and cosines of positions, float32 (patches, hidden): the first half by column, the other by row."""
    half = hidden // 4
    speeds = 1.0 / 10000 ** (np.arange(half, dtype=np.float32) / half)
    turned = places[::-1, :, None] * speeds
    found = [part(turned[axis]) for axis in range(2) for part in (np.sin, np.cos)]
    return np.concatenate(found, axis=-1).astype(np.float32)


def resampled(table: Array, places: Array, rows: int, columns: int, how: str) -> Array:
    """Rows (patches, hidden) of a square table (positions, hidden) for a grid of ``rows`` x ``columns`` patches.

    ``how``: ``bilinear``, ``bicubic``, ``nearest`` or ``nearest64``.
    """
    side = round(len(table) ** 0.5)
    if how.startswith("nearest"):
        row, column = (_buckets(size, side, how)[place] for place, size in zip(places, (rows, columns)))
        return np.asarray(table[row * side + column])
    if (rows, columns) == (side, side):
        return np.asarray(table[places[0] * side + places[1]])
    down, right = (_taps(place, size, side, how == "bicubic") for place, size in zip(places, (rows, columns)))
    found = np.zeros((places.shape[1], table.shape[1]), np.float32)
    for above, high in zip(*down):
        for left, wide in zip(*right):
            found += table[above * side + left] * (high * wide)[:, None]
    return found


def _buckets(size: int, side: int, how: str) -> Array:
    """The place in the table for each of ``size`` patches; rounded as the models do it, which decides where both have borders."""
    borders = (1 / side + np.arange(side - 1) * (1 / side)).astype(np.float32)
    kind: Any = np.float64 if how == "nearest64" else np.float32
    shares = (np.arange(size, dtype=kind) * (kind(1) / kind(size))).astype(np.float32)
    return np.asarray(np.searchsorted(borders, np.minimum(shares, np.float32(1 - 1e-6)), side="right"))


def _taps(place: Array, size: int, side: int, bicubic: bool) -> tuple[Array, Array]:
    """Places in the table and their weights, each (taps, patches)."""
    if not bicubic:
        source = place.astype(np.float32) * np.float32(side - 1) / np.float32(max(size - 1, 1))
        offsets = np.arange(2)
    else:
        source = ((place + 0.5) * side / size - 0.5).astype(np.float32)
        offsets = np.arange(-1, 3)
    first = np.floor(source)
    away = np.abs(source - first - offsets[:, None]).astype(np.float32)
    taps = np.clip(first.astype(np.int64) + offsets[:, None], 0, side - 1)
    if not bicubic:
        return taps, np.maximum(1 - away, 0)
    sharp = np.float32(-0.75)
    near = ((sharp + 2) * away - (sharp + 3)) * away * away + 1
    far = ((sharp * away - 5 * sharp) * away + 8 * sharp) * away - 4 * sharp
    return taps, np.where(away <= 1, near, far)
