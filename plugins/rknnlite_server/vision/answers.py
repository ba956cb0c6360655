"""What was found in a picture as an answer: JSON, or the picture with what was found drawn on it."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Optional

import numpy as np
from rknnlite_vision.described import described
from rknnlite_vision.drawing import draw
from rknnlite_vision.pictures import encode
from rknnlite_vision.placement import Placement
from rknnlite_vision.results import Detections, Embedding, Result, Segments

from ..errors import bad_request
from .asked import FORMS, JSON, Asked
from .sights import Sight, no_numbers, pixels_of

__all__ = ["Seen", "answered", "mask_file"]

_MOST_MASKED = 1 << 28
"""Pixels of all masks of an answer together: they take a byte each while they are made."""


@dataclass(frozen=True)
class Seen:
    """What a network told of a picture, in pixels of its input, and where the picture lies there."""

    sight: Sight
    result: Result
    placement: Placement
    run_us: int

    def without_masks(self) -> Seen:
        """The same, of things that have masks their boxes alone."""
        if not isinstance(self.result, Detections) or self.result.masks is None:
            return self
        return replace(self, result=replace(self.result, masks=None))

    def placed(self) -> Iterator[Result]:
        """What was found, in pixels of the picture. Things with masks come one by one: all at once might not fit into memory.

        Raises ApiError where their masks are larger than an answer may be.
        """
        result = self.result
        if isinstance(result, Detections) and result.masks is not None:
            self._check_masks(len(result))
            for row in range(len(result)):
                yield result[row : row + 1].placed(self.placement)
            return
        if isinstance(result, Segments):
            self._check_masks(len(np.unique(result.classes)))
        yield result.placed(self.placement)

    def _check_masks(self, count: int) -> None:
        width, height = self.placement.picture
        if count * width * height > _MOST_MASKED:
            raise bad_request(
                f"{count} masks of {width} x {height} have more than {_MOST_MASKED} pixels; send a smaller picture, or ask for "
                "fewer by score and most, or masks=none",
                "masks",
            )


def answered(seen: Seen, asked: Asked, other: Optional[Seen] = None) -> bytes:
    """The body of an answer, of the form that was asked for; ``other`` is what the second picture gave. Raises ApiError."""
    seen = seen.without_masks() if asked.masks == "none" else seen
    return _as_json(seen, asked.masks, other) if asked.form == JSON else _as_picture(seen, asked)


def _as_json(seen: Seen, masks: str, other: Optional[Seen]) -> bytes:
    model = seen.sight.model
    found = [thing for result in seen.placed() for thing in described(result, model.name_of)]
    for thing in found:
        mask = thing.pop("mask", None)
        if mask is not None and masks != "none":
            thing["mask"] = _as_file(mask) if masks == "png" else mask
    width, height = seen.placement.picture
    told = {
        "model": seen.sight.name,
        "task": model.head.task.value,
        "head": model.head.family,
        "width": width,
        "height": height,
        "run_us": seen.run_us,
        "found": found,
    }
    if other is not None:
        found += described(other.result, model.name_of)
        told["distance"] = _distance(seen.result, other.result)
    try:
        return json.dumps(told, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        raise no_numbers(seen.sight.name, "what its outputs tell is infinite or no number") from None


def _distance(one: Result, other: Result) -> dict[str, float]:
    """How near the vectors of two pictures are to each other."""
    assert isinstance(one, Embedding) and isinstance(other, Embedding)  # the route takes no other heads
    return {"cosine": one.cosine(other), "l2": one.l2(other)}


def _as_picture(seen: Seen, asked: Asked) -> bytes:
    """Drawn on the picture, read once more: while others run it takes no memory."""
    canvas = pixels_of(asked.picture)
    for result in reversed(list(seen.placed())):  # the surest on top
        canvas = draw(canvas, result, seen.sight.model.name_of)
    return encode(canvas, FORMS[asked.form])


def _as_file(mask: dict[str, Any]) -> dict[str, Any]:
    """A mask of runs as a PNG file in base64."""
    (height, width), counts = mask["shape"], mask["counts"]
    flat = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    picture = mask_file(flat.reshape(width, height).T)
    return {"shape": mask["shape"], "png": base64.b64encode(picture).decode()}


def mask_file(mask: Any) -> bytes:
    """A mask, bool [height, width], as a PNG of one bit for each pixel: white is inside.

    Examples:
        >>> mask_file(np.array([[False, True]]))[:4]
        b'\\x89PNG'
    """
    height, width = mask.shape
    bits = np.packbits(mask, axis=1)
    rows = np.zeros((height, 1 + bits.shape[1]), np.uint8)  # none has a filter
    rows[:, 1:] = bits
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
