"""uint8 pixels as the NPU converts them while it reads: ``pixel * scale / 2^shift + offset``, all of them whole numbers.

Recorded on RK3588 with the runtime 1.6.0. How factors become integers was compared with files for RV1106 as well, into which
the converter writes such factors itself. The vendor's simulator converts exactly: where it has -127.5, a chip has -128.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rknnlite.errors import ModelInvalid
from rknnlite.formats import IoTensor

__all__ = ["MOST_CHANNELS", "ChannelFactor", "channel_factors"]

MOST_CHANNELS = 4
"""The NPU converts pictures of no more; the runtime does the others itself."""
_BITS = 15  # of a factor
_LEAST, _LARGEST = 2.0**-47, 2.0**14  # shifts have 6 bits
_FARTHEST = 32767  # offsets have 16 bits


class ChannelFactor(NamedTuple):
    """What a pixel of one channel becomes: ``scale / 2^shift`` times, ``offset`` more."""

    scale: int
    shift: int
    offset: int


def channel_factors(io: IoTensor, channels: int) -> list[ChannelFactor]:
    """The factors of the channels of an int8 input; those of one channel are written four times, of two twice.

    Everything is float32 and rounds to even: with deviation 127.5 and scale 1/127.5 the factor is 1, and an offset of -127.5
    becomes -128. Scales have 15 bits.

    Raises:
        ModelInvalid: factors that registers do not hold.
    """
    assert io.quant is not None
    step, zero = np.float32(io.quant.scale), np.float32(io.quant.zero_point)
    found = []
    for channel in range(channels):
        std = np.float32(io.std[channel % len(io.std)] if io.std else 1.0)
        mean = np.float32(io.mean[channel % len(io.mean)] if io.mean else 0.0)
        with np.errstate(all="ignore"):
            ratio, offset = float(np.float32(1) / (std * step)), float(zero - mean / (std * step))
        if not (_LEAST <= ratio <= _LARGEST and abs(offset) <= _FARTHEST):
            raise ModelInvalid(
                f"input {io.name}: with mean {mean}, deviation {std} and step {step} pixels would be multiplied by {ratio:.3g} and "
                f"{offset:.3g} added, which the NPU cannot"
            )
        mantissa, exponent = math.frexp(ratio)
        scale = round(mantissa * 2**_BITS)
        if scale == 1 << _BITS:
            scale, exponent = scale >> 1, exponent + 1
        found.append(ChannelFactor(scale, _BITS - exponent, round(offset)))
    return found * (MOST_CHANNELS // channels)
