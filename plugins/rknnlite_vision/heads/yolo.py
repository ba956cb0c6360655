"""What all YOLO decoders share: candidates, suppression, and then what else is known of the boxes that stay."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ..results import Detections
from .candidates import plausible
from .extras import Extra
from .head import Head, Limits, Task
from .logits import SIGMOID
from .seen import Seen
from .suppression import best_rotated, best_upright, upright

__all__ = ["Boxes", "Yolo"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Boxes:
    """Boxes whose score passes, one row each.

    Attributes:
        boxes: [n, 4] corners, or [n, 5] turned ones.
        scores: [n].
        classes: [n].
        places: [n], numbers of the boxes among all that the network gives.
    """

    boxes: Array
    scores: Array
    classes: Array
    places: Array

    def __getitem__(self, rows: Any) -> Boxes:
        return Boxes(self.boxes[rows], self.scores[rows], self.classes[rows], self.places[rows])

    @classmethod
    def none(cls, columns: int = 4) -> Boxes:
        """No box."""
        return cls(np.zeros((0, columns), np.float32), np.zeros(0, np.float32), *np.zeros((2, 0), np.intp))


class Yolo(Head):
    """A head with boxes, scores and classes.

    Attributes:
        extra: what else is known of each box; None for boxes alone.
        suppressed: boxes that overlap are to be suppressed.
        logits: scores are still to be made by a sigmoid.
    """

    def __init__(
        self,
        seen: Seen,
        name: str,
        classes: int,
        extra: Optional[Extra] = None,
        suppressed: bool = True,
        logits: bool = False,
    ) -> None:
        super().__init__(seen.inputs, seen.outputs)
        self.size, self.classes, self.extra, self.suppressed = seen.size, classes, extra, suppressed
        self.task = extra.task if extra else Task.DETECT
        outputs = f"{len(seen.outputs)} output" + "s" * (len(seen.outputs) > 1)
        kinds = f"{classes} class" + "es" * (classes != 1)
        self.logits = logits
        self.family = ", ".join([name, outputs, kinds, *([extra.said] if extra else [])]) + SIGMOID * logits

    @abc.abstractmethod
    def _boxes(self, outputs: Sequence[Array], limits: Limits) -> Boxes:
        """All whose score passes."""

    def _picture(self, outputs: Sequence[Array], limits: Limits) -> Detections:
        with np.errstate(invalid="ignore", over="ignore"):  # numbers that are none take their boxes with them
            return self._found(self._best(outputs, limits), outputs)

    def _found(self, found: Boxes, outputs: Sequence[Array]) -> Detections:
        if found.boxes.shape[1] == 5:
            return Detections(upright(found.boxes), found.scores, found.classes, rotated=found.boxes)
        plain = Detections(found.boxes, found.scores, found.classes)
        return plain if self.extra is None else self.extra.added(plain, found.places, outputs, self.size)

    def _best(self, outputs: Sequence[Array], limits: Limits) -> Boxes:
        """Those that stay, best first."""
        found = self._boxes(outputs, limits)
        if not len(found.scores):
            return found
        found = _numbers(found)
        plausible(found.scores, self.family)
        return found[self._kept(found, limits)]

    def _kept(self, found: Boxes, limits: Limits) -> Array:
        if not self.suppressed:
            return np.argsort(-found.scores, kind="stable")[: limits.most]
        best = best_rotated if found.boxes.shape[1] == 5 else best_upright
        return best(found.boxes, found.scores, found.classes, limits)


def _numbers(found: Boxes) -> Boxes:
    """Without rows in which something is not a number, or infinite."""
    right = np.isfinite(found.boxes).all(axis=1) & np.isfinite(found.scores)
    return found if right.all() else found[right]
