"""Why a converted case does not match: findings by hand, shown in the report beside the figures."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

__all__ = ["reason_for"]

# (pattern of cases, pattern of targets, reason)
_REASONS: tuple[tuple[str, str, str], ...] = ()


def reason_for(case: str, targets: Sequence[str]) -> str:
    """The finding for a case on (the first of) its targets, or that there is none."""
    for cases, where, reason in _REASONS:
        if fnmatch.fnmatch(case, cases) and fnmatch.fnmatch(targets[0], where):
            return reason
    return "not explained yet"
