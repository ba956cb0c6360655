"""Which thing each detection of a class in a picture has found, best detection first, as COCO pairs them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["pair"]

Array = NDArray[Any]


def pair(likeness: Array, limits: Array, ignored: Array, crowd: Array) -> tuple[Array, Array]:
    """Pair detections with things, for all limits and all ranges of sizes at once.

    A detection takes the thing that it is most like, of those that count and are free; else of those that do not count, of
    which crowds are never used up.

    Args:
        likeness: [detections, things], detections best first.
        limits: [t], least likeness.
        ignored: bool [a, things]: what does not count in each range of sizes, crowds always.
        crowd: bool [things].

    Returns:
        bool [a, t, detections] twice: whether it has found something, and whether that does not count.

    Examples:
        >>> found, _ = pair(np.array([[0.9], [0.8]]), np.array([0.5]), np.zeros((1, 1), bool), np.zeros(1, bool))
        >>> found[0, 0]
        array([ True, False])
    """
    least = np.minimum(limits, 1 - 1e-10)[:, None]
    shape = (len(ignored), len(limits))
    taken = np.zeros((*shape, likeness.shape[1]), bool)
    found = np.zeros((*shape, len(likeness)), bool)
    aside = np.zeros_like(found)
    for n in np.flatnonzero((likeness >= least.min()).any(axis=1)):
        free = (likeness[n] >= least) & (~taken | crowd)
        counting = free & ~ignored[:, None]
        counts = counting.any(axis=2)
        choice = np.where(counts[..., None], counting, free & ignored[:, None])
        found[..., n] = choice.any(axis=2)
        aside[..., n] = found[..., n] & ~counts
        values = np.where(choice, likeness[n], -1.0)[..., ::-1]
        best = values.shape[2] - 1 - values.argmax(axis=2)  # of equals the last
        a, t = np.nonzero(found[..., n])
        taken[a, t, best[a, t]] = True
    return found, aside
