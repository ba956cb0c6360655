"""What is known of a box besides: keypoints, or a mask from prototypes. Read for the boxes that stay alone."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rknnlite.tensor import TensorAttr

from ..results import Detections
from .head import Task
from .resampling import enlarged
from .seen import Map
from .stored import Stored

__all__ = ["Cells", "Columns", "Extra", "Keypoints", "Masks", "Reader", "RowColumns", "Scaled"]

Array = NDArray[Any]


class Reader(Protocol):
    """Numbers of boxes, float32 [numbers, n], by their places."""

    count: int

    def __call__(self, outputs: Sequence[Array], places: Array) -> Array: ...


class Columns:
    """From an output [1, ..., boxes]: some of the numbers that lie before the boxes."""

    def __init__(self, index: int, attr: TensorAttr, first: int = 0, count: int = 0) -> None:
        self.index, self.stored, self.first = index, Stored(attr), first
        self.count = count or int(np.prod(attr.dims[1:-1]))

    def __call__(self, outputs: Sequence[Array], places: Array) -> Array:
        array = outputs[self.index][0]
        flat = array.reshape(-1, array.shape[-1])[self.first : self.first + self.count]
        return self.stored.real(flat.take(places, axis=1))


class RowColumns:
    """From an output [1, boxes, numbers]: the last ``count`` numbers."""

    def __init__(self, index: int, attr: TensorAttr, count: int) -> None:
        self.index, self.stored, self.count = index, Stored(attr), count

    def __call__(self, outputs: Sequence[Array], places: Array) -> Array:
        return self.stored.real(outputs[self.index][0][places, -self.count :]).T


class Cells:
    """From maps, one for each stride, with ``anchors`` boxes in each cell: places go by stride, anchor, cell."""

    def __init__(self, maps: Sequence[Map], anchors: int = 1) -> None:
        self.maps, self.anchors = list(maps), anchors
        self.stored = [Stored(m.attr) for m in maps]
        self.count = maps[0].channels // anchors
        sizes = [m.height * m.width * anchors for m in maps]
        self.starts = np.cumsum([0, *sizes])

    def __call__(self, outputs: Sequence[Array], places: Array) -> Array:
        numbers = np.empty((self.count, len(places)), np.float32)
        for number, m in enumerate(self.maps):
            here = np.flatnonzero((places >= self.starts[number]) & (places < self.starts[number + 1]))
            anchor, cell = np.divmod(places[here] - self.starts[number], m.height * m.width)
            table = m.cells(outputs).reshape(self.anchors, self.count, -1)
            numbers[:, here] = self.stored[number].real(table[anchor, :, cell]).T
        return numbers


class Scaled:
    """Numbers of another reader, each times a factor of its own."""

    def __init__(self, read: Reader, factors: Array) -> None:
        self.read, self.count = read, read.count
        self.factors = factors.astype(np.float32)[:, None]

    def __call__(self, outputs: Sequence[Array], places: Array) -> Array:
        scaled: Array = self.read(outputs, places) * self.factors
        return scaled


class Extra(abc.ABC):
    """Something known of each box.

    Attributes:
        task: what a head with it tells.
        said: how the family's name goes on.
    """

    task: Task
    said: str

    @abc.abstractmethod
    def added(
        self, found: Detections, places: Array, outputs: Sequence[Array], size: tuple[int, int]
    ) -> Detections:
        """``found`` with it; rows for which it is not a number are left out."""


class Keypoints(Extra):
    """Points of a body, x, y and maybe a score."""

    task = Task.POSE

    def __init__(self, read: Reader, numbers: int = 3) -> None:
        self.read, self.numbers = read, numbers
        self.said = f"{read.count // numbers} keypoints"

    def added(
        self, found: Detections, places: Array, outputs: Sequence[Array], size: tuple[int, int]
    ) -> Detections:
        points = self.read(outputs, places).T.reshape(
            len(places), self.read.count // self.numbers, self.numbers
        )
        if self.numbers == 2:
            points = np.concatenate([points, np.ones((*points.shape[:2], 1), np.float32)], axis=2)
        right = np.isfinite(points).all(axis=(1, 2))
        return dataclasses.replace(found[right], keypoints=points[right])


class Masks(Extra):
    """Masks that are sums of prototypes; a mask ends at its box."""

    task = Task.INSTANCE

    def __init__(self, read: Reader, prototypes: Map) -> None:
        self.read, self.prototypes = read, prototypes
        self.stored = Stored(prototypes.attr)
        self.said = f"masks of {read.count} prototypes"

    def added(
        self, found: Detections, places: Array, outputs: Sequence[Array], size: tuple[int, int]
    ) -> Detections:
        weights = self.read(outputs, places)
        right = np.isfinite(weights).all(axis=0)
        found, weights = found[right], weights[:, right]
        masks = np.zeros((len(found), size[1], size[0]), np.bool_)
        if len(found):
            table = self.stored.real(self.prototypes.cells(outputs))
            small = (weights.T @ table).reshape(len(found), self.prototypes.height, self.prototypes.width)
            for mask, logits, box in zip(masks, small, found.boxes):
                _inside(mask, logits, box)
        return dataclasses.replace(found, masks=masks)


def _inside(mask: Array, logits: Array, box: Array) -> None:
    """Set the pixels of ``mask`` whose corner lies in the box, and at which the enlarged ``logits`` are above zero."""
    height, width = mask.shape
    x1, y1, x2, y2 = np.ceil(box).clip(0, [width, height, width, height]).astype(int)
    if x2 > x1 and y2 > y1:
        rows, columns = np.arange(y1, y2), np.arange(x1, x2)
        mask[y1:y2, x1:x2] = enlarged(logits, (height, width), rows, columns) > 0
