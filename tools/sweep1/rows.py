"""The results as rows of the table in docs/coverage.md, with what is known beside the cases."""

from __future__ import annotations

import re

from tests.support.rknn1_files import File

from .answers import Nearness

__all__ = ["FINDINGS", "near", "row"]

_TYPES = {"i8": "int8", "i16": "int16", "f16": "fp16"}
_SOCS = "RK1808, RK1806, RK3399Pro, RV1109, RV1126"
_CONTAINER = "1 (first toolkit)"


def row(name: str, file: File, result: str, difference: str = "", remark: str = "") -> list[str]:
    """A case, in the columns of tools/sweep."""
    operators = dict.fromkeys(
        node["op"].removeprefix("VSI_NN_OP_").removeprefix("VSI_NN_") for node in file.description["nodes"]
    )
    found = re.search(r"_(i8|i16|f16)(_|$)", name)
    kind = _TYPES[found[1]] if found else "uint8"
    remark = "; ".join(filter(None, (remark, _REMARKS.get(name))))
    result = "differs" if name in _NOT_FOLLOWED else result
    return [name, ", ".join(operators), _SOCS, kind, result, difference, remark, _CONTAINER]


def near(nearness: Nearness) -> tuple[str, str, str]:
    """Result, difference and remark of a case that runs."""
    if nearness.equal == 1:
        return "matches", "0", ""
    return "nearly equal", f"{nearness.most:.4g}", f"{100 * nearness.equal:.1f} % equal"


_NOT_FOLLOWED = {
    "conv_groups": "the simulator gives every group the channels of the first; here each has its own, and such a node gets a "
    "doubt. GROUPED_CONV2D is equal",
    "pow": "0 to the power of 0 is 0 in the simulator; here 1",
    "resize_bilinear_half_uneven": "one column of 17 is off in the simulator, the rest at most one step",
}
_REMARKS = {**_NOT_FOLLOWED, "roi_pool": "boxes inside the picture"}


def _finding(operators: str, result: str, remark: str) -> list[str]:
    return ["", operators, _SOCS, "", result, "", remark, _CONTAINER]


FINDINGS = [
    _finding("PERMUTE", "differs", "to another scale: the simulator's results are no permutation of the input; here elements move and are requantised"),
    _finding("LSTM", "differs", "of several sequences at once: another order in the simulator; such a node gets a doubt"),
    _finding("RELUN, NOOP", "not confirmed", "the simulator refuses them; computed, with a doubt"),
    _finding("PRELU", "not confirmed", "with a flat list of slopes: the simulator refuses it; computed"),
    _finding("MULTIPLY, DIVIDE", "not confirmed", "with a rounding policy other than TO_NEAREST_EVEN: the simulator truncates uint8 and float16; rounded here, with a doubt"),
    _finding("RNN", "not confirmed", "with TANH or SIGMOID: the simulator leaves the function out; computed, with a doubt"),
    _finding("DECONVOLUTION", "not confirmed", "with square weights: their order is in doubt"),
    _finding("PROPOSAL", "refused", "no known file tells how its anchors are stored"),
    _finding("GRU", "refused", "the older node; GRU_OVXLIB runs"),
    _finding("CONV3D", "refused", "as is every other operator that is not in the table"),
    _finding("STRIDED_SLICE", "refused", "with masks"),
    _finding("SPACE2BATCH, BATCH2SPACE", "refused", "with borders"),
    _finding("PAD", "refused", "other than constant"),
    _finding("LRN", "refused", "within a map"),
    _finding("LSTM", "refused", "with clipping or a forget bias"),
]  # fmt: skip
"""What no case shows."""
