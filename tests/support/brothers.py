"""Parameters of which some stay in the fast set: their brothers show the same at greater length and are marked slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

__all__ = ["first_of_each", "slow_unless"]


def slow_unless(fast: Callable[[Any], bool], cases: Iterable[Any]) -> list[Any]:
    """``cases`` for ``parametrize``; those that ``fast`` does not pick are marked slow. A tuple is several arguments."""
    found = []
    for case in cases:
        values = case if isinstance(case, tuple) else (case,)
        found.append(case if fast(case) else pytest.param(*values, marks=pytest.mark.slow))
    return found


def first_of_each(kind: Callable[[Any], object], cases: Iterable[Any]) -> list[Any]:
    """``cases`` for ``parametrize``; all but the first of each kind are marked slow."""
    seen: set[object] = set()

    def fast(case: Any) -> bool:
        known = kind(case) in seen
        seen.add(kind(case))
        return not known

    return slow_unless(fast, cases)
