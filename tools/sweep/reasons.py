"""Why a converted case does not match: findings by hand, shown in the report beside the figures."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from typing import Optional

__all__ = ["UNEXPLAINED", "damage", "reason_for"]

UNEXPLAINED = "not explained yet"
_APART = "the file holds the convolution and the function as two layers and rounds between them"
_SATURATED = (
    "values of the run leave the calibrated range of a layer inside; the file cuts them off there, the simulator joins "
    "that layer with the next one and does not. Within the range both agree"
)
_PARAMETERS = (
    "the file holds no table for this layer, and alpha of Elu nowhere else: the reader takes 1 and says so"
)
_ONE_STEP = (
    "depthwise convolution, sum and HardSigmoid: the file rounds twice between them and HardSigmoid of this family ends one "
    "step below one; the simulator computes all of it in one step"
)
_LIMIT = (
    "defect of the converter: a lower limit above 0 is in no register of this family. Networks with the limits 0.1, 0.2 and 0.3 "
    "have the same commands and constants; so the NPU does not apply it, nor does the reference, and loading says so"
)
_SILU = "defect of the converter: the file has the table of plain SiLU instead of x * sigmoid(1.702 x)"

_FIRST = (
    "defect of the converter: of several SiLU, or Elu, with another parameter each, all get the table of the first. A board "
    "computes with it, the simulator does not; where the calibrated range shows it, loading says so"
)

_LONG = (
    "kernels over 31 (32) with a dilation, or transposed: the converter does not split them, and their size overflows in the "
    "registers. The weights are whole: in float they give the simulator's answers"
)

_QUICK = (
    "conv.0036", "conv.0041", "conv1d.0003", "deconv1d.0014", "activated.0009", "activation.0002", "combined.0019",
    "dense.0012", "dense.0026", "linear.0039", "instance_norm.0008", "chain.0015", "branches.0007", "branches.0029",
    "tokens.0000", "tokens.0004",
)  # fmt: skip
"""Random cases with x * sigmoid(1.702 x)."""
_WITH_PARAMETER = ("branches.0026", "scaling.0021")

# (pattern of cases, pattern of targets, reason)
_REASONS: tuple[tuple[str, str, str], ...] = (
    (
        "attention_mask",
        "*",
        "the simulator rounds the scores to int8 before it adds the mask; the NPU does not, so the step is not in the "
        "file. With the step from the calibration data 99.7 % of the bytes are equal",
    ),
    (
        "depthwise_silent_*",
        "*",
        "two channels that are always 0 have far larger weights, so that the multipliers of the others are 1, 2 and the like: "
        "the simulator computes with exact scales, a board cannot. Loading says so",
    ),
    ("conv1d_long_dilated", "*", _LONG),
    ("deconv1d_long", "*", _LONG),
    ("conv+gelu", "*", f"{_APART}, the simulator computes both in one step"),
    ("deconv+tanh", "*", f"{_APART}; one step of the first is 2.7 steps of the result, 99.9 % are equal"),
    ("conv+quick_gelu", "rv1103b.*", _SILU),
    (
        "uneven_small_conv+add_0.003",
        "rv1103b.*",
        "sum whose convolution is small beside what is added: the register holds no scale so small, and nothing in the file tells "
        "by how much it is too large. Loading says so",
    ),
    ("silu_after_quick_gelu", "*", _FIRST),
    ("quick_gelu_after_silu", "*", _FIRST),
    ("elu_after_another", "*", _FIRST),
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
    *((name, "*.i8", _SATURATED) for name in ("tokens.0007", "tokens.0031")),
    *((name, "rv1106.i16", _SATURATED) for name in ("tokens.0031",)),
    *((name, "rv1103b.i8", _SILU) for name in _QUICK),
    *((f"{name}", "*.i16", _PARAMETERS) for name in _WITH_PARAMETER),
    ("recurrent.*", "*.i16", "int16 weights of exLSTM are not decoded: refused"),
    ("combined.0011", "rv110*", _ONE_STEP),
    ("uneven_conv+clip_above", "rv1106.i8", _LIMIT),
)

# (pattern of targets, what the reference says, reason)
_DAMAGED: tuple[tuple[str, str, str], ...] = (
    (
        "rk3568.*",
        r"tensor : unknown element type 0",
        "where the converter splits the channels of the layer behind an input, its list of inputs names no tensor for it",
    ),
    (
        "rk3562.w8a16",
        r"bias .*: \d+ bytes, but \d+ channels need|8-bit weights of \d+ output and \d+ input channels|"
        r"has no register commands|unknown element type 0",
        "the converter writes 8-bit weights and their scales for whole blocks of 8 and 32 channels and cuts them off at "
        "the real size: with other numbers of channels scales or weights are not in the file",
    ),
    (
        "*.i16",
        "the converter stored half of it",
        "constants of element-wise operators in int16 models: the converter calls them int8 and stores half of their bytes",
    ),
    (
        "*.i16",
        "the converter leaves the lower limit",
        "Clip in int16 models: the converter leaves out lower limits that are not 0",
    ),
    (
        "*.i16",
        "the converter left the slopes of int16 PRelu out",
        "PRelu in int16 models: the converter rounds the slopes to whole numbers",
    ),
    (
        "*.w4a16",
        "the converter writes unusable biases",
        "4-bit weights quantised as a whole (quantized_method layer): the converter writes unusable biases",
    ),
    (
        "*",
        "registers are for a kernel of .* they hold no more than",
        _LONG,
    ),
    (
        "rk3588.*",
        "damaged file: tensor numbers",
        "the converter wrote a node's table with the layout of another one",
    ),
)


def reason_for(case: str, targets: Sequence[str]) -> str:
    """The finding for a case on (the first of) its targets, or that there is none."""
    for cases, where, reason in _REASONS:
        if fnmatch.fnmatch(case, cases) and fnmatch.fnmatch(targets[0], where):
            return reason
    return UNEXPLAINED


def damage(target: str, note: str) -> Optional[str]:
    """What the converter left out of a file, by what the reference says when it refuses it; None for other refusals."""
    for where, pattern, reason in _DAMAGED:
        if fnmatch.fnmatch(target, where) and re.search(pattern, note):
            return reason
    return None
