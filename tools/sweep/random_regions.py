"""Random cases of operators that detectors and quantised exports bring along."""

from __future__ import annotations

import numpy as np
from chance import Chance
from graph import Net

__all__ = ["KINDS"]


def _boxes(c: Chance, count: int, height: int, width: int) -> list[list[float]]:
    """Left, top, right, bottom."""
    found = []
    for _ in range(count):
        left, top = c.real(0, width * 0.6), c.real(0, height * 0.6)
        found.append([left, top, left + c.real(1, width * 0.4), top + c.real(1, height * 0.4)])
    return found


def _roi_align(n: Net, c: Chance) -> str:
    channels, height, width, count = c.channels(), c.side(6, 14), c.side(6, 14), c.whole(1, 5)
    boxes = n.const(_boxes(c, count, height, width))
    return n.op(
        "RoiAlign", n.x(1, channels, height, width), boxes, n.const([0] * count, "int64"),
        output_height=c.whole(1, 5), output_width=c.whole(1, 5), sampling_ratio=c.whole(0, 3),
        spatial_scale=c.pick(1.0, 0.5), mode=c.pick("avg", "avg", "avg", "avg", "max"),
    )  # fmt: skip


def _roi_pool(n: Net, c: Chance) -> str:
    channels, height, width, count = c.channels(), c.side(6, 14), c.side(6, 14), c.whole(1, 5)
    boxes = n.const([[0.0, *box] for box in _boxes(c, count, height, width)])
    return n.op(
        "MaxRoiPool", n.x(1, channels, height, width), boxes, pooled_shape=[c.whole(1, 4), c.whole(1, 4)],
        spatial_scale=c.pick(1.0, 0.5),
    )  # fmt: skip


def _unpool(n: Net, c: Chance) -> str:
    height, width = c.pick(4, 6, 8), c.pick(4, 6, 10)
    x = n.x(1, c.channels(), height, width)
    values, places = n.ops("MaxPool", 2, x, kernel_shape=[2, 2], strides=[2, 2])
    return n.op("MaxUnpool", values, places, kernel_shape=[2, 2], strides=[2, 2])


def _steps(n: Net, x: str, scale: float, zero: int) -> str:
    """A pair of QuantizeLinear and DequantizeLinear."""
    steps = [n.const(scale), n.const(zero, "int8")]
    return n.op("DequantizeLinear", n.op("QuantizeLinear", x, *steps), *steps)


def _quantised(n: Net, c: Chance) -> str:
    """One or two convolutions of a network that was quantised before its export."""
    channels, scale = c.channels(), c.real(0.02, 0.03)
    y = _steps(n, n.x(1, channels, c.side(4, 12), c.side(4, 12)), scale, c.pick(0, -7, 12))
    for _ in range(c.whole(1, 2)):
        outputs, size = c.channels(), c.pick(1, 3)
        count = outputs if c.odds(0.5) else 1
        steps = n.rng.uniform(0.5, 1.0, count) / (48 * np.sqrt(channels) * size)
        shape, axis = (count,) if count > 1 else (), {"axis": 0} if count > 1 else {}
        whole = n.rng.integers(-127, 128, (outputs, channels, size, size))
        weight = n.op(
            "DequantizeLinear", n.const(whole, "int8"), n.const(steps.reshape(shape)),
            n.const(np.zeros(shape), "int8"), **axis,
        )  # fmt: skip
        y = n.op("Conv", y, weight, n.weight(outputs), kernel_shape=[size, size], pads=[size // 2] * 4)
        channels, scale = outputs, 0.03
        y = _steps(n, n.op("Relu", y) if c.odds(0.5) else y, scale, c.pick(0, -20, 9))
    return y


KINDS = {"roi_align": _roi_align, "roi_pool": _roi_pool, "unpool": _unpool, "quantised": _quantised}
"""Kind of case -> what builds one."""
