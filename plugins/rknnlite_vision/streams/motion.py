"""Where things go: a Kalman filter of constant speed on the centre, the proportions and the height of boxes.

Its noise is the same for all four but in size, and none leaks from one to another, so the matrices of the published form fall
apart into four filters of a place and a speed each.

A state is float64 [5, 4]: place, speed, and their variances: of the place, of both, of the speed; columns x, y, width / height,
height.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["begun", "boxes", "measured", "predicted", "updated"]

Array = NDArray[Any]
_PLACE, _SPEED = 1 / 20, 1 / 160  # standard deviations, in heights of the box
_ASPECT, _ASPECT_SPEED, _ASPECT_SEEN = 1e-2, 1e-5, 1e-1  # of the proportions


def measured(boxes: Array) -> Array:
    """Boxes [n, 4] as x, y of the centre, width / height, height."""
    corners = np.asarray(boxes, np.float64)
    sizes = corners[:, 2:] - corners[:, :2]
    return np.column_stack([corners[:, :2] + sizes / 2, sizes[:, 0] / sizes[:, 1], sizes[:, 1]])


def boxes(states: Array) -> Array:
    """The boxes [n, 4] of states [n, 5, 4]."""
    place = states[:, 0]
    half = np.column_stack([place[:, 2] * place[:, 3], place[:, 3]]) / 2
    return np.concatenate([place[:, :2] - half, place[:, :2] + half], axis=1)


def begun(places: Array) -> Array:
    """States of things that were seen once, at rest."""
    states = np.zeros((len(places), 5, 4))
    states[:, 0] = places
    states[:, 2] = _variance(places, 2 * _PLACE, _ASPECT)
    states[:, 4] = _variance(places, 10 * _SPEED, _ASPECT_SPEED)
    return states


def predicted(states: Array) -> Array:
    """States one picture later."""
    place, speed, pp, ps, ss = states.swapaxes(0, 1)
    later = (
        place + speed,
        speed,
        pp + 2 * ps + ss + _variance(place, _PLACE, _ASPECT),
        ps + ss,
        ss + _variance(place, _SPEED, _ASPECT_SPEED),
    )
    return np.stack(later, axis=1)


def updated(states: Array, places: Array) -> Array:
    """States once things have been seen at those places."""
    place, speed, pp, ps, ss = states.swapaxes(0, 1)
    total = pp + _variance(place, _PLACE, _ASPECT_SEEN)
    off = places - place
    now = (
        place + pp / total * off,
        speed + ps / total * off,
        pp - pp * pp / total,
        ps - pp * ps / total,
        ss - ps * ps / total,
    )
    return np.stack(now, axis=1)


def _variance(places: Array, share: float, aspect: float) -> Array:
    deviation = np.repeat(share * places[:, 3:], 4, axis=1)
    deviation[:, 2] = aspect
    return np.square(deviation)
