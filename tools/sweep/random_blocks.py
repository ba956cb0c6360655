"""Random normalisations, products, attention, recurrent layers, and chains of two and three layers."""

from __future__ import annotations

import numpy as np
from chance import Chance
from graph import Net
from random_parts import Window, activate, convolution, draw_window

__all__ = ["KINDS"]


def _softmax(n: Net, c: Chance) -> str:
    shape = c.pick((1, 20), (4, 10), (1, 9, 20), (1, 12, 8, 7), (1, 5, 6, 11), (1, 33, 4, 5), (1, 2, 9, 9))
    axis = c.whole(1, len(shape) - 1)
    y = n.x(*shape, low=-c.pick(2.0, 4.0), high=c.pick(1.0, 4.0))
    return n.op(c.pick("Softmax", "Softmax", "Softmax", "LogSoftmax"), y, axis=axis - c.pick(0, len(shape)))


def _statistics(n: Net, channels: int) -> list[str]:
    scale, spread = n.rng.uniform(0.5, 1.5, channels), n.rng.uniform(0.5, 2, channels)
    return [n.const(scale), n.weight(channels), n.weight(channels), n.const(spread)]


def _batch_norm(n: Net, c: Chance) -> str:
    channels = c.channels()
    shape = c.pick((1, channels, c.side(), c.side()), (1, channels, c.side()), (1, channels))
    return activate(n, c, n.op("BatchNormalization", n.x(*shape), *_statistics(n, channels)), 1, 0.5)


def _unit_length(n: Net, c: Chance) -> str:
    """L2 normalisation as exporters write it: face embeddings, descriptors, attention."""
    shape = c.pick((1, 32), (1, 128), (1, 16, 7, 9), (1, 24, 8, 8), (1, 9, 16))
    axis = c.pick(1, 1, -1)
    x = n.x(*shape)
    form = c.pick("ReduceL2", "square", "LpNormalization")
    if form == "LpNormalization":
        return n.op(form, x, axis=axis, p=2)
    if form == "ReduceL2":
        length = n.op("ReduceL2", x, axes=[axis], keepdims=1)
        length = n.op("Clip", length, n.const(1e-12)) if c.odds(0.5) else n.op("Add", length, n.const(1e-6))
    else:
        square = n.op("Mul", x, x) if c.odds(0.5) else n.op("Pow", x, n.const(2.0))
        total = n.op("ReduceSum", square, n.ints(axis), keepdims=1)
        length = n.op("Sqrt", n.op("Add", total, n.const(1e-6)) if c.odds(0.5) else total)
    return n.op("Div", x, length)


def _instance_norm(n: Net, c: Chance) -> str:
    channels = c.channels()
    scale = n.const(n.rng.uniform(0.5, 1.5, channels))
    y = n.op("InstanceNormalization", n.x(1, channels, c.side(), c.side()), scale, n.weight(channels))
    return activate(n, c, y, channels, 0.3)


def _layer_norm(n: Net, c: Chance) -> str:
    """Out of its parts, with and without the mean (RMS norm)."""
    tokens, width = c.whole(1, 17), c.pick(8, 16, 20, 32, 48, 65)
    x = n.x(1, tokens, width)
    centred = n.op("Sub", x, n.op("ReduceMean", x, axes=[-1])) if c.odds(0.7) else x
    square = n.op("Pow", centred, n.const(2.0)) if c.odds(0.7) else n.op("Mul", centred, centred)
    spread = n.op("Add", n.op("ReduceMean", square, axes=[-1]), n.const(c.pick(1e-5, 1e-6, 1e-3)))
    y = n.op("Div", centred, n.op("Sqrt", spread))
    y = n.op("Mul", y, n.const(n.rng.uniform(0.5, 1.5, width))) if c.odds(0.8) else y
    return n.op("Add", y, n.weight(width)) if c.odds(0.7) else y


def _product(n: Net, c: Chance) -> str:
    rows, depth, columns = c.whole(1, 14), c.pick(4, 8, 16, 17, 32), c.pick(1, 5, 8, 12, 16, 20)
    lead = c.pick((), (3,), (1, 4), (1, 1), (2, 3))
    a, b = n.x(*lead, rows, depth), n.x(*(c.pick(lead, lead, ())), depth, columns)
    y = n.op("MatMul", a, b)
    if c.odds(0.5):
        y = n.op(c.pick("Mul", "Div", "Add"), y, n.const(n.rng.uniform(0.3, 1.2, c.pick((), (columns,)))))
    return activate(n, c, y, 1, 0.2)


def _attention(n: Net, c: Chance) -> str:
    heads, depth, tokens = c.pick(1, 2, 3, 4), c.pick(8, 12, 16), c.whole(2, 17)
    width = heads * depth
    x = n.x(1, tokens, width)

    def part(perm: list[int]) -> str:
        y = n.op("Add", n.op("MatMul", x, n.weight(width, width)), n.weight(width))
        return n.op("Transpose", n.op("Reshape", y, n.ints(1, tokens, heads, depth)), perm=perm)

    scores = n.op("MatMul", part([0, 2, 1, 3]), part([0, 2, 3, 1]))
    scores = n.op(
        *(("Mul", scores, n.const(depth**-0.5)) if c.odds(0.5) else ("Div", scores, n.const(depth**0.5)))
    )
    y = n.op("MatMul", n.op("Softmax", scores, axis=-1), part([0, 2, 1, 3]))
    return n.op("Reshape", n.op("Transpose", y, perm=[0, 2, 1, 3]), n.ints(1, tokens, width))


def _recurrent(n: Net, c: Chance) -> list[str]:
    kind, steps, width, hidden = (
        c.pick("LSTM", "GRU"),
        c.whole(1, 7),
        c.pick(5, 8, 12, 16),
        c.pick(8, 16, 21, 32),
    )
    direction = c.pick("forward", "forward", "reverse", "bidirectional")
    both, gates = 1 + (direction == "bidirectional"), 4 if kind == "LSTM" else 3
    extra = {"linear_before_reset": int(c.odds(0.6))} if kind == "GRU" else {}
    x = n.x(steps, c.pick(1, 1, 1, 3), width)
    w, r = n.weight(both, gates * hidden, width), n.weight(both, gates * hidden, hidden)
    b = [n.const(n.rng.standard_normal((both, 2 * gates * hidden)) * 0.1)] if c.odds(0.8) else []
    return n.ops(kind, c.pick(1, 1, 2), x, w, r, *b, hidden_size=hidden, direction=direction, **extra)


def _layer(n: Net, c: Chance, x: str, inputs: int, sides: list[int]) -> tuple[str, int]:
    """One layer that keeps the height and width; returns its channels, too."""
    kind = c.pick("conv", "conv", "pointwise", "depthwise", "norm", "pool", "gate", "add")
    if kind == "norm":
        return n.op("BatchNormalization", x, *_statistics(n, inputs)), inputs
    if kind == "pool":
        return n.op(c.pick("MaxPool", "AveragePool"), x, kernel_shape=[3, 3], pads=[1] * 4), inputs
    if kind == "gate":
        mean = n.op("GlobalAveragePool", x)
        gate = n.op(c.pick("Sigmoid", "HardSigmoid"), n.conv(mean, inputs, inputs, 1))
        return n.op("Mul", x, gate), inputs
    if kind == "add":
        return n.op("Add", n.conv(x, inputs, inputs), x), inputs
    outputs = inputs if kind == "depthwise" else c.channels()
    size = 1 if kind == "pointwise" else c.pick(3, 3, 5)
    window = Window((size, size), (1, 1), (size // 2,) * 4, (1, 1))
    return convolution(n, c, x, inputs, outputs, window, inputs if kind == "depthwise" else 1), outputs


def _chain(n: Net, c: Chance) -> str:
    """Two or three layers, each with or without an activation."""
    channels, sides = c.channels(), [c.side(6, 14), c.side(6, 14)]
    y = n.x(1, channels, *sides)
    for _ in range(c.whole(2, 3)):
        y, channels = _layer(n, c, y, channels, sides)
        y = activate(n, c, y, channels, 0.6)
    return y


def _branches(n: Net, c: Chance) -> list[str]:
    """Two branches of one layer, joined or both an output."""
    channels, sides = c.channels(), [c.side(6, 14), c.side(6, 14)]
    x = n.x(1, channels, *sides)
    trunk = activate(n, c, n.conv(x, channels, 16), 16)
    left, a = _layer(n, c, trunk, 16, sides)
    right, b = _layer(n, c, trunk, 16, sides)
    left, right = activate(n, c, left, a, 0.5), activate(n, c, right, b, 0.5)
    how = c.pick("concat", "concat", "two", "sum")
    if how == "two":
        return [left, right]
    if how == "sum" and a == b:
        return [n.op(c.pick("Add", "Mul"), left, right)]
    y = n.op("Concat", left, right, axis=1)
    return [n.conv(y, a + b, c.channels(), 1) if c.odds(0.6) else y]


def _scaling(n: Net, c: Chance) -> str:
    """Layers that change the height and width: strides, pools, transposed convolutions, resizing."""
    channels, sides = c.channels(), (c.side(7, 15), c.side(7, 15))
    outputs = c.channels()
    y = convolution(n, c, n.x(1, channels, *sides), channels, outputs, draw_window(c, sides, 3, 0))
    y = activate(n, c, y, outputs, 0.7)
    how = c.pick("resize", "deconv", "pool", "space")
    if how == "resize":
        mode = c.pick("nearest", "linear")
        y = n.op("Resize", y, "", n.const([1.0, 1.0, c.pick(2.0, 3.0), 2.0]), mode=mode,
                 coordinate_transformation_mode="asymmetric" if mode == "nearest" else "half_pixel")  # fmt: skip
    elif how == "deconv":
        kernel, strides = [c.whole(1, 4), c.whole(1, 4)], [c.pick(1, 2), c.pick(1, 2)]
        y = n.op(
            "ConvTranspose", y, n.weight(outputs, outputs, *kernel), kernel_shape=kernel, strides=strides
        )
    elif how == "pool":
        y = n.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1])
    else:
        y = n.op("DepthToSpace", n.conv(y, outputs, 16, 1), blocksize=2, mode="CRD")
        outputs = 4
    return n.conv(y, outputs, c.channels(), c.pick(1, 3)) if c.odds(0.6) else y


def _head(n: Net, c: Chance) -> str:
    """A classifier: convolution, pool, flatten, dense, perhaps softmax."""
    channels = c.channels()
    y = activate(n, c, n.conv(n.x(1, 3, c.side(6, 14), c.side(6, 14)), 3, channels), channels)
    y = n.op("Flatten", n.op("GlobalAveragePool", y), axis=1)
    classes = c.pick(1, 2, 5, 10, 17)
    y = n.op("Gemm", y, n.weight(classes, channels), n.weight(classes), transB=1)
    return n.op("Softmax", y, axis=1) if classes > 1 and c.odds(0.5) else y


def _tokens(n: Net, c: Chance) -> str:
    """Patches of a picture as tokens, one feed-forward block."""
    size, width = c.pick(2, 4), c.pick(16, 24, 32)
    rows, columns = c.whole(2, 4), c.whole(2, 4)
    window = Window((size, size), (size, size), (0,) * 4, (1, 1))
    y = convolution(n, c, n.x(1, 3, rows * size, columns * size), 3, width, window)
    y = n.op("Transpose", n.op("Reshape", y, n.ints(1, width, rows * columns)), perm=[0, 2, 1])
    if c.odds(0.5):
        y = n.op("Add", y, n.const(n.rng.standard_normal((1, rows * columns, width)).astype(np.float32)))
    z = n.op("Add", n.op("MatMul", y, n.weight(width, 2 * width)), n.weight(2 * width))
    z = n.op("MatMul", activate(n, c, z, 1), n.weight(2 * width, width))
    return n.op("Add", y, z)


KINDS = {
    "softmax": _softmax, "batch_norm": _batch_norm, "unit_length": _unit_length, "instance_norm": _instance_norm,
    "layer_norm": _layer_norm, "product": _product, "attention": _attention, "recurrent": _recurrent,
    "chain": _chain, "branches": _branches, "scaling": _scaling, "head": _head, "tokens": _tokens,
}  # fmt: skip
"""Kind of case -> what builds one."""
