"""What a program of the native engine is: ops (``kinds``) on tensors of a workspace, kept as bytes.

Tensors lie as [items, height, width, pitch], a byte for each value. Everything is checked before C is entered: a program that would
read or write outside of its workspace is refused.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from rknnlite.errors import ModelInvalid
from rknnlite.files.json_text import parse_json

from .checks import Outside, check_op
from .float_checks import FLOAT_CHECKS
from .kinds import FLOAT, FUNCTIONS, KINDS, NUMBERS, RECURRENT_SIZES, TAKES, Flag, Op, Plane, padding_of

__all__ = [
    "FLOAT",
    "FUNCTIONS",
    "KINDS",
    "NUMBERS",
    "RECURRENT_SIZES",
    "TAKES",
    "Flag",
    "Op",
    "Plane",
    "ProgramText",
    "padding_of",
    "sides_at_edge",
]

ARRAYS = {
    "weights": np.int8,
    "ones": np.int8,
    "bias": np.int32,
    "zeros": np.int32,
    "factor": np.float32,
    "slope": np.float32,
    "numbers": np.float32,
    "table": np.uint8,
    "sizes": np.int64,
}
PLANES = ("x", "y", "other", "third")
_ALIGNED = 64


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
            row |= {name: dataclasses.astuple(row[name]) for name in PLANES if row[name] is not None}
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
                check_op(op, self.size, self.layout, FLOAT_CHECKS)
            except Outside as error:
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
    planes = {name: Plane(*row[name]) for name in PLANES if row[name] is not None}
    return Op(**{**row, **pairs, **planes, "arrays": arrays})
