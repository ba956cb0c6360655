"""Checks of ops of floats, see ``description``: none may leave its workspace or its arrays."""

from __future__ import annotations

from math import prod

from .checks import _demand as demand
from .checks import _edge as edge
from .checks import _of_length as of_length
from .checks import _operand as operand
from .checks import _pool as pool
from .checks import _same_planes as same_planes
from .kinds import FLOAT, FUNCTIONS, Flag, Op

__all__ = ["FLOAT_CHECKS", "HALVES"]

_CHANNELS = 16
HALVES = (1 << 17) + 4
"""Bytes of a table of all float16, with what vectors read behind it."""


def _floats(op: Op) -> None:
    lie = (number % FLOAT == 0 for each in (op.x, op.y, op.other) if each is not None
           for number in (each.channels, each.pitch, each.offset))  # fmt: skip
    demand(all(lie), "floats that begin inside of others")


def _float_stage(op: Op, layout: tuple[int, ...]) -> None:
    _floats(op)
    demand(op.x.items == op.y.items, "other items")
    demand(op.y.pitch % _CHANNELS == 0, f"pitch {op.y.pitch}")
    operand(op)
    channels = -(-op.y.channels // (FLOAT * layout[0])) * layout[0]
    of_length(op, factor=channels, slope=channels)
    if op.flags & Flag.FUNCTION:
        demand(op.function in FUNCTIONS, f"function {op.function!r}")
    if op.flags & Flag.FUNCTION and op.function == "TABLE_OF_INDICES":
        of_length(op, table=HALVES)


def _float_convolution(op: Op, layout: tuple[int, ...]) -> None:
    _float_stage(op, layout)
    vectors = -(-op.y.channels // (FLOAT * layout[0]))
    of_length(op, weights=2 * prod(op.kernel) * op.x.channels // FLOAT * vectors * layout[0])


def _float_depthwise(op: Op, layout: tuple[int, ...]) -> None:
    _float_stage(op, layout)
    demand(op.x.channels == op.y.channels and op.x.room == op.y.room, "other channels")
    vectors = -(-op.y.channels // (FLOAT * layout[0]))
    of_length(op, weights=2 * prod(op.kernel) * vectors * layout[0])


def _float_elementwise(op: Op, layout: tuple[int, ...]) -> None:
    _floats(op)
    if op.kind == "FLOAT_SCALE":
        _float_stage(op, layout)
    same_planes(op, op.x)
    demand(op.x.room == op.y.room and op.x.channels >= op.y.channels, f"{op.x.channels} channels")
    demand(op.y.pitch % _CHANNELS == 0, f"pitch {op.y.pitch}")
    operand(op)
    if op.kind == "FLOAT_TABLE":
        of_length(op, table=HALVES)


def _float_pool(op: Op, layout: tuple[int, ...]) -> None:
    _floats(op)
    pool(op, layout)


def _norm(op: Op, layout: tuple[int, ...]) -> None:
    _floats(op)
    same_planes(op, op.x)
    channels = -(-op.y.channels // (FLOAT * layout[0])) * layout[0]
    demand(
        op.x.channels == op.y.channels and op.x.room == op.y.room and op.place in range(3), "other channels"
    )
    of_length(op, factor=channels, slope=channels)


def _attention(op: Op, layout: tuple[int, ...]) -> None:
    """x and y have a pixel for each query; ``other`` one for each key, with as many channels as x (scores) or y has."""
    _floats(op)
    same_planes(op, op.x)
    demand(op.other is not None, "no operand")
    assert op.other is not None
    tokens, depths = op.other.height * op.other.width, (op.x.channels, op.y.channels)
    inner, outer = depths if op.kind == "FLOAT_SCORES" else depths[::-1]
    demand(op.other.items == op.y.items and op.other.channels == inner, "another operand")
    demand(outer == FLOAT * tokens, f"{tokens} tokens")


def _reshape(op: Op, layout: tuple[int, ...]) -> None:
    _floats(op)
    counts = [prod(each) for each in ((p.items, p.height, p.width, p.channels) for p in (op.x, op.y))]
    demand(counts[0] == counts[1], f"{counts} values")


def _transpose(op: Op, layout: tuple[int, ...]) -> None:
    _floats(op)
    sides = (op.y.items, op.y.height, op.y.channels // FLOAT, FLOAT * op.y.width)
    demand(sides == (op.x.items, op.x.height, op.x.width, op.x.channels), "other sides")


def _places(op: Op, layout: tuple[int, ...]) -> None:
    _floats(op)
    demand(
        op.x.items == op.y.items and op.x.channels == op.y.channels and op.x.room == op.y.room, "other pixels"
    )
    rows, columns = 2 * op.y.height, 2 * op.y.width
    of_length(op, bias=rows + columns)
    least = 0
    if op.kind == "FLOAT_MIX":
        of_length(op, factor=rows + columns)
    else:
        least = -1
    for part, size in ((op.arrays["bias"][:rows], op.x.height), (op.arrays["bias"][rows:], op.x.width)):
        demand(least <= int(part.min()) and int(part.max()) < size, "pixels outside")


def _select(op: Op, layout: tuple[int, ...]) -> None:
    _float_stage(op, layout)
    same_planes(op, op.x)
    lanes, count = layout[0], op.x.channels // FLOAT
    vectors = -(-op.y.channels // (FLOAT * lanes))
    of_length(op, zeros=vectors * lanes, numbers=vectors * lanes, sizes=vectors)
    places = op.arrays["zeros"][: vectors * lanes].reshape(vectors, lanes)
    demand(int(places.min()) >= 0 and int(places.max()) < count, "channels outside")
    first = op.arrays["sizes"][:vectors, None]
    near = (first <= places) & (places < first + lanes) & (first < count)
    demand(bool((near | (first < 0)).all()), "channels that are not there")


FLOAT_CHECKS = {
    "FLOAT_CONVOLVE": _float_convolution,
    "FLOAT_DEPTHWISE": _float_depthwise,
    **dict.fromkeys(
        ("FLOAT_ADD", "FLOAT_SUBTRACT", "FLOAT_MULTIPLY", "FLOAT_SCALE", "FLOAT_TABLE"), _float_elementwise
    ),
    "FLOAT_MAX_POOL": _float_pool,
    "FLOAT_TAKE": edge,
    "FLOAT_GIVE": edge,
    "FLOAT_NORM": _norm,
    **dict.fromkeys(("FLOAT_SCORES", "FLOAT_WEIGH"), _attention),
    "FLOAT_RESHAPE": _reshape,
    "FLOAT_TRANSPOSE": _transpose,
    **dict.fromkeys(("FLOAT_PICK", "FLOAT_MIX"), _places),
    "FLOAT_SELECT": _select,
}
