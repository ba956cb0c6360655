"""Text in pictures: a network finds the lines, another reads them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid

from .crops import cut_out
from .heads.head import ASKED, Limits, Task
from .model import VisionModel, open_vision
from .results import Detections, Lines, Result, Words

__all__ = ["TextReader", "finding_limits", "in_reading_order"]

Array = NDArray[Any]
Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview]
_LEAST, _OVERLAP, _MOST = 0.3, 0.5, 1000
_LEAST_OF_LINES = 0.5


class TextReader:
    """Finds lines of text in pictures and reads them.

    Args:
        detector: finds lines of text, or other things with something written on them.
        reader: reads one line. ``close`` closes both.

    Raises:
        ModelInvalid: one of them does something else.

    Examples:
        >>> detector = "examples/detect/detect_for_RK3588.rknn"
        >>> TextReader.open(detector, "examples/resnet18/resnet18_for_RK3588.rknn")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        rknnlite.errors.ModelInvalid: classification, ... is for another task: classify; give a network to read text
    """

    def __init__(self, detector: VisionModel, reader: VisionModel) -> None:
        for model, asked, wanted in (
            (detector, ASKED["detect"], "find boxes"),
            (reader, ASKED["read"], "read text"),
        ):
            if model.head.task not in asked:
                raise ModelInvalid(
                    f"{model.head.family} is for another task: {model.head.task.value}; give a network to {wanted}"
                )
        self.detector, self.reader = detector, reader

    @classmethod
    def open(
        cls,
        detector: Source,
        reader: Source,
        *,
        labels: Any = None,
        hint: str = "",
        detector_hint: str = "",
        **options: Any,
    ) -> TextReader:
        """Open both networks, as ``open_vision`` does.

        Args:
            labels: the characters that the reader tells apart.
            hint: for the reader's head.
            detector_hint: for the detector's.
            options: of both.

        Raises what ``open_vision`` and ``TextReader`` raise; then nothing stays open.
        """
        with ExitStack() as opened:
            finds = open_vision(detector, hint=detector_hint, tasks=ASKED["detect"], **options)
            opened.callback(finds.close)
            reads = open_vision(reader, labels=labels, hint=hint, tasks=ASKED["read"], **options)
            opened.callback(reads.close)
            both = cls(finds, reads)
            opened.pop_all()
        return both

    def read(self, picture: Array, limits: Optional[Limits] = None) -> Lines:
        """The lines of a picture, RGB uint8 [height, width, 3], in the order in which they are read.

        Args:
            limits: which of the found lines are read; None: ``finding_limits``.
        """
        found = self.detector.see(picture, limits or finding_limits(self.detector.head.task))
        places = in_reading_order(found)
        size = self.reader.context.inputs[0].dims[0]
        read: list[Result] = []
        for start in range(0, len(places), size):
            rows = range(start, min(start + size, len(places)))
            read += self.reader.see_all([cut_out(picture, places, row) for row in rows], Limits(score=0.0))
        return Lines(places, tuple(one for one in read if isinstance(one, Words)))

    def close(self) -> None:
        """Close both networks; may be called again."""
        self.detector.close()
        self.reader.close()

    def __enter__(self) -> TextReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def finding_limits(task: Task, score: Optional[float] = None) -> Limits:
    """What of a detector's finds is read, where ``score`` is None: 0.3 of boxes, 0.5 of lines of text."""
    least = _LEAST_OF_LINES if task is Task.LINES else _LEAST
    return Limits(least if score is None else score, _OVERLAP, _MOST)


def in_reading_order(found: Any) -> Detections:
    """Boxes from the top down, those beside each other from left to right. Raises ModelInvalid for what has no boxes.

    Examples:
        >>> found = Detections(np.array([[50, 0, 90, 20], [0, 4, 40, 24], [0, 30, 9, 50]]), np.ones(3), np.zeros(3))
        >>> in_reading_order(found).boxes[:, 0].tolist()
        [0.0, 50.0, 0.0]
    """
    if not isinstance(found, Detections):
        raise ModelInvalid("the detector finds no boxes")
    boxes = np.nan_to_num(found.boxes)
    middles, heights = boxes[:, 1::2].mean(axis=1), boxes[:, 3] - boxes[:, 1]
    if found.rotated is not None:  # a turned line is as high as it is thick
        heights = np.minimum(heights, np.nan_to_num(found.rotated[:, 2:4]).min(axis=1))
    row, number = np.zeros(len(found)), -1
    first: Optional[int] = None
    for n in np.lexsort((boxes[:, 0], middles)).tolist():
        if first is None or middles[n] - middles[first] > min(heights[n], heights[first]) / 2:
            first, number = n, number + 1
        row[n] = number
    return found[np.lexsort((middles, boxes[:, 0], row))]
