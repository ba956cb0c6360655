"""Why a network is refused or not good: findings by hand, layer by layer, shown beside the figures."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

__all__ = ["reason_for"]

# (pattern of networks, pattern of targets, reason)
_REASONS: tuple[tuple[str, str, str], ...] = (
    (
        "hf_t5_encoder",
        "*.i8",
        "attention with a mask: the simulator rounds the scores to int8 before it adds the mask, in a step that the file "
        "does not hold; with one of 0.1298, found by search, all 1,024 bytes of the first such layer agree (69 % without); "
        "all other layers fit",
    ),
    (
        "hf_clip_vision",
        "rv1103b.i8",
        "x * sigmoid(1.702 x): for RV1103B the converter stores the table of x * sigmoid(x), the same as in networks with "
        "a plain SiLU, and the factor nowhere; the simulator computes with it",
    ),
    (
        "smp_manet",
        "rk3576.i8",
        "all layers fit but one that could not be fed: its operand is a float16 tensor that the simulator did not keep",
    ),
    (
        "quartznet",
        "*",
        "the kernel of 87 with a dilation of 2 overflows in the registers (23 is left): the NPU computes something else. In float "
        "the file gives the network's answers",
    ),
    (
        "encodec_like",
        "*.i8",
        "the first LSTM: the converter wrote the multipliers of one row per gate and left the others 0 or to chance (loading "
        "says so); all other layers fit",
    ),
    (
        "silero_vad",
        "rv1106.i8",
        "LSTM, which computes in float: at most 0.4 % of the largest magnitude; all other layers fit",
    ),
    (
        "timm_mobilevit",
        "rv1103b.i8",
        "sums whose convolution is small beside what is added: the file's scale is 2, 4 or 8 times too large and nothing in "
        "it tells by how much (the loader says so); with that factor taken back the simulator's convolution is ours",
    ),
    (
        "timm_efficientvit",
        "*.i8",
        "Div: where numerator and denominator are both rounded to 0, the simulator gives the top of the range and the CPU "
        "reference 0, with a warning (432 of 1,024 values of one layer; untrained attention, whose sums are 0); all other "
        "layers fit",
    ),
    (
        "ppocr6_det",
        "*.i8",
        "two sums: channels whose multipliers are 1 to 4 of 16384, with which a board computes, and the simulator with the exact "
        "scales; all channels that are more than a step off are among those that loading and `info --check` name",
    ),
    (
        "tv_maxvit",
        "rv1*",
        "the mini format does not store the equations of Einsum, and the shapes allow several; refused until they are given "
        "(`attributes`): then it is good, with a cosine of 0.9995 (RV1103B 0.9996)",
    ),
    (
        "wakeword_melspectrogram",
        "*.fp16",
        "powers of a spectrum leave the range of float16: neither the simulator's answer nor ours is finite",
    ),
    (
        "tv_deeplab_v3",
        "rv1*",
        "the converter wrote no register commands for the convolutions with a dilation of 24 (on RV1106 of 12, too): the "
        "NPU cannot compute them",
    ),
)


def reason_for(network: str, targets: Sequence[str]) -> str:
    """The finding for a network on (the first of) its targets, or nothing."""
    for networks, where, reason in _REASONS:
        if fnmatch.fnmatch(network, networks) and fnmatch.fnmatch(targets[0], where):
            return reason
    return ""
