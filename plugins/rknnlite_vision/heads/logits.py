"""Whether an output holds scores or what an activation is still to turn into scores: told once, by the file and the hint.

A frame never decides it: numbers that cannot be what the file says are refused.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid
from rknnlite.tensor import TensorAttr

from .stored import Stored

__all__ = ["SIGMOID", "are_logits", "may_contradict", "refuse_logits"]

Array = NDArray[Any]
SIGMOID = ", sigmoid to come"
"""How the name of a family goes on where scores are still to be made."""
_LEAST, _GREATEST = -0.5, 1.5
"""What integers of scores can mean at most: calibration rounds 0 to 1 to a little more."""
_NEGATIVE = -0.05
"""Likewise what a score can be."""


_SCORES = re.compile("softmax|sigmoid|prob", re.IGNORECASE)
_LOGITS = re.compile("logit", re.IGNORECASE)


def are_logits(attr: TensorAttr, hint: str, usual: bool = False, alone: bool = True) -> bool:
    """Whether a sigmoid or softmax is still to come.

    A hint that ends in ``logits`` or ``probabilities`` says it. Of integers the range that they can mean does: scores need 0 to 1.
    Of floats the name of the output may: ``softmax``, ``sigmoid`` and ``prob`` are scores, ``logit`` is not.

    Args:
        attr: of the output.
        hint: as ``Seen.activation``.
        usual: what holds where nothing says it.
        alone: no places share the output's scale, so its range is that of scores.

    Examples:
        >>> from rknnlite.tensor import DType, Layout, QuantParams
        >>> attr = TensorAttr(0, "score", (1, 8), DType.INT8, Layout.UNDEFINED, QuantParams(0.1, 0))
        >>> are_logits(attr, "", False), are_logits(attr, "scrfdprobabilities", False)
        (True, False)
    """
    if hint.endswith(("logits", "probabilities")):
        return hint.endswith("logits")
    if alone and not attr.dtype.is_float and attr.quant:
        least, greatest = Stored(attr).range
        return least < _LEAST or greatest > _GREATEST
    if _LOGITS.search(attr.name):
        return True
    return usual and not _SCORES.search(attr.name)


def may_contradict(stored: Stored) -> bool:
    """Whether an output whose numbers were told to be scores can hold numbers that are none."""
    return not stored.logits and stored.range[0] < _LEAST


def refuse_logits(row: Array, stored: Stored) -> None:
    """Raise InputInvalid where one class's numbers, as stored, were told to be scores and cannot be."""
    if not may_contradict(stored):
        return
    row = stored.ordered(row)
    row = row[np.isfinite(row)] if row.dtype.kind == "f" else row  # what is no number says nothing
    least = float(stored.real(row.min())) if len(row) else 0.0
    if least < _NEGATIVE:
        raise InputInvalid(
            f"output {stored.attr.name}: a score is {least:.6g}, must be 0 to 1: its sigmoid is still to come; say so by the hint "
            "logits, or behind that of the family: yolov8-logits"
        )
