"""What each case is converted for: SoC and element type."""

from __future__ import annotations

__all__ = ["FAMILIES", "MINI", "QUANTIZED", "TARGETS", "dtype_of", "places", "soc_of"]

FAMILIES = ("rk3588", "rk3568", "rk3562", "rk3576", "rv1126b")
MINI = ("rv1106", "rv1103b")
QUANTIZED = {"i8": "w8a8", "i16": "w16a16i_dfp", "w8a16": "w8a16", "w4a16": "w4a16"}
"""Element type of a target -> the toolkit's ``quantized_dtype``; fp16 is not quantised."""
TARGETS = (
    *(f"{soc}.{dtype}" for soc in FAMILIES for dtype in ("i8", "fp16")),
    *(f"{soc}.i8" for soc in MINI),
    *(f"{soc}.i16" for soc in (*FAMILIES, "rv1106")),
    "rk3562.w8a16",
    "rk3576.w4a16",
    "rv1126b.w4a16",
)


def dtype_of(target: str) -> str:
    """The element type of a target."""
    return target.partition(".")[2]


def soc_of(target: str) -> str:
    """The SoC of a target."""
    return target.partition(".")[0]


def places(target: str) -> dict[str, str]:
    """The cells of a table of the documentation that say what a target is."""
    soc, dtype = soc_of(target), dtype_of(target)
    return {
        "SoC": soc.upper(),
        "type": {"i8": "int8", "i16": "int16"}.get(dtype, dtype),
        "container": "mini" if soc in MINI else "6",
    }
