"""What was found, drawn on the picture: boxes with labels, keypoints, masks, turned boxes, tracks. numpy alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .canvas import (
    Colour,
    blend,
    contrast,
    disc,
    fill,
    line,
    outline,
    rectangle,
    text_size,
    write_text,
)
from .font import can_write
from .rectangles import corners_of
from .results import Classes, Detections, Lines, Result, Segments, Words

__all__ = ["PALETTE", "SURE", "Trails", "draw"]

Array = NDArray[Any]
NameOf = Callable[[int], str]

PALETTE: tuple[Colour, ...] = (
    (230, 60, 70), (60, 160, 245), (70, 190, 90), (250, 190, 50), (160, 100, 230), (40, 200, 200), (245, 130, 50),
    (230, 90, 180), (150, 200, 60), (110, 125, 250), (190, 140, 90), (0, 150, 130), (250, 150, 150), (120, 200, 250),
    (180, 60, 130), (140, 140, 50), (90, 90, 160), (200, 200, 120), (60, 130, 60), (160, 160, 175),
)  # fmt: skip
"""Colours of classes, RGB; the next class after the last has the first."""
_SKELETONS = {
    17: ((15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7), (6, 8), (7, 9), (8, 10), (1, 2),
         (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6)),
    21: tuple((0 if n % 4 == 1 else n - 1, n) for n in range(1, 21)),
}  # fmt: skip
"""Which points are joined, by their number: people as COCO has them, hands from the wrist to the tips of the fingers."""
SURE = 0.5
"""Score from which on a keypoint is drawn."""
_COVER = 0.45
"""Of masks: how much of the picture they hide."""
_MOST_LINES = 12


class Trails:
    """Where tracks were: the last places of each, which ``draw`` joins to a line.

    Args:
        length: places that are kept.

    Examples:
        >>> trails = Trails(length=2)
        >>> for x in (0, 10, 20):
        ...     trails.add(Detections(np.array([[x, 0, x + 4, 4]]), np.array([0.9]), np.array([0]), tracks=np.array([5])))
        >>> trails.points[5]
        [(12.0, 2.0), (22.0, 2.0)]
    """

    def __init__(self, length: int = 30) -> None:
        self._length = length
        self._places: dict[int, deque[tuple[float, float]]] = {}

    def add(self, found: Detections) -> None:
        """The places of a further frame; tracks that are not in it are forgotten."""
        tracks = [] if found.tracks is None else found.tracks.tolist()
        old = self._places
        self._places = {track: old.get(track, deque(maxlen=self._length)) for track in tracks}
        for track, (x1, y1, x2, y2) in zip(tracks, found.boxes.tolist()):
            self._places[track].append(((x1 + x2) / 2, (y1 + y2) / 2))

    @property
    def points(self) -> dict[int, list[tuple[float, float]]]:
        """Centres by number of the track, the last one at the end."""
        return {track: list(places) for track, places in self._places.items()}


def draw(picture: Array, result: Result, name_of: NameOf, trails: Optional[Trails] = None) -> Array:
    """A copy of a picture, RGB uint8 [height, width, 3], with what was found in it.

    Args:
        name_of: the label of a class, ``VisionModel.name_of``. Of lines of text one that no font here can write is drawn as its
            number in the order of ``Lines``.
        trails: ways of tracks up to this frame.

    Examples:
        >>> found = Detections(np.array([[10, 20, 30, 40]]), np.array([0.9]), np.array([0]))
        >>> bool((draw(np.zeros((48, 64, 3), np.uint8), found, str) != 0).any())
        True
    """
    canvas = np.ascontiguousarray(picture).copy()
    if isinstance(result, Detections):
        for track, points in (trails.points if trails else {}).items():
            for start, end in zip(points, points[1:]):
                line(canvas, start, end, _colour(track), _thickness(canvas))
        for row in reversed(range(len(result))):  # the surest on top
            _thing(canvas, result, row, name_of)
    elif isinstance(result, Segments):
        _regions(canvas, result.classes, name_of)
    elif isinstance(result, Classes):
        rows = zip(result.classes.tolist(), result.scores.tolist())
        _legend(canvas, [(f"{name_of(number)} {score:.2f}", _colour(number)) for number, score in rows])
    elif isinstance(result, Words):
        _legend(canvas, [(f"{result.text} {result.score:.2f}", PALETTE[1])])
    elif isinstance(result, Lines):
        for row, words in enumerate(result.words):
            label = words.text if can_write(words.text) else f"#{row + 1}"
            _frame(canvas, result.places, row, _colour(row))
            if label:
                _label(canvas, result.places.boxes[row].tolist(), label, _colour(row))
    return canvas


def _thing(canvas: Array, found: Detections, row: int, name_of: NameOf) -> None:
    number = int(found.classes[row])
    track = None if found.tracks is None else int(found.tracks[row])
    colour = _colour(number if track is None else track)
    if found.masks is not None:
        _mask(canvas, found.masks[row], colour)
    label = name_of(number) if track is None else f"#{track} {name_of(number)}"
    _frame(canvas, found, row, colour)
    if found.keypoints is not None:
        _points(canvas, found.keypoints[row], _thickness(canvas))
    _label(canvas, found.boxes[row].tolist(), f"{label} {found.scores[row]:.2f}", colour)


def _frame(canvas: Array, found: Detections, row: int, colour: Colour) -> None:
    """The edges of a box."""
    if found.rotated is not None:
        outline(canvas, corners_of(found.rotated[row]), colour, _thickness(canvas))
    else:
        rectangle(canvas, found.boxes[row].tolist(), colour, _thickness(canvas))


def _mask(canvas: Array, mask: Array, colour: Colour) -> None:
    """The colour over a mask; only the part of the picture that it lies in is touched."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if len(rows):
        part = mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        blend(canvas, int(columns[0]), int(rows[0]), part * np.float32(_COVER), colour)


def _points(canvas: Array, points: Array, thick: int) -> None:
    """Keypoints, and what joins those that are sure."""
    sure = points[:, 2] >= SURE
    for index, (a, b) in enumerate(_SKELETONS.get(len(points), ())):
        if sure[a] and sure[b]:
            line(canvas, points[a, :2].tolist(), points[b, :2].tolist(), _colour(index), thick)
    for index in np.flatnonzero(sure).tolist():
        disc(canvas, points[index, :2].tolist(), thick * 1.5, _colour(index))


def _label(canvas: Array, box: list[float], text: str, colour: Colour) -> None:
    """On top of the box; inside where there is no room above, and moved left at the right edge."""
    if not np.isfinite(box).all():
        return
    height, thick = _letters(canvas), _thickness(canvas)
    width, rows = text_size(text, height)
    pad = max(1, thick)
    x = max(0.0, min(box[0] - thick // 2, canvas.shape[1] - width - 2 * pad))
    y = box[1] - rows - 2 * pad
    if y < 0:
        y = max(0.0, box[1])
    fill(canvas, (x, y, x + width + 2 * pad, y + rows + 2 * pad), colour)
    write_text(canvas, x + pad, y + pad, text, height, contrast(colour))


def _regions(canvas: Array, classes: Array, name_of: NameOf) -> None:
    """Each pixel in the colour of its class, half through; a legend of the largest."""
    numbers, counts = np.unique(classes, return_counts=True)
    colours = np.array(PALETTE, np.float32)[classes.astype(np.int64) % len(PALETTE)]
    canvas[...] = np.rint(canvas + (colours - canvas) * np.float32(_COVER)).astype(np.uint8)
    order = np.argsort(-counts, kind="stable")
    _legend(canvas, [(name_of(int(numbers[i])), _colour(int(numbers[i]))) for i in order])


def _legend(canvas: Array, rows: list[tuple[str, Colour]]) -> None:
    """Lines of text on a darker ground in the upper left corner, each with its colour before it."""
    height, pad = _letters(canvas), _thickness(canvas) * 2
    rows = rows[:_MOST_LINES]
    if not rows:
        return
    sizes = [text_size(text, height) for text, _ in rows]
    step = max(size[1] for size in sizes) + pad
    width = max(size[0] for size in sizes) + 3 * pad + height
    fill(canvas, (0, 0, width, step * len(rows) + pad), (0, 0, 0), 0.6)
    for index, (text, colour) in enumerate(rows):
        top = pad + index * step
        fill(canvas, (pad, top, pad + height, top + height), colour)
        write_text(canvas, height + 2 * pad, top, text, height, (255, 255, 255))


def _colour(number: int) -> Colour:
    return PALETTE[number % len(PALETTE)]


def _thickness(canvas: Array) -> int:
    return max(1, round(sum(canvas.shape[:2]) / 700))


def _letters(canvas: Array) -> int:
    """Height of text for a picture of that size."""
    return max(8, round(sum(canvas.shape[:2]) / 70))
