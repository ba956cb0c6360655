"""What a program of the native engine is: ops on tensors of a workspace, kept as bytes.

Tensors lie as [items, height, width, pitch], a byte for each value; ``program.h`` has the same structures in C. Everything is
checked before C is entered: a program that would read or write outside of its workspace is refused.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, Optional

import numpy as np

from rknnlite.errors import ModelInvalid
from rknnlite.files.json_text import parse_json

from ...values import Array

__all__ = [
    "FLOAT",
    "FUNCTIONS",
    "FUNCTION_NUMBERS",
    "KINDS",
    "NUMBERS",
    "TAKES",
    "Flag",
    "Op",
    "Plane",
    "ProgramText",
    "add_checks",
    "padding_of",
    "sides_at_edge",
]

KINDS = (
    "CONVOLVE", "DEPTHWISE", "ADD", "MULTIPLY", "TABLE", "MAX_POOL", "COPY", "SPREAD", "TAKE", "GIVE",
    "FLOAT_CONVOLVE", "FLOAT_DEPTHWISE", "FLOAT_ADD", "FLOAT_SUBTRACT", "FLOAT_MULTIPLY", "FLOAT_SCALE", "FLOAT_TABLE",
    "FLOAT_MAX_POOL", "FLOAT_TAKE", "FLOAT_GIVE", "FLOAT_NORM", "FLOAT_SCORES", "FLOAT_WEIGH", "FLOAT_RESHAPE",
    "FLOAT_TRANSPOSE", "FLOAT_PICK", "FLOAT_MIX",
)  # fmt: skip
"""In the order of ``enum kind``."""
JOINS = ("ADD", "MULTIPLY", "FLOAT_ADD", "FLOAT_SUBTRACT", "FLOAT_MULTIPLY")
TAKES = ("TAKE", "FLOAT_TAKE")
FUNCTIONS = ("TABLE_OF_INDICES", "SIGMOID", "TANH", "SWISH", "MISH", "ELU", "HARD_SWISH")
"""In the order of ``enum function``."""
FUNCTION_NUMBERS = 14
ARRAYS = {
    "weights": np.int8,
    "ones": np.int8,
    "bias": np.int32,
    "zeros": np.int32,
    "factor": np.float32,
    "slope": np.float32,
    "numbers": np.float32,
    "table": np.uint8,
}
NUMBERS = ("unit", "other_unit", "first_low", "first_high", "low", "high", "step")
_CHANNELS = 16
FLOAT = 4
"""Bytes of a float."""
_ALIGNED = 64
_LARGEST = 1 << 31


class Flag:
    """What an op does besides, as ``enum flags`` says."""

    LIMITED, SLOPED, JOIN_ADD, JOIN_MULTIPLY, LATE_SLOPED, GENTLE, ZEROS, ZERO_FIRST, RECTIFY, FUNCTION = (
        1 << bit for bit in range(10)
    )
    STORED = 1 << 16


@dataclass
class Plane:
    """A tensor of the workspace; ``zero`` is the stored value that stands for 0.

    ``pitch`` bytes are from pixel to pixel: more than its own where it is a part of another tensor.
    """

    items: int
    height: int
    width: int
    channels: int
    pitch: int
    zero: int
    offset: int = 0

    @property
    def room(self) -> int:
        """Bytes of a pixel that are its own."""
        return self.pitch if self.pitch < _CHANNELS else -(-self.channels // _CHANNELS) * _CHANNELS

    @property
    def nbytes(self) -> int:
        """What it takes, from its first to its last value."""
        return (self.items * self.height * self.width - 1) * self.pitch + self.room


@dataclass
class Op:
    """One step of a program; what is not said is 0, or 1 for sizes of a window."""

    kind: str
    y: Plane
    x: Plane
    other: Optional[Plane] = None
    flags: int = 0
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int] = (0, 0)
    place: int = 0
    depth: int = 0
    channels: int = 0
    function: str = ""
    numbers: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)


def padding_of(op: Op) -> tuple[int, int, int, int]:
    """What windows reach beyond x: top, left, bottom, right; negative where they end before."""
    ends = []
    for axis, (source, target) in enumerate(((op.x.height, op.y.height), (op.x.width, op.y.width))):
        reach = (target - 1) * op.strides[axis] + op.dilations[axis] * (op.kernel[axis] - 1) + 1
        ends.append(reach - source - op.pads[axis])
    return op.pads[0], op.pads[1], ends[0], ends[1]


def sides_at_edge(op: Op) -> tuple[int, int, int, int]:
    """Items, channels, height and width of the array that a value enters or leaves as."""
    unit = FLOAT if op.kind.startswith("FLOAT_") else 1
    return op.y.items, op.y.channels // unit, op.y.height, op.y.width


@dataclass
class ProgramText:
    """Ops in order, the bytes of their workspace, how the weights lie, and the shapes of the results."""

    ops: list[Op]
    size: int
    layout: tuple[int, ...]
    shapes: list[tuple[int, ...]]

    def pack(self) -> bytes:
        """As it is kept."""
        blob = bytearray()
        rows = []
        known: dict[int, tuple[int, int]] = {}
        for op in self.ops:
            places = {}
            for name, array in op.arrays.items():
                if id(array) not in known:
                    blob += bytes(-len(blob) % _ALIGNED)
                    known[id(array)] = (len(blob), array.size)
                    blob += np.ascontiguousarray(array, ARRAYS[name]).tobytes()
                places[name] = known[id(array)]
            row = {each.name: getattr(op, each.name) for each in dataclasses.fields(op)}
            row |= {
                name: dataclasses.astuple(row[name]) for name in ("x", "y", "other") if row[name] is not None
            }
            rows.append(row | {"arrays": places})
        header = json.dumps(
            {"size": self.size, "layout": self.layout, "shapes": self.shapes, "ops": rows}
        ).encode()
        header += b" " * (-(len(header) + 8) % _ALIGNED)
        return len(header).to_bytes(8, "little") + header + bytes(blob)

    @classmethod
    def unpack(cls, content: bytes) -> ProgramText:
        """What ``pack`` wrote; arrays are views. Raises ModelInvalid for anything else."""
        try:
            end = 8 + int.from_bytes(content[:8], "little")
            found = parse_json(content[8:end])
            ops = [_op(row, content, end) for row in found["ops"]]
            shapes = [tuple(shape) for shape in found["shapes"]]
            text = cls(ops, found["size"], tuple(found["layout"]), shapes)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ModelInvalid(f"a kept program cannot be read: {error}") from None
        text.check()
        return text

    def check(self) -> None:
        """Raise ModelInvalid for a program that would leave its workspace or its arrays."""
        for number, op in enumerate(self.ops):
            try:
                _check(op, self.size, self.layout)
            except _Outside as error:
                raise ModelInvalid(f"op {number} ({op.kind}) of a program: {error}") from None
        entering = [op.place for op in self.ops if op.kind in TAKES]
        leaving = [op for op in self.ops if op.kind in ("GIVE", "FLOAT_GIVE")]
        given = [prod(sides_at_edge(op)) for op in leaving]
        if (
            entering != list(range(len(entering)))
            or [op.place for op in leaving] != list(range(len(leaving)))
            or given != [prod(shape) for shape in self.shapes]
        ):
            raise ModelInvalid("values of a program do not enter and leave in order")


def _op(row: dict[str, Any], content: bytes, start: int) -> Op:
    arrays = {}
    for name, (place, count) in row["arrays"].items():
        if place < 0 or count < 0:
            raise ValueError("an array before the beginning")
        arrays[name] = np.frombuffer(content, ARRAYS[name], count, start + place)
    pairs = {name: tuple(row[name]) for name in ("kernel", "strides", "dilations", "pads")}
    planes = {name: Plane(*row[name]) for name in ("x", "y", "other") if row[name] is not None}
    return Op(**{**row, **pairs, **planes, "arrays": arrays})


class _Outside(Exception):
    """What a check found."""


def _demand(holds: bool, text: str) -> None:
    if not holds:
        raise _Outside(text)


def _check(op: Op, size: int, layout: tuple[int, ...]) -> None:
    _demand(op.kind in KINDS, "unknown")
    for plane in (op.x, op.y, op.other):
        if plane is not None:
            sides = (plane.items, plane.height, plane.width, plane.channels)
            _demand(
                all(isinstance(n, int) and 0 < n < _LARGEST for n in (*sides, plane.pitch)), f"sizes {sides}"
            )
            _demand(
                plane.pitch >= max(plane.room, plane.channels) and plane.pitch % 4 == 0,
                f"pitch {plane.pitch}",
            )
            _demand(
                plane.offset >= 0 and plane.offset + plane.nbytes <= size, f"place {plane.offset} of {size}"
            )
    numbers = (*op.kernel, *op.strides, *op.dilations)
    _demand(all(isinstance(n, int) and 0 < n <= 1 << 16 for n in numbers), f"a window {numbers}")
    _demand(all(isinstance(n, int) and abs(n) <= 1 << 16 for n in op.pads), f"pads {op.pads}")
    _demand(set(op.numbers) <= set(NUMBERS), "numbers")
    _demand(op.kind in _CHECKS, "no check is known for it")
    _CHECKS[op.kind](op, layout)


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


_CHECKS: dict[str, Callable[[Op, tuple[int, ...]], None]] = {
    "CONVOLVE": _convolution,
    "DEPTHWISE": _depthwise,
    "ADD": _elementwise,
    "MULTIPLY": _elementwise,
    "TABLE": _elementwise,
    "MAX_POOL": _pool,
    "COPY": _copy,
    "SPREAD": _spread,
    "TAKE": _edge,
    "GIVE": _edge,
}


def add_checks(checks: dict[str, Callable[[Op, tuple[int, ...]], None]]) -> None:
    """Of further kinds."""
    _CHECKS.update(checks)
