"""Lines, areas and text on pixels, in place, with numpy alone: smooth edges, and whatever lies outside is left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .font import letters

__all__ = ["blend", "contrast", "disc", "fill", "line", "outline", "rectangle", "text_size", "write_text"]

Array = NDArray[Any]
Colour = tuple[int, int, int]
_FAR = 1 << 20
"""Places are taken as no farther away; networks give any number."""


def fill(picture: Array, box: Sequence[float], colour: Colour, opacity: float = 1.0) -> None:
    """An upright box, x1, y1, x2, y2, its last pixel left out."""
    window = _window(picture, box)
    if opacity >= 1:
        window[...] = colour
    elif window.size:
        _mix(window, np.full(window.shape[:2], opacity, np.float32), colour)


def rectangle(picture: Array, box: Sequence[float], colour: Colour, thick: int) -> None:
    """The edges of an upright box; half of their thickness lies outside of it."""
    if not _is_finite(box):
        return
    x1, y1, x2, y2 = (round(_bounded(value)) for value in box)
    out, inside = thick // 2, thick - thick // 2
    for edge in (
        (x1 - out, y1 - out, x2 + out, y1 + inside),
        (x1 - out, y2 - inside, x2 + out, y2 + out),
        (x1 - out, y1, x1 + inside, y2),
        (x2 - inside, y1, x2 + out, y2),
    ):
        fill(picture, edge, colour)


def line(picture: Array, start: Sequence[float], end: Sequence[float], colour: Colour, thick: float) -> None:
    """A straight line with round ends."""
    if not _is_finite([*start, *end]):
        return
    (x1, y1), (x2, y2) = ([_bounded(value) for value in point] for point in (start, end))
    around = thick / 2 + 1
    box = (min(x1, x2) - around, min(y1, y2) - around, max(x1, x2) + around, max(y1, y2) + around)
    window, left, top = _window_at(picture, box)
    if not window.size:
        return
    y, x = np.ogrid[: window.shape[0], : window.shape[1]]
    px, py = (x + (left + 0.5 - x1)).astype(np.float32), (y + (top + 0.5 - y1)).astype(np.float32)
    dx, dy = x2 - x1, y2 - y1
    along = np.clip((px * dx + py * dy) / max(dx * dx + dy * dy, 1e-9), 0, 1)
    distance = np.hypot(px - along * dx, py - along * dy)
    _mix(window, np.clip(thick / 2 + 0.5 - distance, 0, 1), colour)


def outline(picture: Array, corners: Array, colour: Colour, thick: float) -> None:
    """Lines from corner to corner [n, 2], and back to the first."""
    for start, end in zip(corners, np.roll(corners, -1, axis=0)):
        line(picture, start, end, colour, thick)


def disc(picture: Array, centre: Sequence[float], radius: float, colour: Colour) -> None:
    """A filled circle."""
    line(picture, centre, centre, colour, 2 * radius)


def blend(picture: Array, left: float, top: float, cover: Array, colour: Colour) -> None:
    """A colour where ``cover`` [height, width], 0 to 1, says so; its first pixel lies at ``left``, ``top``."""
    height, width = cover.shape
    window, x, y = _window_at(picture, (left, top, left + width, top + height))
    if window.size:
        rows, columns = window.shape[:2]
        dx, dy = x - round(left), y - round(top)
        _mix(window, cover[dy : dy + rows, dx : dx + columns], colour)


def text_size(text: str, height: int) -> tuple[int, int]:
    """Width and height of a line of text in pixels."""
    rows, columns = letters(text, height).shape
    return columns, rows


def write_text(picture: Array, left: float, top: float, text: str, height: int, colour: Colour) -> None:
    """A line of text below and right of a place."""
    if text and _is_finite([left, top]):
        blend(picture, _bounded(left), _bounded(top), letters(text, height) / np.float32(255), colour)


def contrast(colour: Colour) -> Colour:
    """Black or white, whichever is read better on a colour."""
    red, green, blue = colour
    return (0, 0, 0) if 0.299 * red + 0.587 * green + 0.114 * blue > 130 else (255, 255, 255)


def _mix(window: Array, cover: Array, colour: Colour) -> None:
    mixed = window + (np.array(colour, np.float32) - window) * cover[..., None]
    window[...] = np.rint(mixed).astype(np.uint8)


def _window(picture: Array, box: Sequence[float]) -> Array:
    return _window_at(picture, box)[0]


def _window_at(picture: Array, box: Sequence[float]) -> tuple[Array, int, int]:
    """What of a box is in the picture, and where that begins; nothing for a box that is none."""
    height, width = picture.shape[:2]
    if not _is_finite(box):
        return picture[:0, :0], 0, 0
    x1, y1, x2, y2 = (round(_bounded(value)) for value in box)
    left, top = min(max(x1, 0), width), min(max(y1, 0), height)
    right, bottom = min(max(x2, left), width), min(max(y2, top), height)
    return picture[top:bottom, left:right], left, top


def _is_finite(values: Sequence[float]) -> bool:
    return all(math.isfinite(value) for value in values)


def _bounded(value: float) -> float:
    return min(max(float(value), -_FAR), _FAR)
