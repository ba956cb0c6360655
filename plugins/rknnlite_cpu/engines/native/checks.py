"""That an op stays in its workspace and its arrays: what is asked of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Optional

from .kinds import (
    ATTENTION_NUMBERS,
    AXES,
    FLOAT,
    FUNCTION_NUMBERS,
    FUNCTIONS,
    JOINS,
    KINDS,
    NUMBERS,
    RECURRENT_SIZES,
    Flag,
    Op,
    Plane,
)

__all__ = ["Check", "Outside", "check_op"]

Check = Callable[[Op, "tuple[int, ...]"], None]

_CHANNELS = 16
_LARGEST = 1 << 31


class Outside(Exception):
    """What a check found."""


def _demand(holds: bool, text: str) -> None:
    if not holds:
        raise Outside(text)


def check_op(op: Op, size: int, layout: tuple[int, ...], more: Mapping[str, Check]) -> None:
    """Raise Outside; ``more`` are checks of kinds that are not of bytes."""
    _demand(op.kind in KINDS, "unknown")
    for plane in op.planes:
        sides = (plane.items, plane.height, plane.width, plane.channels)
        _demand(all(isinstance(n, int) and 0 < n < _LARGEST for n in (*sides, plane.pitch)), f"sizes {sides}")
        _demand(
            plane.pitch >= max(plane.room, plane.channels) and plane.pitch % 4 == 0, f"pitch {plane.pitch}"
        )
        _demand(plane.offset >= 0 and plane.offset + plane.nbytes <= size, f"place {plane.offset} of {size}")
    numbers = (*op.kernel, *op.strides, *op.dilations)
    _demand(all(isinstance(n, int) and 0 < n <= 1 << 16 for n in numbers), f"a window {numbers}")
    _demand(all(isinstance(n, int) and abs(n) <= 1 << 16 for n in op.pads), f"pads {op.pads}")
    _demand(set(op.numbers) <= set(NUMBERS), "numbers")
    (_CHECKS.get(op.kind) or more[op.kind])(op, layout)


def _same_planes(op: Op, *planes: Optional[Plane]) -> None:
    for plane in planes:
        assert plane is not None
        sides = [(p.items, p.height, p.width) for p in (plane, op.y)]
        _demand(sides[0] == sides[1], f"planes {sides}")


def _of_length(op: Op, **lengths: int) -> None:
    for name, length in lengths.items():
        _demand(name in op.arrays and op.arrays[name].size >= length, f"{length} {name}")


def _operand(op: Op) -> None:
    if op.flags & (Flag.JOIN_ADD | Flag.JOIN_MULTIPLY) or op.kind in JOINS:
        _demand(op.other is not None, "no operand")
        assert op.other is not None
        _demand(op.other.items == op.y.items and op.other.room == op.y.room, "another operand")
        sides = (op.other.height, op.other.width)
        _demand(sides in ((1, 1), (op.y.height, op.y.width)), f"an operand of {sides}")


def _function(op: Op) -> None:
    if op.flags & Flag.FUNCTION:
        _demand(op.function in FUNCTIONS, f"function {op.function!r}")
        _of_length(op, numbers=FUNCTION_NUMBERS)
        if op.function == "TABLE_OF_INDICES":
            _of_length(op, table=1)
            _demand(op.arrays["table"].size < 1 << 22, "a long table")


def _windows(op: Op, layout: tuple[int, ...]) -> None:
    _function(op)
    _demand(op.x.items == op.y.items, "other items")
    _demand(op.y.pitch % _CHANNELS == 0, f"pitch {op.y.pitch}")
    _operand(op)


def _convolution(op: Op, layout: tuple[int, ...]) -> None:
    _windows(op, layout)
    lanes, across = layout[:2]
    needed = -(-op.x.channels // 4) * 4
    rows = op.kernel[1] if op.depth == needed else 1
    _demand(
        op.depth == needed or (op.depth == op.kernel[1] * op.x.pitch and op.dilations[1] == 1),
        f"depth {op.depth}",
    )
    vectors = -(-op.y.channels // lanes)
    padded = -(-vectors // across) * across * lanes
    _of_length(
        op,
        weights=op.kernel[0] * rows * op.depth * vectors * lanes,
        ones=-(-op.depth // (4 * lanes)) * 4 * lanes,
        bias=padded, zeros=padded, factor=padded, slope=padded,
    )  # fmt: skip


def _is_whole(op: Op) -> bool:
    assert op.other is not None
    sides = [(plane.height, plane.width, plane.pitch) for plane in (op.other, op.y)]
    return sides[0] == sides[1]


def _depthwise(op: Op, layout: tuple[int, ...]) -> None:
    _windows(op, layout)
    _demand(op.x.channels == op.y.channels and op.x.room == op.y.room, "other channels")
    chunk = 4 * layout[0]
    alone = op.x.pitch == op.y.pitch == op.x.room
    folds = chunk // op.x.pitch if alone and op.strides[1] == 1 and chunk % op.x.pitch == 0 else 1
    _demand(op.depth == 1 or op.depth == folds, f"{op.depth} pixels in a vector")
    joined = op.flags & (Flag.JOIN_ADD | Flag.JOIN_MULTIPLY)
    _demand(op.depth == 1 or not joined or _is_whole(op), "an operand of its own for a pixel")
    channels = -(-op.y.channels // chunk) * chunk
    groups = -(-op.kernel[0] * op.kernel[1] // 4)
    _of_length(
        op, weights=channels * groups * 4, bias=channels, zeros=channels, factor=channels, slope=channels
    )


def _elementwise(op: Op, layout: tuple[int, ...]) -> None:
    _same_planes(op, op.x)
    _demand(op.x.room == op.y.room and op.x.channels >= op.y.channels, f"{op.x.channels} channels")
    _demand(op.kind == "TABLE" or op.y.pitch % _CHANNELS == 0, f"pitch {op.y.pitch}")
    _operand(op)
    if op.kind == "TABLE":
        _of_length(op, table=256)
    if op.kind == "SCALE":
        _of_length(op, factor=op.y.room, slope=op.y.room)


def _pool(op: Op, layout: tuple[int, ...]) -> None:
    _windows(op, layout)
    _demand(op.x.room == op.y.room, f"{op.x.channels} channels")


def _copy(op: Op, layout: tuple[int, ...]) -> None:
    fits = op.y.height <= op.x.height * op.strides[0] and op.y.width <= op.x.width * op.strides[1]
    _demand(op.x.items == op.y.items and fits, "other planes")
    _demand(op.channels > 0, "no channels")
    _demand(op.depth >= 0 and op.depth + op.channels <= op.x.room, f"channel {op.depth}")
    _demand(op.place >= 0 and op.place + op.channels <= op.y.room, f"channel {op.place}")
    if "table" in op.arrays:
        _of_length(op, table=256)


def _spread(op: Op, layout: tuple[int, ...]) -> None:
    sides = [(side - 1) * step + 1 for side, step in zip((op.x.height, op.x.width), op.strides)]
    _demand(sides == [op.y.height, op.y.width] and op.x.items == op.y.items, f"sides {sides}")
    _demand(op.x.room == op.y.room, f"{op.x.channels} channels")


def _edge(op: Op, layout: tuple[int, ...]) -> None:
    _demand(op.place >= 0, f"array {op.place}")


def _shuffle(op: Op, layout: tuple[int, ...]) -> None:
    _of_length(op, sizes=3 * AXES)
    count, across, down = (op.arrays["sizes"][i * AXES : (i + 1) * AXES].tolist() for i in range(3))
    _demand(all(0 < n < _LARGEST for n in count) and op.depth >= 0, f"axes of {count}")
    within(op.x, count, across, op.depth)
    _demand(op.place >= 0, f"place {op.place}")
    within(op.y, count, down, op.place)


def within(plane: Plane, count: Sequence[int], steps: Sequence[int], first: int = 0, size: int = 1) -> None:
    """Demand that values of ``size`` bytes lie in a plane: ``count`` of them along each axis, so many bytes apart."""
    _demand(all(0 <= step < _LARGEST for step in steps), f"steps {steps}")
    last = first + sum((n - 1) * step for n, step in zip(count, steps))
    _demand(last + size <= plane.nbytes, f"values up to {last} of {plane.nbytes}")


def _recurrent(op: Op, layout: tuple[int, ...]) -> None:
    _of_length(op, sizes=len(RECURRENT_SIZES))
    n = dict(zip(RECURRENT_SIZES, op.arrays["sizes"].tolist()))
    counts = [n[name] for name in RECURRENT_SIZES[:4]]
    _demand(all(0 < each < 1 << 20 for each in counts) and n["gates"] in (3, 4), f"sizes {n}")
    _demand(n["directions"] in (1, 2), f"{n['directions']} directions")
    hidden = -(-n["hidden"] // layout[0]) * layout[0]
    rows = n["directions"] * n["gates"] * hidden
    states = 2 * n["directions"] * n["batch"] * hidden
    count = rows * (n["inputs"] + n["hidden"])
    weights = {"weights": 2 * count} if op.flags & Flag.HALVES else {"factor": count}
    _of_length(op, numbers=FUNCTION_NUMBERS + 4 * rows + states, **weights)
    if "slope" in op.arrays:
        _of_length(op, slope=256)
    x, y = (FLOAT if op.flags & flag else 1 for flag in (Flag.FLOATS_IN, Flag.FLOATS_OUT))
    within(
        op.x,
        [n[k] for k in ("steps", "batch", "inputs")],
        [n[k] for k in ("x_step", "x_item", "x_value")],
        size=x,
    )
    places = ("y_step", "y_direction", "y_item", "y_value")
    within(op.y, [n[k] for k in ("steps", "directions", "batch", "hidden")], [n[k] for k in places], size=y)


def _convert(op: Op, layout: tuple[int, ...]) -> None:
    _same_planes(op, op.x)
    floats, stored = (op.x, op.y) if op.kind == "TO_BYTES" else (op.y, op.x)
    _demand(floats.channels == FLOAT * stored.channels, f"{floats.channels} of {stored.channels} channels")
    _demand(floats.offset % FLOAT == floats.pitch % FLOAT == 0, "values that are no floats")
    if op.kind == "TO_FLOATS":
        _of_length(op, factor=256)


def _attend(op: Op, layout: tuple[int, ...]) -> None:
    _demand(op.other is not None and op.third is not None, "no keys or values")
    assert op.other is not None and op.third is not None
    x, keys, values, y = op.x, op.other, op.third, op.y
    _demand(x.items == keys.items == values.items == y.items, "other heads")
    _demand(x.height == keys.height == values.height == y.height == 1, "other planes")
    _demand(x.width == y.width and keys.width == values.width < 1 << 15, "other positions")
    _demand(x.channels == keys.channels <= 512 and x.channels % 4 == 0, f"depth {x.channels}")
    _demand(
        values.channels == y.channels and values.room == y.room and y.pitch % _CHANNELS == 0, "other channels"
    )
    _of_length(op, numbers=ATTENTION_NUMBERS)


def _normalise(op: Op, layout: tuple[int, ...]) -> None:
    _same_planes(op, op.x)
    _demand(
        op.x.channels == op.y.channels < 1 << 15 and op.x.pitch % _CHANNELS == op.y.pitch % _CHANNELS == 0,
        "channels",
    )
    _of_length(op, sizes=2, factor=op.y.room, slope=op.y.room)


def _numbered(op: Op, first: int, count: int, least: int, limit: int) -> None:
    found = op.arrays["sizes"][first : first + count]
    _demand(bool((found >= least).all() and (found < limit).all()), "places outside")


def _pick(op: Op, layout: tuple[int, ...]) -> None:
    _demand(
        op.x.items == op.y.items and op.x.channels == op.y.channels and op.x.room == op.y.room, "other planes"
    )
    _of_length(op, sizes=op.y.height + op.y.width)
    _numbered(op, 0, op.y.height, -1, op.x.height)
    _numbered(op, op.y.height, op.y.width, -1, op.x.width)


def _bilinear(op: Op, layout: tuple[int, ...]) -> None:
    _demand(
        op.x.items == op.y.items and op.x.channels == op.y.channels and op.x.room == op.y.room, "other planes"
    )
    _demand(op.x.pitch % _CHANNELS == op.y.pitch % _CHANNELS == 0, "channels")
    ends = 2 * (op.y.height + op.y.width)
    _of_length(op, sizes=ends, numbers=ends)
    _numbered(op, 0, 2 * op.y.height, 0, op.x.height)
    _numbered(op, 2 * op.y.height, 2 * op.y.width, 0, op.x.width)


def _put(op: Op, layout: tuple[int, ...]) -> None:
    _of_length(op, table=op.y.items * op.y.height * op.y.width * op.y.pitch)
    _demand(op.y.pitch == op.y.room, f"pitch {op.y.pitch}")


_CHECKS: dict[str, Check] = {
    "CONVOLVE": _convolution,
    "DEPTHWISE": _depthwise,
    "ADD": _elementwise,
    "MULTIPLY": _elementwise,
    "TABLE": _elementwise,
    "SCALE": _elementwise,
    "MAX_POOL": _pool,
    "COPY": _copy,
    "SPREAD": _spread,
    "TAKE": _edge,
    "GIVE": _edge,
    "RECURRENT": _recurrent,
    "SHUFFLE": _shuffle,
    "ATTEND": _attend,
    "NORMALISE": _normalise,
    "PICK": _pick,
    "BILINEAR": _bilinear,
    "PUT": _put,
    "TO_FLOATS": _convert,
    "TO_BYTES": _convert,
}
