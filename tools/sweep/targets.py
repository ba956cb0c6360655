"""What each case is converted for: SoC and element type."""

from __future__ import annotations

__all__ = ["FAMILIES", "MINI", "TARGETS"]

FAMILIES = ("rk3588", "rk3568", "rk3562", "rk3576", "rv1126b")
MINI = ("rv1106", "rv1103b")
TARGETS = (
    *(f"{soc}.{dtype}" for soc in FAMILIES for dtype in ("i8", "fp16")),
    *(f"{soc}.i8" for soc in MINI),
)
