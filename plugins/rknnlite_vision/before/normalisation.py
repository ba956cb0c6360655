"""Who subtracts mean and divides by deviation: the runtime, with what the model file stores, or whoever makes the input."""

from __future__ import annotations

from typing import Any

from rknnlite.errors import ModelInvalid
from rknnlite.formats import IoTensor
from rknnlite.log import logger
from rknnlite.tensor import DType

__all__ = ["normalisation"]

_PIXELS = 128.0  # a network that takes values as large as this takes pixels from 0 to 255


def normalisation(io: IoTensor) -> dict[str, Any]:
    """``mean`` and ``std`` for ``Preparation`` that a model file leaves to whoever makes its input; nothing where it stores them.

    A file that was converted without them tells by its quantisation which numbers the network takes: 0 to 255 are pixels, 0 to 1
    are pixels / 255.

    Raises:
        ModelInvalid: it takes others, such as -2.1 to 2.6, which lead to no mean and deviation.
    """
    if any(io.mean) or any(number != 1 for number in io.std):
        return {}
    if io.quant is None:
        logger.warning(
            "input %s: the model file stores no mean and deviation: it gets pixels from 0 to 255; give std=(255,) to one that "
            "takes 0 to 1",
            io.name,
        )
        return {}
    span = 1 << io.dtype.bits
    first = 0 if io.dtype in (DType.UINT8, DType.UINT16) else -span // 2
    low, high = ((end - io.quant.zero_point) * io.quant.scale for end in (first, first + span - 1))
    if high >= _PIXELS:
        return {}
    if low > -0.01 and high < 1.01:
        return {"std": (255.0,)}
    raise ModelInvalid(
        f"input {io.name}: the model file stores no mean and deviation, and the network takes {low:.3g} to {high:.3g}; give those "
        "that it learnt with, of pixels from 0 to 255, as mean and std, or convert it again with mean_values and std_values"
    )
