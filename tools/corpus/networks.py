"""The registry of corpus networks: every case by name, see the modules it collects for the networks."""

from __future__ import annotations

from dataclasses import replace

import nets_convolution
import nets_detection
import nets_interface
import nets_operators
import nets_storage
import nets_whole
from case import Case

BOTH = ("rv1106.i8", "rv1103b.i8")
SIBLINGS = ("rv1103.i8", "rv1106b.i8")
MINI = {
    "conv_1x1": (*BOTH, *SIBLINGS),
    "conv_7x7_s2": BOTH,
    "conv_uneven": (*BOTH, *SIBLINGS),
    "conv_dilated": BOTH,
    "conv_group": ("rv1106.i8",),
    "depthwise_s2": BOTH,
    "depthwise_5x5": BOTH,
    "deconv_k3_s2": BOTH,
    "deconv_k4_s2_silu": ("rv1106.i8",),
    "deconv_k5_s3": ("rv1103b.i8",),
    "deconv_depthwise": BOTH,
    "act_leaky": BOTH,
    "act_prelu": ("rv1106.i8",),
    "act_silu": ("rv1106.i8",),
    "act_hardsigmoid": BOTH,
    "residual_leaky_add": BOTH,
    "residual_add_relu": ("rv1103b.i8",),
    "conv_mul": ("rv1106.i8",),
    "squeeze_excite": BOTH,
    "pooling": ("rv1106.i8",),
    "channels": ("rv1103b.i8",),
    "resize": ("rv1106.i8",),
    "arithmetic": ("rv1103b.i8",),
    "shapes": ("rv1103b.i8",),
    "softmaxes": ("rv1103b.i8",),
    "acts_alone": ("rv1106.i8",),
    "norms": ("rv1103b.i8",),
    "attention": ("rv1106.i8",),
    "lstm": ("rv1106.i8",),
    "gru": ("rv1103b.i8",),
    "mean_std": ("rv1103.i8", "rv1106b.i8"),
    "unet_like": BOTH,
    "mobilenetv2_like": BOTH,
    "product_tails": BOTH,
}
"""Further targets of some cases: the SoCs of the mini format, int8 only."""


def _collect() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for module in (
        nets_convolution,
        nets_operators,
        nets_interface,
        nets_whole,
        nets_detection,
        nets_storage,
    ):
        for case in module.cases():
            if case.name in found:
                raise ValueError(f"two cases are named {case.name}")
            found[case.name] = replace(case, targets=(*case.targets, *MINI.get(case.name, ())))
    unknown = set(MINI) - set(found)
    if unknown:
        raise ValueError(f"no cases are named {sorted(unknown)}")
    return found


CASES: dict[str, Case] = _collect()
