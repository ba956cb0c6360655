"""Cells whose score passes: found in the numbers as they are stored; only theirs become float."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid

from .head import Limits
from .stored import Stored

__all__ = ["Candidates", "every", "objects", "passing", "plausible"]

Array = NDArray[Any]
_GREATEST = 1.5
"""Scores are 1 at most; 8 bits and what is calibrated round some a little above."""


class Candidates(NamedTuple):
    """Cells, the score of each, and its class."""

    cells: Array
    scores: Array
    classes: Array


def passing(
    table: Array,
    stored: Stored,
    limits: Limits,
    sums: Optional[Array] = None,
    summed: Optional[Stored] = None,
    slack: float = 0.0,
) -> Candidates:
    """Of scores [classes, cells] those cells whose best is at least ``limits.score``.

    Args:
        table: as stored.
        stored: how.
        limits: what is kept.
        sums: a number per cell that is never less than its best score; rules cells out before their scores are read.
        summed: how ``sums`` are stored.
        slack: how much less than the score that is in it a sum may be.

    Cells with a score that is not a number are left out.
    """
    table = stored.ordered(table)
    least = stored.least(limits.score, table.dtype)
    cells = None
    if sums is not None and summed is not None:
        sums = summed.ordered(sums)
        cells = np.flatnonzero(sums >= summed.least(limits.score - slack, sums.dtype))
        table = table.take(cells, axis=1)
    elif len(table) > 1:
        cells = np.flatnonzero(table.max(axis=0) >= least)
        table = table.take(cells, axis=1)
    classes = table.argmax(axis=0)
    best = table[classes, np.arange(len(classes))]
    rows = np.flatnonzero(best >= least)
    if len(rows) < len(best):
        classes, best = classes[rows], best[rows]
        cells = rows if cells is None else cells[rows]
    elif cells is None:
        cells = rows
    return _sure(Candidates(cells, stored.scores(best), classes), stored, limits)


def every(table: Array, stored: Stored, limits: Limits) -> Candidates:
    """As ``passing``, but all classes of a cell that pass; of no more than the ``limits.most`` best cells.

    What networks that were trained to need no suppression are decoded with.
    """
    best = passing(table, stored, limits)
    cells = best.cells[np.sort(np.argsort(-best.scores, kind="stable")[: limits.most])]
    table = stored.ordered(table.take(cells, axis=1))
    places, classes = np.nonzero(stored.least(limits.score, table.dtype) <= table.T)
    return _sure(Candidates(cells[places], stored.scores(table[classes, places]), classes), stored, limits)


def _sure(found: Candidates, stored: Stored, limits: Limits) -> Candidates:
    """Those that pass behind the sigmoid: before it they were compared with a little less."""
    if not stored.logits:
        return found
    kept = found.scores >= np.float32(limits.score)
    return Candidates(*(part[kept] for part in found))


def objects(table: Array, stored: Stored, limits: Limits) -> Candidates:
    """Of [anchors, 4 + 1 + classes, cells], with objectness before the scores, those whose product passes.

    Numbers of cells are ``anchor * cells + cell``.
    """
    table = stored.ordered(table)
    # a class's score may be rounded to a little above 1, so objectness alone rules out less
    likely = table[:, 4].reshape(-1) >= stored.least(limits.score / _GREATEST, table.dtype)
    cells = np.flatnonzero(likely)
    anchor, cell = np.divmod(cells, table.shape[2])
    rows = table[anchor, 4:, cell]
    kinds = rows[:, 1:]
    classes = kinds.argmax(axis=1)
    scores = stored.scores(rows[:, 0]) * stored.scores(kinds[np.arange(len(cells)), classes])
    kept = np.flatnonzero(scores >= np.float32(limits.score))
    return Candidates(cells[kept], scores[kept], classes[kept])


def plausible(scores: Array, family: str) -> None:
    """Raise InputInvalid where what was taken for scores cannot be."""
    greatest = scores.max(initial=0)
    if greatest > _GREATEST and np.isfinite(greatest):
        raise InputInvalid(
            f"{family}: a score is {greatest:.6g}, must be 0 to 1; the outputs are of another family, or their sigmoid is still "
            "to come: say it by the hint, as yolov8 or yolov8-logits"
        )
