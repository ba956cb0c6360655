"""Why a converted case does not match: findings by hand, shown in the report beside the figures."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

__all__ = ["reason_for"]

_APART = "the file holds the convolution and the function as two layers and rounds between them"
_ABSENT = "the mini format does not store the attributes of this operator, and nothing else tells them"

# (pattern of cases, pattern of targets, reason)
_REASONS: tuple[tuple[str, str, str], ...] = (
    (
        "attention_mask",
        "*",
        "the simulator rounds the scores to int8 before it adds the mask; the NPU does not, so the step is not in the "
        "file. With the step from the calibration data 99.7 % of the bytes are equal",
    ),
    ("conv+gelu", "*", f"{_APART}, the simulator computes both in one step"),
    ("deconv+tanh", "*", f"{_APART}; one step of the first is 2.7 steps of the result, 99.9 % are equal"),
    ("conv+quick_gelu", "rv1103b.*", "defect of the converter: the file has the table of plain SiLU"),
    (
        "swiglu",
        "*",
        "two branches that are convolutions meet in a product: the file keeps the other branch than the simulator does. Mean "
        "distance to the float network: ours 0.70 steps, the simulator's 0.90",
    ),
    (
        "swin_block*",
        "*.i8",
        "the simulator rounds scores and residual sums apart, the file does not. Mean distance to the float network: ours 0.45 "
        "to 0.47 steps, the simulator's 0.44 to 0.49",
    ),
    (
        "face_head_sum_square",
        "rv1103b.*",
        "w1 stores the convolution before PRelu as int8. Mean distance to the float network: ours 0.56 steps, the simulator's 0.63",
    ),
    ("*", "rv*.i8", _ABSENT),
)


def reason_for(case: str, targets: Sequence[str]) -> str:
    """The finding for a case on (the first of) its targets, or that there is none."""
    for cases, where, reason in _REASONS:
        if fnmatch.fnmatch(case, cases) and fnmatch.fnmatch(targets[0], where):
            return reason
    return "not explained yet"
