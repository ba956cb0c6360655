"""Why a network is refused or not good: findings by hand, layer by layer, shown beside the figures."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

__all__ = ["reason_for"]

# (pattern of networks, pattern of targets, reason)
_REASONS: tuple[tuple[str, str, str], ...] = (
    (
        "hf_yolos",
        "*.i8",
        "on RV1106 the toolkit's simulator is wrong: its cosine to the float network is 0.63, that of the CPU reference 0.99; on "
        "the other SoCs both are equally far from it",
    ),
    (
        "timm_efficientvit",
        "*.i8",
        "Div: where numerator and denominator are both rounded to 0, the simulator gives the top of the range and the CPU "
        "reference 0, with a warning (432 of 1,024 values of one layer; untrained attention, whose sums are 0); all other "
        "layers alone are within 1 LSB",
    ),
    (
        "tv_resnext",
        "*.i8",
        "not proven: sums of two branches: the simulator rounds the convolution to int8 before it adds, in a step that the file does not "
        "hold; 99.1 % of the values of the worst layer are within 1 LSB, the rest within 2 or cut off",
    ),
    (
        "tv_deeplab_v3",
        "*.i8",
        "not proven: dilated convolutions: the two tensors that differ are behind the ReLU in the file and before it in the simulator; "
        "what follows them agrees layer by layer",
    ),
    (
        "tv_mobilenet_v3_small",
        "*.i8",
        "convolution with HardSigmoid: the simulator rounds between them; 1 of 112 values of the worst layer is more than 1 "
        "LSB off, where the simulator cuts off",
    ),
)


def reason_for(network: str, targets: Sequence[str]) -> str:
    """The finding for a network on (the first of) its targets, or nothing."""
    for networks, where, reason in _REASONS:
        if fnmatch.fnmatch(network, networks) and fnmatch.fnmatch(targets[0], where):
            return reason
    return ""
