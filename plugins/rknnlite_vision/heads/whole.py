"""Heads that tell of the whole picture: its class, the class of each pixel, the text that is written in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ParamInvalid

from ..results import Classes, Segments, Words
from .head import Head, Limits, Task
from .seen import Seen
from .stored import Stored

__all__ = ["Classification", "Regions", "Text", "classification", "regions", "text"]

Array = NDArray[Any]
_SUM = 0.02
"""How far from 1 the sum of probabilities in few bits may be, for each step of their scale: half a step per class at most."""


def probabilities(values: Array, step: float) -> Array:
    """Real numbers [..., classes] as probabilities: as they are where they are some already, else by softmax.

    Args:
        step: the difference of two neighbours of stored integers; 0 for floats.
    """
    total = values.sum(axis=-1)
    slack = _SUM + step * values.shape[-1] / 2
    if values.size and values.min() >= 0 and values.max() <= 1 + _SUM and (np.abs(total - 1) <= slack).all():
        return values
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    result: Array = powers / powers.sum(axis=-1, keepdims=True)
    return result


class Classification(Head):
    """One number for each class: probabilities, or what a softmax makes them of."""

    task = Task.CLASSIFY

    def __init__(self, seen: Seen, classes: int) -> None:
        super().__init__(seen.inputs, seen.outputs)
        self.classes, self.size = classes, seen.size
        self.family = f"classification, {classes} classes"
        self._stored = Stored(self.outputs[0])

    def _picture(self, outputs: Sequence[Array], limits: Limits) -> Classes:
        scores = probabilities(self._stored.real(outputs[0].reshape(-1)), self._stored.step)
        scores = np.nan_to_num(scores, nan=0.0)
        order = np.argsort(-scores, kind="stable")[: limits.most]
        order = order[scores[order] >= limits.score]
        return Classes(order.astype(np.int64), scores[order].astype(np.float32))


def classification(seen: Seen) -> Optional[Classification]:
    """A picture, and one output that has no place in it: [batch, classes], or with dimensions of 1 behind or between."""
    if len(seen.outputs) != 1 or 0 in seen.size:
        return None
    sizes = [size for size in seen.outputs[0].dims[1:] if size != 1]
    return Classification(seen, sizes[0]) if len(sizes) == 1 and len(seen.outputs[0].dims) in (2, 4) else None


class Regions(Head):
    """Scores of all classes for each pixel, or for each cell of a coarser grid: the largest is its class."""

    task = Task.SEMANTIC

    def __init__(self, seen: Seen, classes: int, last: bool) -> None:
        super().__init__(seen.inputs, seen.outputs)
        self.classes, self.size, self._axis = classes, seen.size, 2 if last else 0
        self.family = f"semantic masks, {classes} classes"

    def _picture(self, outputs: Sequence[Array], limits: Limits) -> Segments:
        values = Stored(self.outputs[0]).ordered(outputs[0][0])
        return Segments(values.argmax(axis=self._axis).astype(np.uint16))


def regions(seen: Seen) -> Optional[Regions]:
    """One output of four dimensions over the picture, with as much detail as a fourth of its sides or more."""
    if len(seen.outputs) != 1 or len(seen.outputs[0].dims) != 4:
        return None
    width, height = seen.size
    dims = seen.outputs[0].dims
    for last, (h, w, classes) in ((False, (*dims[2:], dims[1])), (True, dims[1:])):
        if any((w * part, h * part) == (width, height) for part in (1, 2, 4)) and classes > 1:
            return Regions(seen, classes, last)
    return None


class Text(Head):
    """Steps from left to right, each with a score for every character and for none (CTC): the best of each step is taken,
    repeated ones are one.

    ``labels`` are the characters. The blank is the first class, or the last one where ``blank_last``; of a network with two more
    classes than characters the last is a blank between words, as PaddleOCR adds it.
    """

    task = Task.READ

    def __init__(self, seen: Seen, steps: int, classes: int, across: bool) -> None:
        super().__init__(seen.inputs, seen.outputs)
        self.classes, self.size = classes, seen.size
        self._across, self._blank_last = across, across
        self._stored = Stored(self.outputs[0])
        self.family = f"CTC text, {steps} steps, {classes} classes"

    def _characters(self) -> list[str]:
        """One for each class; the blank is empty."""
        labels = list(self.labels) or [f"<{n}>" for n in range(self.classes - 1)]
        if self.classes - len(labels) == 2:
            labels.append(" ")
        if len(labels) == self.classes:
            labels[-1 if self._blank_last else 0] = ""
            return labels
        if len(labels) != self.classes - 1:
            raise ParamInvalid(
                f"labels have {len(self.labels)} characters, the model has {self.classes} classes ({self.family}), one of which is "
                f"the blank: give {self.classes - 1}, or {self.classes - 2} and the last one is the space"
            )
        return [*labels, ""] if self._blank_last else ["", *labels]

    def _picture(self, outputs: Sequence[Array], limits: Limits) -> Words:
        values = outputs[0].reshape(outputs[0].shape[-2:])
        scores = probabilities(self._stored.real(values.T if self._across else values), self._stored.step)
        characters = self._characters()
        best = scores.argmax(axis=1)
        fresh = np.concatenate([[True], best[1:] != best[:-1]])
        kept = [step for step in np.flatnonzero(fresh).tolist() if characters[best[step]]]
        if not kept:
            return Words("", 0.0)
        score = float(np.nan_to_num(scores[kept, best[kept]]).mean())
        found = "".join(characters[best[step]] for step in kept)
        return Words(found, score) if score >= limits.score else Words("", score)


def text(seen: Seen) -> Optional[Text]:
    """A picture at least twice as wide as high, and [batch, steps, classes].

    With the hint ``lprnet`` [batch, classes, steps], its blank last.
    """
    dims = seen.outputs[0].dims if len(seen.outputs) == 1 else ()
    width, height = seen.size
    if len(dims) != 3 or width < 2 * height:
        return None
    across = seen.hint == "lprnet"
    steps, classes = dims[:0:-1] if across else dims[1:]
    return Text(seen, steps, classes, across) if 1 < steps <= width // 2 and classes > 1 else None
