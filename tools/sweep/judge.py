"""When two results count as equal. The only place with the numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

__all__ = ["COSINE", "LSB", "RELATIVE", "SAME", "Judge", "Verdict", "compare"]

COSINE = 0.9999
"""Least cosine between two outputs."""
RELATIVE = 1e-3
"""Floating outputs of floating models: largest difference over the largest magnitude."""
SAME = 0.99
"""Of functions that jump, and of indices: share of elements that have to be equal."""


class Judge(Enum):
    """How close results have to be."""

    CLOSE = "close"
    FUSED = "fused"  # the compiler joins what the simulator rounds one by one, or rounds constants that it does not
    STEPS = "steps"  # the function jumps, or the result is an index


LSB = {Judge.CLOSE: 1, Judge.FUSED: 2}
"""Quantised outputs: largest difference in steps."""


@dataclass(frozen=True)
class Verdict:
    """One output compared: ``error`` is in steps if ``unit`` is LSB, else relative; ``same`` a share.

    ``ours`` and ``theirs``: mean distances to the float network, in the unit of ``error``; None if it is not known.
    """

    error: float
    unit: str
    cosine: float
    same: float
    matches: bool
    ours: Optional[float] = None
    theirs: Optional[float] = None

    def __str__(self) -> str:
        error = f"{self.error:.0f} LSB" if self.unit == "LSB" else f"{self.error:.1e}"
        return f"{error}, cos {self.cosine:.6f}, {100 * self.same:.1f} % equal{self._to_float()}"

    def _to_float(self) -> str:
        if self.ours is None or self.theirs is None:
            return ""
        form = ".3f" if self.unit == "LSB" else ".1e"
        return f", to float {self.ours:{form}} (simulator {self.theirs:{form}})"


def compare(
    found: NDArray[Any],
    wanted: NDArray[Any],
    step: Optional[float],
    quantised_model: bool,
    judge: Judge,
    truth: Optional[NDArray[Any]] = None,
) -> Verdict:
    """Compare one output; ``step`` is its quantisation step, None for floating and integer outputs.

    ``truth``: what the float network answers.
    """
    a, b = found.astype(np.float64).reshape(-1), wanted.astype(np.float64).reshape(-1)
    if a.shape != b.shape:
        return Verdict(float("inf"), "", 0.0, 0.0, False)
    finite = np.isfinite(b)
    broken = not np.array_equal(np.isnan(a), np.isnan(b)) or not np.array_equal(
        a[np.isinf(b)], b[np.isinf(b)]
    )
    a, b = a[finite], b[finite]
    difference = np.abs(a - b)
    largest, peak = float(difference.max(initial=0)), float(np.abs(b).max(initial=0))
    lengths = float(np.sqrt((a @ a) * (b @ b)))
    cosine = float(a @ b) / lengths if lengths else float(largest == 0)
    if step:
        same = float((difference < step / 2).mean()) if a.size else 1.0
        error, unit = largest / step, "LSB"
        close = error < LSB.get(judge, 1) + 0.01 and (cosine >= COSINE or error < 1.01)
    else:
        same = float((difference <= RELATIVE * max(peak, 1e-9)).mean()) if a.size else 1.0
        error, unit = largest / peak if peak else largest, ""
        close = cosine >= COSINE and (quantised_model or error <= RELATIVE)
    if judge is Judge.STEPS:
        close = same >= SAME
    ours, theirs = _distances(found, wanted, truth, step or peak or 1.0)
    return Verdict(error, unit, cosine, same, close and not broken, ours, theirs)


def _distances(
    found: NDArray[Any], wanted: NDArray[Any], truth: Optional[NDArray[Any]], unit: float
) -> tuple[Optional[float], Optional[float]]:
    """How far both are from the float network on average, in units."""
    if truth is None or truth.size != wanted.size:
        return None, None
    real = truth.astype(np.float64).reshape(-1)
    ours, theirs = (float(np.mean(np.abs(x.astype(np.float64).reshape(-1) - real))) for x in (found, wanted))
    return ours / unit, theirs / unit
