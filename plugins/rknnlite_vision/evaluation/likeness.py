"""How much what is found is like what is there: overlaps of boxes and masks, and of keypoints (OKS), with COCO's arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .masks import drawn
from .truth import Things

__all__ = ["PERSON", "box_likeness", "keypoint_likeness", "mask_likeness"]

Array = NDArray[Any]
PERSON = np.array([26, 25, 25, 35, 35, 79, 79, 72, 72, 62, 62, 107, 107, 87, 87, 89, 89]) / 1000
"""How far people put COCO's 17 points of a person from each other, in square roots of its area."""


def box_likeness(boxes: Array, things: Things) -> Array:
    """Intersection over union [n, m] of boxes [n, 4] (x, y, width, height) and things; over the box itself for crowds.

    Examples:
        >>> box_likeness(np.array([[0.0, 0, 2, 2]]), Things.of([0], [[1, 0, 2, 2]])).round(3)
        array([[0.333]])
    """
    a, b = boxes[:, None], things.boxes[None]
    ends = np.minimum(a[..., :2] + a[..., 2:], b[..., :2] + b[..., 2:])
    width, height = np.moveaxis(ends - np.maximum(a[..., :2], b[..., :2]), -1, 0)
    shared = np.where((width > 0) & (height > 0), width * height, 0.0)
    own, other = (side[..., 2] * side[..., 3] for side in (a, b))
    together = np.where(things.crowd, own, own + other - shared)
    ratio: Array = np.divide(shared, together, out=np.zeros_like(shared), where=shared > 0)
    return ratio


def keypoint_likeness(points: Array, things: Things) -> Array:
    """Object keypoint similarity [n, m] of points [n, k, 2 or 3] and things.

    Of a thing no point of which is marked, points count as right within its box twice as large.
    """
    assert things.keypoints is not None
    count = things.keypoints.shape[1]
    sigmas = PERSON if count == len(PERSON) else np.full(count, 1 / count)
    found: Array = np.zeros((len(points), len(things.boxes)))
    for m, (truth, box, area) in enumerate(zip(things.keypoints, things.boxes, things.areas)):
        marked = truth[:, 2] > 0
        if marked.any():
            off = points[:, :, :2] - truth[:, :2]
        else:
            start, end = box[:2] - box[2:], box[:2] + box[2:] * 2
            off = np.maximum(0, start - points[:, :, :2]) + np.maximum(0, points[:, :, :2] - end)
        error = (off[..., 0] ** 2 + off[..., 1] ** 2) / (sigmas * 2) ** 2 / (area + np.spacing(1)) / 2
        for n, row in enumerate(error):
            picked = row[marked] if marked.any() else row
            found[n, m] = np.sum(np.exp(-picked)) / picked.shape[0]
    return found


def mask_likeness(masks: Array, things: Things) -> Array:
    """Intersection over union [n, m] of masks bool [n, height, width] and things, in pixels; over the mask itself for crowds.

    Raises ValueError: an outline is none, or is of a picture of another size.
    """
    if not len(masks) or not len(things.outlines):
        return np.zeros((len(masks), len(things.outlines)))
    height, width = masks.shape[1:]
    there = np.stack([drawn(outline, height, width) for outline in things.outlines]).reshape(
        -1, height * width
    )
    found = masks.reshape(len(masks), -1)
    shared = found.astype(np.float64) @ there.T.astype(np.float64)
    own, other = found.sum(axis=1)[:, None], there.sum(axis=1)
    together = np.where(things.crowd, own, own + other - shared)
    ratio: Array = np.divide(shared, together, out=np.zeros_like(shared), where=shared > 0)
    return ratio
