"""Random element-wise functions, broadcast forms, reductions, comparisons and casts."""

from __future__ import annotations

from chance import Chance
from graph import Net
from random_parts import ACTIVATIONS

__all__ = ["KINDS", "STEPPING"]

_RANGES = {
    "Exp": (-2, 2), "Log": (0.2, 5), "Sqrt": (0.05, 6), "Reciprocal": (0.5, 4), "Erf": (-2, 2), "Sin": (-4, 4),
    "Cos": (-4, 4), "Tan": (-1.2, 1.2), "Asin": (-0.95, 0.95), "Acos": (-0.95, 0.95), "Atan": (-3, 3),
    "Sinh": (-2, 2), "Cosh": (-2, 2), "Asinh": (-3, 3), "Acosh": (1.1, 5), "Atanh": (-0.9, 0.9),
}  # fmt: skip
_JUMPING = ("Floor", "Ceil", "Round", "Sign")


def _shape(c: Chance, ranks: tuple[int, ...] = (4, 4, 4, 3, 2, 5, 1)) -> tuple[int, ...]:
    """Any shape, with a batch of one most often."""
    rank = c.pick(*ranks)
    sizes = {1: (40,), 2: (5, 24), 3: (3, 13, 20), 4: (2, 33, 12, 14), 5: (2, 4, 5, 7, 9)}[rank]
    shape = [c.whole(1, size) for size in sizes]
    if rank > 1 and c.odds(0.8):
        shape[0] = 1
    return tuple(shape)


def _broadcast(c: Chance, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that stretches to the other one."""
    ones = tuple(1 if c.odds(0.5) else size for size in shape)
    options = [shape, ones, (1, *shape[1:2], *([1] * (len(shape) - 2))), (*[1] * (len(shape) - 1), shape[-1])]
    found = c.pick(*options)
    if c.odds(0.25):
        cut = c.whole(0, len(found) - 1)
        while cut and any(size != 1 for size in found[:cut]):
            cut -= 1
        found = found[cut:]
    return found


def _unary(n: Net, c: Chance) -> str:
    kind = c.pick(*_RANGES, "Abs", "Neg")
    low, high = _RANGES.get(kind, (0, 0))
    return n.op(kind, n.x(*_shape(c), low=low, high=high))


def _activation(n: Net, c: Chance) -> str:
    """An activation that follows no layer."""
    kind = c.pick(*(k for k in ACTIVATIONS if k not in ("thresholded", "abs", "neg", "prelu")))
    spread = c.pick(1.0, 2.0, 4.0, 6.0)
    return ACTIVATIONS[kind](n, c, n.x(*_shape(c), low=-spread, high=c.pick(spread, spread, spread / 3)), 1)


def _prelu(n: Net, c: Chance) -> str:
    """Slopes shared by all, per channel, per element of other axes; alone or behind a convolution."""
    channels, height, width = c.channels(), c.side(3, 12), c.side(3, 12)
    y = n.x(1, channels, height, width)
    if c.odds(0.6):
        y = n.conv(y, channels, channels, c.pick(1, 3))
    shape = c.pick(
        (1,), (1,), (1, 1, 1), (channels, 1, 1), (channels, 1, 1), (1, height, width), (1, 1, width)
    )
    low, high = c.pick((0.02, 0.4), (-0.4, 0.4), (0.1, 1.3))
    y = n.op("PRelu", y, n.const(n.rng.uniform(low, high, shape)))
    return n.conv(y, channels, c.channels(), 1) if c.odds(0.3) else y


def _binary(n: Net, c: Chance) -> str:
    kind = c.pick("Add", "Add", "Sub", "Mul", "Mul", "Div", "Max", "Min", "Pow")
    shape = _shape(c)
    low, high = (0.5, 2.5) if kind in ("Div", "Pow") else c.pick((0.0, 0.0), (-1.0, 3.0))
    other = _broadcast(c, shape)
    a = n.x(*shape, low=low, high=high)
    if c.odds(0.4):
        b = n.const(n.rng.uniform(low or -1.5, high or 1.5, other))
    else:
        b = n.x(*other, low=low, high=high)
    return n.op(kind, *((b, a) if c.odds(0.3) else (a, b)))


def _variadic(n: Net, c: Chance) -> str:
    shape = _shape(c)
    return n.op(c.pick("Sum", "Mean", "Max", "Min"), *(n.x(*shape) for _ in range(c.whole(2, 4))))


def _power(n: Net, c: Chance) -> str:
    exponent = c.pick(2.0, 3.0, 0.5, c.real(0.3, 2.5))
    return n.op("Pow", n.x(*_shape(c), low=c.pick(0.1, -2.0) if exponent in (2, 3) else 0.1, high=2.2),
                n.const(exponent))  # fmt: skip


def _axes(c: Chance, rank: int) -> list[int]:
    axes = c.several(range(rank), c.pick(1, 1, 2, 2, min(3, rank)) if rank > 1 else 1)
    return [axis - rank if c.odds(0.3) else axis for axis in axes]


def _reduction(n: Net, c: Chance) -> str:
    kind = c.pick(
        "Max", "Min", "Mean", "Mean", "Sum", "Sum", "L1", "L2", "SumSquare", "LogSum", "LogSumExp", "Prod"
    )
    shape = _shape(c, (4, 4, 4, 3, 2))
    low, high = (0.3, 1.6) if kind in ("LogSum", "Prod") else (0.0, 0.0)
    x, axes, keep = n.x(*shape, low=low, high=high), _axes(c, len(shape)), int(c.odds(0.6))
    if kind == "Sum":
        return n.op("ReduceSum", x, n.ints(*axes), keepdims=keep)
    return n.op(f"Reduce{kind}", x, axes=axes, keepdims=keep)


def _jumping(n: Net, c: Chance) -> str:
    return n.op(c.pick(*_JUMPING), n.x(*_shape(c, (4, 4, 3, 2)), low=-4, high=4))


def _index(n: Net, c: Chance) -> str:
    shape = _shape(c, (4, 4, 3, 2))
    attributes = {"axis": c.whole(0, len(shape) - 1), "keepdims": int(c.odds(0.5))}
    return n.op(c.pick("ArgMax", "ArgMin"), n.x(*shape), **attributes)


def _top(n: Net, c: Chance) -> list[str]:
    shape = tuple(size + 3 for size in _shape(c, (4, 3, 2)))
    axis = c.whole(1, len(shape) - 1)
    count = n.ints(c.whole(1, min(6, shape[axis])))
    return n.ops("TopK", 2, n.x(1, *shape[1:]), count, axis=axis, largest=int(c.odds(0.7)))


def _compare(n: Net, c: Chance) -> str:
    shape = _shape(c, (4, 4, 3, 2))
    a = n.x(*shape)
    b = n.const(c.real(-1, 1)) if c.odds(0.4) else n.x(*_broadcast(c, shape))
    chosen = n.op(c.pick("Less", "Greater", "LessOrEqual", "GreaterOrEqual"), a, b)
    if c.odds(0.3):
        chosen = n.op("Not", chosen)
    if c.odds(0.5):
        return n.op("Where", chosen, a, n.x(*shape))
    return n.op("Cast", chosen, to=1)


def _cast(n: Net, c: Chance) -> str:
    shape = _shape(c, (4, 4, 3, 2))
    if c.odds(0.5):
        x = n.x(*shape, dtype=c.pick("int64", "int32"), low=0, high=c.whole(5, 90))
        return n.op("Mul", n.op("Cast", x, to=1), n.const(c.real(0.1, 2)))
    return n.op("Cast", n.x(*shape, low=-9, high=9), to=c.pick(6, 7))


def _arithmetic(n: Net, c: Chance) -> str:
    """Three to five element-wise operators in a row."""
    shape = _shape(c, (4, 4, 3))
    x = y = n.x(*shape)
    for _ in range(c.whole(3, 5)):
        kind = c.pick("Add", "Sub", "Mul", "Div", "Abs", "Sigmoid", "Tanh", "side")
        if kind in ("Abs", "Sigmoid", "Tanh"):
            y = n.op(kind, y)
        elif kind == "side":
            y = n.op(c.pick("Add", "Mul", "Sub"), y, n.op("Mul", x, n.const(c.real(0.3, 2))))
        else:
            width = (1,) if c.odds(0.6) else (shape[-1],)
            y = n.op(kind, y, n.const(n.rng.uniform(0.4, 2.0, width)))
    return y


KINDS = {
    "unary": _unary, "activation": _activation, "prelu": _prelu, "binary": _binary, "variadic": _variadic,
    "power": _power, "reduction": _reduction, "jumping": _jumping, "index": _index, "top": _top,
    "compare": _compare, "cast": _cast, "arithmetic": _arithmetic,
}  # fmt: skip
"""Kind of case -> what builds one."""
STEPPING = ("jumping", "index", "top", "compare", "cast")
"""Kinds whose results jump."""
