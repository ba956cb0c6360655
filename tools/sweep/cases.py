"""The registry of sweep cases."""

from __future__ import annotations

import cases_blocks
import cases_conv
import cases_faces
import cases_math
import cases_patterns
import cases_rare
import cases_regions
import cases_shape
import cases_uneven
import cases_windows
import random_cases
from graph import Case

__all__ = ["CASES"]


def _collect() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for module in (
        cases_conv,
        cases_math,
        cases_shape,
        cases_blocks,
        cases_faces,
        cases_patterns,
        cases_rare,
        cases_regions,
        cases_uneven,
        cases_windows,
        random_cases,
    ):
        for case in module.cases():
            if case.name in found:
                raise ValueError(f"two cases are called {case.name}")
            found[case.name] = case
    return found


CASES = _collect()
