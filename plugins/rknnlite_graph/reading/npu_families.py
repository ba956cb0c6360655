"""NPU families: everything that is particular to one, in one row. No other module asks which family it is.

Facts measured on converted models; docs/rknn-format.md says how each was verified.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rknnlite.errors import ModelInvalid

from .register_map import T3, V1, V1_LITE, V2A, V2B, W1, RegisterMap

__all__ = ["FAMILIES", "NpuFamily", "family_of"]


@dataclass(frozen=True, eq=False)
class NpuFamily:
    """One family; ``word`` is what its files call it, ``places`` where its registers keep what.

    ``mini``: its files are in the mini format: int8 only, and what nodes compute is told by registers alone.

    Stages: ``small_constants``: some parameters lie in constants beside the node. ``half_slopes``: slopes of int16 layers
    are float16. ``offset_after_shift``: table offsets are in units of the shifted index, else of its multiplier as well.
    ``unshifted_sums``: sums of int16 layers that do not fit the steps of their bias come out too large (``estimated_parameters``).

    Weights: ``bias_group``: channels per record of a bias blob. ``joined_bias``: records hold zero points of two groups.
    ``paired_depthwise``: depthwise integers are followed by their zero points, in int8 ``pair_run`` at a time.
    ``packed_first_layer``: first layers have an order of their own. ``compressed_by_bytes``: the codec of compressed
    weights.

    Arithmetic: ``offset_before_rounding``: the offset of the output is added before values are rounded. ``measured_on`` is the
    SoC on which people measured how the integers of an output stage are rounded, empty where nobody has.
    """

    word: str
    places: RegisterMap
    bias_group: int
    mini: bool = False
    small_constants: bool = False
    half_slopes: bool = False
    offset_after_shift: bool = False
    unshifted_sums: bool = False
    joined_bias: bool = False
    paired_depthwise: bool = True
    pair_run: int = 2
    packed_first_layer: bool = False
    compressed_by_bytes: bool = True
    offset_before_rounding: bool = False
    measured_on: str = ""


_RK3588 = NpuFamily(
    "RKNPU v2",
    V1,
    bias_group=8,
    offset_after_shift=True,
    unshifted_sums=True,
    paired_depthwise=False,
    compressed_by_bytes=False,
    measured_on="RK3588",
)
_RK3576 = NpuFamily(
    "RKNPU f2",
    V2B,
    bias_group=8,
    small_constants=True,
    half_slopes=True,
    packed_first_layer=True,
    measured_on="RK3576",
)
_ROWS = (
    _RK3588,
    replace(_RK3588, word="RKNPU lite", places=V1_LITE, bias_group=4, measured_on=""),  # rk3566, rk3568
    NpuFamily("RKNPU t4", V2A, bias_group=4),  # rk3562
    _RK3576,
    replace(_RK3576, word="RKNPU f3", measured_on=""),  # rv1126b
    NpuFamily(
        "RKNPU t3", T3, bias_group=4, mini=True, pair_run=1, offset_before_rounding=True, measured_on="RV1103"
    ),  # rv1103, rv1106
    NpuFamily("RKNPU w1", W1, bias_group=4, mini=True, pair_run=8, joined_bias=True),  # rv1103b, rv1106b
)
FAMILIES = {row.word: row for row in _ROWS}
"""The rows by the container's family word."""


def family_of(word: str) -> NpuFamily:
    """The row of a container's family word; raises ModelInvalid."""
    try:
        return FAMILIES[word]
    except KeyError:
        raise ModelInvalid(f"unknown NPU family {word!r}; known: {', '.join(FAMILIES)}") from None
