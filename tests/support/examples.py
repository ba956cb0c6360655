"""How many examples a property is tried on."""

from __future__ import annotations

import os

__all__ = ["MORE", "examples"]

MORE = int(os.environ.get("RKNNLITE_FUZZ", "0"))
"""RKNNLITE_FUZZ=500 draws that many new examples of each property; 0: the same ones in every run."""


def examples(count: int) -> int:
    """``max_examples`` of a property that is tried on ``count`` examples; more of them where MORE is larger."""
    return max(count, MORE)
