"""The registry of corpus networks: every case by name, see the modules it collects for the networks."""

from __future__ import annotations

import nets_convolution
import nets_detection
import nets_interface
import nets_operators
import nets_whole
from case import Case


def _collect() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for module in (nets_convolution, nets_operators, nets_interface, nets_whole, nets_detection):
        for case in module.cases():
            if case.name in found:
                raise ValueError(f"two cases are named {case.name}")
            found[case.name] = case
    return found


CASES: dict[str, Case] = _collect()
