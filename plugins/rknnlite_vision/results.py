"""What is found in one picture: rows of boxes, classes, a mask, text, a vector."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ParamInvalid

from .placement import Placement

__all__ = ["Classes", "Detections", "Embedding", "Lines", "Result", "Segments", "Words"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Detections:
    """Things found in one picture, best first: arrays with one row for each. Places are in pixels, x before y.

    Attributes:
        boxes: float32 [n, 4], x1, y1, x2, y2; of turned boxes the upright ones around them.
        scores: float32 [n].
        classes: int64 [n].
        keypoints: float32 [n, k, 3], x, y, score; None for heads without.
        rotated: float32 [n, 5], centre x, y, width, height, angle in radians, clockwise; None for upright boxes.
        masks: bool [n, height, width] of the whole picture; None for heads without.
        tracks: int64 [n], numbers that a tracker gave; None without one.

    Examples:
        >>> found = Detections(np.array([[10, 20, 30, 60]]), np.array([0.9]), np.array([2]))
        >>> len(found), found.boxes.dtype
        (1, dtype('float32'))
    """

    boxes: Array
    scores: Array
    classes: Array
    keypoints: Optional[Array] = None
    rotated: Optional[Array] = None
    masks: Optional[Array] = None
    tracks: Optional[Array] = None

    def __post_init__(self) -> None:
        n = len(self.scores)
        for name, (dtype, tail) in _COLUMNS.items():
            value = getattr(self, name)
            if value is None:
                continue
            array = np.asarray(value, dtype)
            shape = array.shape[1:]
            if len(array) != n or len(shape) != len(tail) or any(t and t != s for t, s in zip(tail, shape)):
                wanted = ", ".join(str(t or "any") for t in (n, *tail))
                raise ParamInvalid(f"Detections: {name} is {list(array.shape)}, must be [{wanted}]")
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, rows: Any) -> Detections:
        """Some of the rows: a mask, numbers, or a slice."""
        columns = ((name, getattr(self, name)) for name in _COLUMNS)
        chosen: dict[str, Any] = {name: value if value is None else value[rows] for name, value in columns}
        return Detections(**chosen)

    def placed(self, placement: Placement) -> Detections:
        """The same in pixels of the picture that lies in the network's input as ``placement`` says, cut at its edges."""
        points = None
        if self.keypoints is not None:
            points = self.keypoints.copy()
            points[..., :2] = placement.back(self.keypoints[..., :2])
        return dataclasses.replace(
            self,
            boxes=placement.boxes_back(self.boxes),
            keypoints=points,
            rotated=None if self.rotated is None else placement.rotated_back(self.rotated),
            masks=None if self.masks is None else placement.pixels_back(self.masks),
        )


_COLUMNS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "boxes": (np.float32, (4,)),
    "scores": (np.float32, ()),
    "classes": (np.int64, ()),
    "keypoints": (np.float32, (0, 3)),
    "rotated": (np.float32, (5,)),
    "masks": (np.bool_, (0, 0)),
    "tracks": (np.int64, ()),
}
"""Element type and shape behind the rows; 0 is any size."""


@dataclass(frozen=True)
class Classes:
    """Which class a picture is: numbers of classes int64 [k] and scores float32 [k], best first.

    Examples:
        >>> Classes(np.array([7, 1]), np.array([0.9, 0.05])).classes.tolist()
        [7, 1]
    """

    classes: Array
    scores: Array

    def placed(self, placement: Placement) -> Classes:
        """Itself: a class has no place."""
        return self


@dataclass(frozen=True)
class Segments:
    """The class of each pixel, integers [height, width].

    Examples:
        >>> Segments(np.zeros((2, 3), np.uint8)).classes.shape
        (2, 3)
    """

    classes: Array

    def placed(self, placement: Placement) -> Segments:
        """The same for the pixels of the picture: the nearest."""
        return Segments(placement.pixels_back(self.classes))


@dataclass(frozen=True)
class Words:
    """What is written: the text, and the mean score of its characters.

    Examples:
        >>> Words("A1", 0.98).text
        'A1'
    """

    text: str
    score: float

    def placed(self, placement: Placement) -> Words:
        """Itself: what is read is the whole picture."""
        return self


@dataclass(frozen=True)
class Lines:
    """Lines of text in the order in which they are read: where each is, and what is written there.

    Examples:
        >>> places = Detections(np.array([[10, 20, 90, 40]]), np.array([0.9]), np.array([0]))
        >>> Lines(places, (Words("A1", 0.98),)).text
        'A1'
    """

    places: Detections
    words: tuple[Words, ...]

    @property
    def text(self) -> str:
        """All of it, line by line."""
        return "\n".join(one.text for one in self.words)

    def placed(self, placement: Placement) -> Lines:
        """The same in pixels of the picture."""
        return dataclasses.replace(self, places=self.places.placed(placement))


@dataclass(frozen=True)
class Embedding:
    """A vector float32 [n] that is near to those of pictures of the same.

    Examples:
        >>> Embedding(np.array([3.0, 4.0])).cosine(Embedding(np.array([3.0, 4.0])))
        1.0
    """

    vector: Array

    def cosine(self, other: Embedding) -> float:
        """Cosine of the angle between both: 1 for the same direction; 0 where one is nothing but zeros."""
        a, b = (np.asarray(e.vector, np.float64).ravel() for e in (self, other))
        if a.shape != b.shape:
            raise ParamInvalid(
                f"Embedding: {a.size} numbers and {b.size} cannot be compared; use one network for both"
            )
        length = float(np.linalg.norm(a) * np.linalg.norm(b))
        return min(1.0, max(-1.0, float(a @ b) / length)) if length else 0.0

    def l2(self, other: Embedding) -> float:
        """Length of the difference: 0 for the same vector."""
        a, b = (np.asarray(e.vector, np.float64).ravel() for e in (self, other))
        if a.shape != b.shape:
            raise ParamInvalid(
                f"Embedding: {a.size} numbers and {b.size} cannot be compared; use one network for both"
            )
        return float(np.linalg.norm(a - b))

    def placed(self, placement: Placement) -> Embedding:
        """Itself: a vector has no place."""
        return self


Result = Union[Detections, Classes, Segments, Words, Lines, Embedding]
