"""Random convolutions with computed weights, and products with constants that have as many items as their operand."""

from __future__ import annotations

from chance import Chance
from graph import Net
from random_parts import ACTIVATIONS

__all__ = ["KINDS"]


def _features(n: Net, c: Chance, shape: tuple[int, ...], channels: int) -> str:
    """A layer in front: what is computed has the range of a layer."""
    return n.conv(n.x(*shape), shape[1], channels, c.pick(1, 3))


def _correlation(n: Net, c: Chance) -> str:
    """One picture over another: channel by channel, or a template for each result."""
    channels, side = c.pick(4, 8, 12, 20, 33), c.whole(1, 5)
    kernel = (side, c.pick(side, c.whole(1, 5)))
    depthwise = c.odds(0.5)
    items = 1 if depthwise else c.pick(1, 2, 5, 8)
    search = _features(n, c, (1, 3, c.side(9, 16), c.side(9, 16)), channels)
    template = _features(n, c, (items, 3, *kernel), channels)
    how = {"kernel_shape": list(kernel), "pads": [c.pick(0, 0, 1)] * 4, "strides": [c.pick(1, 1, 2)] * 2}
    if depthwise:
        template = n.op("Reshape", template, n.ints(channels, 1, *kernel))
        how["group"] = channels
    elif c.odds(0.25) and min(kernel) > 1:
        how["dilations"] = [2, 2]
    operands = [search, template]
    if c.odds(0.2):
        operands.append(n.weight(channels if depthwise else items))
    y = n.op("Conv", *operands, **how)
    return ACTIVATIONS[c.pick("relu", "leaky", "sigmoid", "silu")](n, c, y, 1) if c.odds(0.4) else y


def _items(n: Net, c: Chance) -> str:
    """A constant of its own for every item, as first or second factor; scaled, or with something added."""
    items, rows, inner, columns = c.whole(2, 6), c.whole(1, 17), c.whole(2, 40), c.whole(1, 40)
    lead = (items,) if c.odds(0.7) else (1, items)
    if c.odds(0.5):
        y = n.op("MatMul", n.x(*lead, rows, inner), n.weight(*lead, inner, columns))
        rest = c.pick((1,), (columns,), (*lead, 1, columns))
    else:
        y = n.op("MatMul", n.weight(*lead, columns, inner), n.x(*lead, inner, rows))
        rest = c.pick((1,), (columns, 1), (*lead, columns, 1))
    if c.odds(0.5):
        y = n.op(c.pick("Add", "Mul"), y, n.const(n.rng.uniform(0.3, 1.5, rest)))
    return y


def _rows(n: Net, c: Chance) -> str:
    """Numbers for each item of a batch and each channel, which are added, taken away, multiplied with or divided by."""
    shape = (
        c.whole(2, 5),
        c.pick(3, 8, 20, 33),
        *([c.side(3, 9)] if c.odds(0.5) else [c.side(3, 9), c.side(3, 9)]),
    )
    y = n.op("Relu", n.x(*shape))
    rows = n.const(n.rng.uniform(0.4, 1.6, (*shape[:2], *[1] * (len(shape) - 2))))
    return n.op(c.pick("Add", "Sub", "Mul", "Div"), y, rows)


KINDS = {"correlation": _correlation, "items": _items, "rows": _rows}
"""Kind of case -> what builds one."""
