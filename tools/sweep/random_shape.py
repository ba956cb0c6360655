"""Random data movement, indexing, pooling, resizing and sampling."""

from __future__ import annotations

from typing import Any

from chance import Chance
from graph import Net
from random_parts import Window, draw_window

__all__ = ["KINDS", "STEPPING"]


def _map(c: Chance) -> tuple[int, int, int, int]:
    return c.pick(1, 1, 1, 1, 2), c.channels(), c.side(4, 14), c.side(4, 14)


def _ranked(c: Chance, *ranks: int) -> tuple[int, ...]:
    shape = {2: (4, 24), 3: (3, 11, 20), 4: (2, 20, 10, 12), 5: (1, 4, 5, 6, 7), 6: (1, 2, 3, 4, 3, 8)}[
        c.pick(*ranks)
    ]
    return (c.pick(1, 1, 1, shape[0]), *(c.whole(2, size) if size > 2 else size for size in shape[1:]))


def _transpose(n: Net, c: Chance) -> str:
    shape = _ranked(c, 2, 3, 4, 4, 4, 5, 6)
    order = c.shuffled(range(len(shape)))
    if c.odds(0.7):
        order = [0, *(axis for axis in order if axis)]
    return n.op("Transpose", n.x(*shape), perm=order)


def _reshape(n: Net, c: Chance) -> str:
    """Sizes are split into factors and joined again in another way."""
    shape = [1, *(c.pick(2, 3, 4, 6, 8, 12) for _ in range(c.pick(2, 3)))]
    factors = [1]
    for size in shape[1:]:
        part = c.divisor(size)
        factors += [part, size // part]
    target: list[int] = [1]
    for factor in factors[1:]:
        if c.odds(0.5) or len(target) == 1 or len(target) > 4:
            target.append(factor) if len(target) < 5 else target.__setitem__(-1, target[-1] * factor)
        else:
            target[-1] *= factor
    y = n.x(*shape)
    if c.odds(0.4):
        channels = shape[1]
        y = n.conv(y, channels, channels, 1) if len(shape) == 4 else n.op("Relu", y)
    return n.op("Reshape", y, n.ints(*target))


def _slice(n: Net, c: Chance) -> str:
    shape = _ranked(c, 2, 3, 4, 4, 4, 4)
    starts, ends, axes, steps = [], [], c.several(range(1, len(shape)), c.pick(1, 1, 2)), []
    for axis in axes:
        size = shape[axis]
        first = c.whole(0, size - 1)
        step = c.pick(1, 1, 1, 2, 3)
        last = c.whole(first + 1, size)
        if c.odds(0.12):
            starts, ends, step = [*starts, -1], [*ends, -size - 1], -1
        elif c.odds(0.2):
            starts, ends = [*starts, first - size], [*ends, 2**31 - 1]
        else:
            starts, ends = [*starts, first], [*ends, last]
        steps.append(step)
    y = n.x(*shape)
    return n.op("Slice", y, n.ints(*starts), n.ints(*ends), n.ints(*axes), n.ints(*steps))


def _concat(n: Net, c: Chance) -> str:
    shape = list(_ranked(c, 2, 3, 4, 4, 4))
    axis = c.whole(1, len(shape) - 1)
    parts = []
    for _ in range(c.whole(2, 4)):
        shape[axis] = c.pick(1, 3, 5, 8, 16, 17) if axis == 1 else c.whole(1, 9)
        if parts and c.odds(0.15):
            parts.append(n.const(n.rng.uniform(-1, 1, shape)))
        else:
            part = n.x(*shape)
            if c.odds(0.4):
                part = n.op("Mul", part, n.const(c.real(0.3, 3)))
            parts.append(n.op("Relu", part) if c.odds(0.2) else part)
    return n.op("Concat", *parts, axis=axis - len(shape) if c.odds(0.2) else axis)


def _split(n: Net, c: Chance) -> list[str]:
    shape = _ranked(c, 3, 4, 4, 4)
    axis = c.whole(1, len(shape) - 1)
    sizes = c.parts(shape[axis], min(shape[axis], c.whole(2, 3)))
    pieces = n.ops("Split", len(sizes), n.x(*shape), n.ints(*sizes), axis=axis)
    return [n.op("Relu", piece) if c.odds(0.2) else piece for piece in pieces]


def _pad(n: Net, c: Chance) -> str:
    shape = _ranked(c, 4, 4, 4, 3)
    mode = c.pick("constant", "constant", "reflect", "edge")
    begins, ends = [0] * len(shape), [0] * len(shape)
    for axis in range(1 if mode == "constant" and c.odds(0.3) else 2, len(shape)):
        most = min(3, shape[axis] - 1)
        begins[axis], ends[axis] = c.whole(0, most), c.whole(0, most)
    fill = [n.const(c.real(-1, 1))] if mode == "constant" and c.odds(0.5) else []
    return n.op("Pad", n.x(*shape), n.ints(*begins, *ends), *fill, mode=mode)


def _pool(n: Net, c: Chance) -> str:
    batch, channels, *sides = _map(c)
    kind = c.pick("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool")
    drawn = draw_window(c, (sides[0], sides[1]), 5, 0)
    pads = tuple(min(p, (k - 1) // 2) for p, k in zip(drawn.pads, drawn.kernel * 2))
    window = Window(drawn.kernel, drawn.strides, pads, drawn.dilations)
    extra: dict[str, Any] = {"ceil_mode": 1} if c.odds(0.3) and kind != "LpPool" else {}
    if kind == "AveragePool" and c.odds(0.5):
        extra["count_include_pad"] = 1
    y = n.x(batch, channels, *sides)
    y = n.op("Relu", y) if c.odds(0.2) else y
    return n.op(kind, y, **window.attributes(), **extra)


def _pool_global(n: Net, c: Chance) -> str:
    y = n.op(c.pick("GlobalAveragePool", "GlobalAveragePool", "GlobalMaxPool"), n.x(*_map(c)))
    return n.op("Flatten", y, axis=1) if c.odds(0.4) else y


def _pool1d(n: Net, c: Chance) -> str:
    channels, side = c.channels(), c.side(8, 40)
    kernel = c.whole(2, 5)
    pads = [c.whole(0, (kernel - 1) // 2), c.whole(0, (kernel - 1) // 2)]
    kind = c.pick("MaxPool", "AveragePool")
    return n.op(kind, n.x(1, channels, side), kernel_shape=[kernel], strides=[c.pick(1, 2, 3)], pads=pads)


def _resize(n: Net, c: Chance) -> str:
    batch, channels, height, width = _map(c)
    mode = c.pick("nearest", "nearest", "linear")
    extra: dict[str, Any] = {"mode": mode}
    extra["coordinate_transformation_mode"] = c.pick(
        "asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"
    )
    if mode == "nearest":
        extra["nearest_mode"] = c.pick("floor", "floor", "round_prefer_floor", "round_prefer_ceil", "ceil")
    x = n.x(batch, channels, height, width)
    if c.odds(0.5):
        scales = [c.pick(2.0, 2.0, 3.0, 1.0, 1.5, 0.5) for _ in range(2)]
        return n.op("Resize", x, "", n.const([1.0, 1.0, *scales]), **extra)
    return n.op("Resize", x, "", "", n.ints(batch, channels, c.side(3, 25), c.side(3, 25)), **extra)


def _gather(n: Net, c: Chance) -> str:
    shape = _ranked(c, 2, 3, 4, 4)
    axis = c.whole(0 if shape[0] > 1 else 1, len(shape) - 1)
    picks = [c.whole(0, shape[axis] - 1) for _ in range(c.whole(1, 5))]
    if c.odds(0.2):
        return n.op("Gather", n.x(*shape), n.const(picks[0], "int64"), axis=axis)
    return n.op("Gather", n.x(*shape), n.ints(*picks), axis=axis)


def _scatter(n: Net, c: Chance) -> str:
    shape = _ranked(c, 4)
    rows = c.several(range(shape[1]), c.whole(1, min(4, shape[1])))
    extra = {"reduction": "add"} if c.odds(0.3) else {}
    places = n.const([[0, row] for row in rows], "int64")
    return n.op("ScatterND", n.x(*shape), places, n.x(len(rows), *shape[2:]), **extra)


def _blocks(n: Net, c: Chance) -> str:
    """Space to depth, depth to space, channel shuffle."""
    size, height, width = c.pick(2, 2, 3, 4), c.side(2, 6), c.side(2, 6)
    kind = c.pick("SpaceToDepth", "DepthToSpace", "shuffle")
    if kind == "SpaceToDepth":
        return n.op(kind, n.x(1, c.pick(1, 3, 8, 16), height * size, width * size), blocksize=size)
    if kind == "DepthToSpace":
        x = n.x(1, c.pick(1, 2, 3, 8) * size * size, height, width)
        return n.op(kind, x, blocksize=size, mode=c.pick("DCR", "CRD"))
    channels = size * c.pick(2, 4, 8)
    y = n.op("Reshape", n.x(1, channels, height, width), n.ints(1, size, channels // size, height, width))
    y = n.op("Transpose", y, perm=[0, 2, 1, 3, 4])
    return n.op("Reshape", y, n.ints(1, channels, height, width))


def _repeat(n: Net, c: Chance) -> str:
    shape = _ranked(c, 3, 4, 4)
    if c.odds(0.5):
        return n.op("Tile", n.x(*shape), n.ints(1, *(c.pick(1, 1, 2, 3) for _ in shape[1:])))
    ones = [1 if c.odds(0.4) else size for size in shape]
    return n.op("Expand", n.x(*ones), n.ints(*shape))


def _window_partition(n: Net, c: Chance) -> str:
    """As Swin transformers cut a map into windows, and join them again."""
    channels, rows, columns, size = c.pick(8, 12, 16, 24), c.whole(1, 3), c.whole(2, 3), c.pick(2, 3, 4)
    if c.odds(0.5):
        x = n.x(1, rows * size, columns * size, channels)
        y = n.op("Reshape", x, n.ints(1, rows, size, columns, size, channels))
        y = n.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5])
        return n.op("Reshape", y, n.ints(rows * columns, size * size, channels))
    y = n.op(
        "Reshape", n.x(rows * columns, size * size, channels), n.ints(1, rows, columns, size, size, channels)
    )
    y = n.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5])
    return n.op("Reshape", y, n.ints(1, rows * size, columns * size, channels))


def _grid(n: Net, c: Chance) -> str:
    x = n.x(1, c.channels(), c.side(4, 12), c.side(4, 12))
    grid = n.x(1, c.side(3, 9), c.side(3, 9), 2, low=-1.2, high=1.2)
    return n.op(
        "GridSample", x, grid, mode="bilinear", padding_mode=c.pick("zeros", "border", "reflection"),
        align_corners=int(c.odds(0.5)),
    )  # fmt: skip


def _squeeze(n: Net, c: Chance) -> str:
    shape = [1, *(c.whole(2, 9) for _ in range(c.pick(1, 2)))]
    axis = c.whole(1, len(shape))
    if c.odds(0.5):
        return n.op("Unsqueeze", n.x(*shape), n.ints(axis))
    return n.op("Squeeze", n.x(*shape[:axis], 1, *shape[axis:]), n.ints(axis))


def _running_sum(n: Net, c: Chance) -> str:
    shape = _ranked(c, 3, 4, 2)
    extra = {"exclusive": int(c.odds(0.3)), "reverse": int(c.odds(0.3))}
    return n.op("CumSum", n.x(*shape), n.const(c.whole(1, len(shape) - 1), "int64"), **extra)


KINDS = {
    "transpose": _transpose, "reshape": _reshape, "slice": _slice, "concat": _concat, "split": _split, "pad": _pad,
    "pool": _pool, "pool_global": _pool_global, "pool1d": _pool1d, "resize": _resize, "gather": _gather,
    "scatter": _scatter, "blocks": _blocks, "repeat": _repeat, "window_partition": _window_partition, "grid": _grid,
    "squeeze": _squeeze, "running_sum": _running_sum,
}  # fmt: skip
"""Kind of case -> what builds one."""
STEPPING = ()
"""Kinds whose results jump."""
