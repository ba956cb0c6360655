"""Which runtime opens which model, and which driver it wants (RKNN user guide 2.0, table 10-1, and its later copies)."""

from __future__ import annotations

import re
from typing import Optional

__all__ = ["OLDEST_DRIVER", "runtime_clash", "runtime_rule", "version_numbers"]

OLDEST_DRIVER = "0.9.2"
"""Recommended by the manual; older ones lack SRAM and fixes."""


def version_numbers(version: str) -> tuple[int, ...]:
    """``(2, 3, 2)`` from ``2.3.2 (429f97ae6b@...)``; empty where no number is to be found."""
    match = re.match(r"\s*v?(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(part or 0) for part in match.groups()) if match else ()


def runtime_rule(toolkit: str) -> tuple[str, tuple[int, ...], Optional[tuple[int, ...]]]:
    """The rule in words, the oldest and (where there is one) the newest runtime for a model of ``toolkit``."""
    made = version_numbers(toolkit)
    if made < (1, 5, 0):
        return f"a model of toolkit {toolkit} needs runtime {toolkit} to 1.5.0", made, (1, 5, 0)
    if made < (1, 5, 2):
        return f"a model of toolkit {toolkit} needs runtime 1.5.0", (1, 5, 0), (1, 5, 0)
    oldest = (1, 5, 2) if made < (2, 0, 0) else (2, 0, 0)
    words = ".".join(map(str, oldest))
    return f"a model of toolkit {toolkit} needs runtime {words} or newer", oldest, None


def runtime_clash(toolkit: str, runtime: str) -> str:
    """The rule that is broken and what to do; empty when model and runtime go together or nobody knows."""
    version = version_numbers(runtime)
    if not version or not version_numbers(toolkit):
        return ""
    rule, oldest, newest = runtime_rule(toolkit)
    if version >= oldest and (newest is None or version <= newest):
        return ""
    return f"{rule}; {'update the runtime' if version < oldest else 'convert the network again'}"
