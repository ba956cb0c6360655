"""Random convolutions and fully connected layers: geometry, groups, activations, what is added to them."""

from __future__ import annotations

from chance import Chance
from graph import Net
from random_parts import Window, activate, convolution, draw_window

__all__ = ["KINDS"]


def _conv(n: Net, c: Chance) -> str:
    batch, inputs, outputs = c.pick(1, 1, 1, 1, 2, 3), c.channels(), c.channels()
    sides = c.side(), c.side()
    x = n.x(batch, inputs, *sides)
    y = convolution(n, c, x, inputs, outputs, draw_window(c, sides))
    return activate(n, c, y, outputs, 0.5)


def _conv_single(n: Net, c: Chance) -> str:
    """One output channel: masks, heat maps, depth."""
    inputs, sides = c.channels(), (c.side(), c.side())
    window = Window((1, 1), (1, 1), (0,) * 4, (1, 1)) if c.odds(0.4) else draw_window(c, sides, 5)
    y = convolution(n, c, n.x(1, inputs, *sides), inputs, 1, window)
    return activate(n, c, y, 1, 0.4)


def _pointwise(n: Net, c: Chance) -> str:
    inputs, outputs = c.pick(64, 96, 128, 200, c.channels()), c.pick(64, 100, c.channels())
    strides = c.pick((1, 1), (1, 1), (2, 2), (1, 2))
    y = n.x(1, inputs, c.side(1, 13), c.side(1, 13))
    y = convolution(n, c, y, inputs, outputs, Window((1, 1), strides, (0,) * 4, (1, 1)))
    return activate(n, c, y, outputs, 0.7)


def _depthwise(n: Net, c: Chance) -> str:
    channels, sides = c.channels(), (c.side(), c.side())
    outputs = channels * c.pick(1, 1, 1, 1, 2)
    y = convolution(n, c, n.x(1, channels, *sides), channels, outputs, draw_window(c, sides), channels)
    return activate(n, c, y, outputs, 0.4)


def _grouped(n: Net, c: Chance) -> str:
    groups = c.pick(2, 3, 4, 8)
    inputs, outputs = groups * c.pick(1, 2, 3, 4, 8, 16), groups * c.pick(1, 2, 3, 4, 8, 16)
    sides = c.side(), c.side()
    y = convolution(n, c, n.x(1, inputs, *sides), inputs, outputs, draw_window(c, sides, 5), groups)
    return activate(n, c, y, outputs, 0.4)


def _conv1d(n: Net, c: Chance) -> str:
    inputs, side = c.channels(), c.side(8, 60)
    groups = inputs if c.odds(0.3) else 1
    outputs = inputs if groups > 1 else c.channels()
    y = convolution(n, c, n.x(1, inputs, side), inputs, outputs, draw_window(c, (side,), 9, 0.4), groups)
    return activate(n, c, y, 1, 0.5)


def _transposed(n: Net, c: Chance, x: str, inputs: int, outputs: int, axes: int, groups: int) -> str:
    kernel, strides, begins, ends, extra = [], [], [], [], []
    for _ in range(axes):
        size, stride = c.whole(1, 6), c.pick(1, 2, 2, 3, 4)
        size = max(size, c.pick(1, stride, stride))
        kernel.append(size)
        strides.append(stride)
        begins.append(c.whole(0, (size - 1) // 2))
        ends.append(c.whole(0, (size - 1) // 2))
        extra.append(c.whole(0, stride - 1) if c.odds(0.3) else 0)
    attributes = {"output_padding": extra} if any(extra) else {}
    if any(begins + ends):
        attributes["pads"] = begins + ends
    bias = [n.weight(outputs)] if c.odds(0.8) else []
    return n.op(
        "ConvTranspose", x, n.weight(inputs, outputs // groups, *kernel), *bias, kernel_shape=kernel,
        strides=strides, group=groups, **attributes,
    )  # fmt: skip


def _deconv(n: Net, c: Chance) -> str:
    inputs, outputs = c.channels(), c.channels()
    y = _transposed(n, c, n.x(1, inputs, c.side(3, 10), c.side(3, 10)), inputs, outputs, 2, 1)
    return activate(n, c, y, outputs, 0.3)


def _deconv_depthwise(n: Net, c: Chance) -> str:
    channels = c.pick(3, 8, 16, 21, 32)
    groups = channels if c.odds(0.7) else c.divisor(channels)
    y = _transposed(n, c, n.x(1, channels, c.side(3, 10), c.side(3, 10)), channels, channels, 2, groups)
    return activate(n, c, y, channels, 0.3)


def _deconv1d(n: Net, c: Chance) -> str:
    inputs, outputs = c.channels(), c.channels()
    y = _transposed(n, c, n.x(1, inputs, c.side(6, 30)), inputs, outputs, 1, 1)
    return activate(n, c, y, 1, 0.3)


def _activated(n: Net, c: Chance) -> str:
    """Every activation behind every sort of layer, with an ordinary geometry."""
    channels = c.channels()
    sort = c.pick("conv", "conv", "depthwise", "deconv", "dense")
    if sort == "dense":
        y = n.op("Gemm", n.x(c.pick(1, 1, 4), channels), n.weight(24, channels), n.weight(24), transB=1)
        return activate(n, c, y, 1)
    x = n.x(1, channels, c.side(), c.side())
    if sort == "deconv":
        y = n.op("ConvTranspose", x, n.weight(channels, 12, 2, 2), n.weight(12), strides=[2, 2])
        return activate(n, c, y, 12)
    outputs = channels if sort == "depthwise" else c.channels()
    groups = channels if sort == "depthwise" else 1
    window = Window((3, 3), (1, 1), (1,) * 4, (1, 1))
    return activate(n, c, convolution(n, c, x, channels, outputs, window, groups), outputs)


def _combined(n: Net, c: Chance) -> str:
    """Convolution, perhaps an activation, an operator with another tensor or a constant, perhaps an activation."""
    channels, sides = c.channels(), (c.side(5, 14), c.side(5, 14))
    x = n.x(1, channels, *sides)
    window = Window((3, 3), (1, 1), (1,) * 4, (1, 1))
    y = activate(
        n, c, convolution(n, c, x, channels, channels, window, c.pick(1, 1, 1, channels)), channels, 0.4
    )
    kind = c.pick("Add", "Add", "Add", "Mul", "Mul", "Sub", "Max", "Min")
    other = c.pick("input", "input", "second", "scalar", "channel", "row", "map", "tensor", "conv")
    shapes = {
        "scalar": (), "channel": (1, channels, 1, 1), "row": (1, 1, 1, sides[1]), "map": (1, 1, *sides),
        "tensor": (1, channels, *sides),
    }  # fmt: skip
    if other == "input":
        side = x
    elif other == "second":
        side = n.x(1, *c.pick((channels, *sides), (channels, *sides), (channels, 1, 1), (1, *sides)))
    elif other == "conv":
        side = convolution(n, c, x, channels, channels, Window((1, 1), (1, 1), (0,) * 4, (1, 1)))
    else:
        side = n.const(n.rng.uniform(0.3, 1.5, shapes[other]))
    y = n.op(kind, *((side, y) if c.odds(0.2) else (y, side)))
    return activate(n, c, y, channels, 0.4)


def _dense(n: Net, c: Chance) -> str:
    batch, width, outputs = (
        c.pick(1, 1, 2, 5, 9),
        c.pick(1, 7, 16, 31, 32, 48, 65),
        c.pick(1, 3, 10, 16, 20, 33),
    )
    flip_a, flip_b = c.odds(0.1), c.odds(0.6)
    x = n.x(width, batch) if flip_a else n.x(batch, width)
    weight = n.weight(outputs, width) if flip_b else n.weight(width, outputs)
    bias = [n.weight(*c.pick((outputs,), (1, outputs), (1,)))] if c.odds(0.8) else []
    factors = {"alpha": c.real(0.3, 2), "beta": c.real(0.3, 2)} if c.odds(0.2) else {}
    y = n.op("Gemm", x, weight, *bias, transA=int(flip_a), transB=int(flip_b), **factors)
    return activate(n, c, y, 1, 0.4)


def _linear(n: Net, c: Chance) -> str:
    """A product with a stored matrix as transformers write it, of rank 2 to 4."""
    width, outputs = c.pick(8, 16, 20, 32, 48, 64), c.pick(1, 8, 12, 24, 33, 64)
    y = n.op(
        "MatMul", n.x(*c.pick((6,), (1, 9), (1, 17), (2, 7), (1, 3, 8)), width), n.weight(width, outputs)
    )
    y = n.op("Add", y, n.weight(outputs)) if c.odds(0.8) else y
    return activate(n, c, y, 1, 0.4)


KINDS = {
    "conv": _conv, "conv_single": _conv_single, "pointwise": _pointwise, "depthwise": _depthwise,
    "grouped": _grouped, "conv1d": _conv1d, "deconv": _deconv, "deconv_depthwise": _deconv_depthwise,
    "deconv1d": _deconv1d, "activated": _activated, "combined": _combined, "dense": _dense, "linear": _linear,
}  # fmt: skip
"""Kind of case -> what builds one."""
