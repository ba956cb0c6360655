"""Of boxes that overlap, the best: upright ones as ``torchvision.ops.nms``, turned ones by ultralytics' measure."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .head import Limits

__all__ = ["best_rotated", "best_upright", "nms", "overlaps", "rotated_overlaps", "upright"]

Array = NDArray[Any]
Rows = NDArray[np.intp]
_PAIRS = 100_000
"""Pairs up to which all are compared at once: numpy's calls cost more than the numbers."""
_BLOCK = 256
"""Turned boxes that are compared with all better ones at once."""


def overlaps(a: Array, b: Array) -> Array:
    """Intersection over union of each box of ``a`` [..., n, 4] with each of ``b`` [..., m, 4]; NaN where both lack area."""
    left, top, right, low = (a[..., n, None] for n in range(4))
    x1, y1, x2, y2 = (b[..., None, :, n] for n in range(4))
    wide = np.minimum(right, x2) - np.maximum(left, x1)
    high = np.minimum(low, y2) - np.maximum(top, y1)
    shared = wide.clip(0) * high.clip(0)
    union = (right - left) * (low - top) + (x2 - x1) * (y2 - y1) - shared
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio: Array = shared / union
    return ratio


def rotated_overlaps(a: Array, b: Array) -> Array:
    """How much turned boxes [n, 5] and [m, 5] overlap, 0 to 1: the probabilistic measure of arXiv 2106.06072.

    Each box is a normal distribution with the box's centre and moments; the result is 1 minus their Hellinger distance.
    """
    (ax, ay, aa, ab, ac), (bx, by, ba, bb, bc) = (_normal(boxes.astype(np.float32)) for boxes in (a, b))
    ax, ay, aa, ab, ac = (v[:, None] for v in (ax, ay, aa, ab, ac))
    eps = np.float32(1e-7)
    sa, sb, sc = aa + ba, ab + bb, ac + bc
    both = sa * sb - sc**2
    with np.errstate(invalid="ignore", divide="ignore"):
        far = (sa * (ay - by) ** 2 + sb * (ax - bx) ** 2) / (both + eps) * 0.25
        slant = sc * (bx - ax) * (ay - by) / (both + eps) * 0.5
        alone = np.sqrt((aa * ab - ac**2).clip(0) * (ba * bb - bc**2).clip(0))
        form = np.log(both / (4 * alone + eps) + eps) * 0.5
        distance = np.clip(far + slant + form, eps, 100)
        ratio: Array = 1 - np.sqrt(1 - np.exp(-distance) + eps)
    return ratio


def _normal(boxes: Array) -> tuple[Array, ...]:
    """Centre and the three numbers of the covariance."""
    x, y, w, h, angle = boxes.T
    a, b = w**2 / 12, h**2 / 12
    cos, sin = np.cos(angle), np.sin(angle)
    return x, y, a * cos**2 + b * sin**2, a * sin**2 + b * cos**2, (a - b) * cos * sin


def upright(boxes: Array) -> Array:
    """The upright boxes [n, 4] around turned ones [n, 5]."""
    x, y, w, h, angle = boxes.T
    cos, sin = np.abs(np.cos(angle)), np.abs(np.sin(angle))
    half_w, half_h = (w * cos + h * sin) / 2, (w * sin + h * cos) / 2
    around: Array = np.stack([x - half_w, y - half_h, x + half_w, y + half_h], axis=1)
    return around


def nms(
    boxes: Array, scores: Array, overlap: float, classes: Array | None = None, most: int | None = None
) -> Rows:
    """Rows of the boxes that stay, best first: those that overlap no better one by more than ``overlap``.

    The earlier of equal scores is the better one. With ``classes``, only boxes of one class suppress each other.

    Examples:
        >>> boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]], np.float32)
        >>> nms(boxes, np.array([0.8, 0.9, 0.7]), 0.5).tolist()
        [1, 2]
    """
    order: Rows = np.argsort(-scores, kind="stable")
    groups = _groups(np.zeros(len(order), np.intp) if classes is None else classes[order])
    most = len(order) if most is None else most
    if groups.size * groups.shape[1] <= _PAIRS:
        return order[_of_few(boxes[order], groups, overlap)][:most]
    return _of_many(boxes, order, overlap, classes, most)


def best_upright(boxes: Array, scores: Array, classes: Array, limits: Limits) -> Rows:
    """Rows that stay of upright boxes."""
    return nms(boxes, scores, limits.overlap, None if limits.across else classes, limits.most)


def best_rotated(boxes: Array, scores: Array, classes: Array, limits: Limits) -> Rows:
    """Rows that stay of turned boxes; as ultralytics, boxes that are gone still suppress."""
    order = np.argsort(-scores, kind="stable")
    kept = []
    for start in range(0, len(order), _BLOCK):
        rows = order[start : start + _BLOCK]
        better = order[: start + len(rows)]
        ratio = rotated_overlaps(boxes[better], boxes[rows]) > np.float32(limits.overlap)
        if not limits.across:
            ratio &= classes[better][:, None] == classes[rows]
        earlier = np.arange(len(better))[:, None] < start + np.arange(len(rows))
        kept.append(rows[~(ratio & earlier).any(axis=0)])
        if sum(map(len, kept)) >= limits.most:
            break
    return np.concatenate(kept)[: limits.most] if kept else order


def _groups(kinds: Array) -> Rows:
    """[kinds, most of one kind]: numbers of the rows of each kind in their order, -1 behind the last."""
    by_kind = np.argsort(kinds, kind="stable")
    sorted_kinds = kinds[by_kind]
    starts = np.flatnonzero(np.concatenate([[True], sorted_kinds[1:] != sorted_kinds[:-1]]))[: len(kinds)]
    counts = np.diff(np.append(starts, len(kinds)))
    groups = np.full((len(counts), counts.max(initial=0)), -1, np.intp)
    group = np.repeat(np.arange(len(counts)), counts)
    groups[group, np.arange(len(kinds)) - starts[group]] = by_kind
    return groups


def _of_few(boxes: Array, groups: Rows, overlap: float) -> Rows:
    """All pairs of each group at once; the walk itself is over bits of integers."""
    grouped = boxes[groups]
    close = overlaps(grouped, grouped) > np.float32(overlap)
    bits = np.packbits(close, axis=2, bitorder="little")
    width, raw, at, kept = bits.shape[2], bits.tobytes(), 0, []
    for rows in groups.tolist():
        gone = 0
        for place, row in enumerate(rows):
            if row >= 0 and not gone >> place & 1:
                kept.append(row)
                gone |= int.from_bytes(raw[at : at + width], "little")
            at += width
    kept.sort()
    return np.array(kept, np.intp)


def _of_many(boxes: Array, order: Rows, overlap: float, classes: Array | None, most: int) -> Rows:
    """One walk from the best down: each that stays removes what overlaps it."""
    kept: list[np.intp] = []
    while len(order) and len(kept) < most:
        first, order = order[0], order[1:]
        kept.append(first)
        close = overlaps(boxes[first : first + 1], boxes[order])[0] > np.float32(overlap)
        if classes is not None:
            close &= classes[order] == classes[first]
        order = order[~close]
    return np.array(kept, np.intp)
