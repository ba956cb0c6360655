"""Which tokens may follow when a decoder tells times: in pairs, and never back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .vocabulary import SpecialTokens

__all__ = ["bind_times", "log_softmax"]

Array = NDArray[Any]
_LATEST_START = 50
"""Steps of 0.02 s: speech that is heard begins within the first second."""


def bind_times(logits: Array, made: Sequence[int], special: SpecialTokens) -> None:
    """Take from ``logits`` (tokens,), in place, what may not follow ``made``, the answer without its prompt."""
    first = special.first_time
    logits[special.no_times] = -np.inf
    last = bool(made) and made[-1] >= first
    before = len(made) < 2 or made[-2] >= first
    if last and before:
        logits[first:] = -np.inf  # a pair is complete: text follows
    elif last:
        logits[: special.end] = -np.inf  # the second of a pair, or the end
    times = [token for token in made if token >= first]
    if times:
        logits[first : times[-1] if last and not before else times[-1] + 1] = -np.inf
    if not made:
        logits[:first] = -np.inf
        logits[first + _LATEST_START + 1 :] = -np.inf
    chances = log_softmax(logits)
    if np.logaddexp.reduce(chances[first:]) > chances[:first].max():
        logits[:first] = -np.inf


def log_softmax(logits: Array) -> Array:
    """Logarithms of probabilities."""
    peak = logits.max()
    if not np.isfinite(peak):
        return np.full_like(logits, -np.inf)
    shifted = logits - peak
    found: Array = shifted - np.log(np.exp(shifted).sum())
    return found
