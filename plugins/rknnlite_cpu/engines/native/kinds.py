"""What an op of the native engine is, and the tensors that it works on; ``program.h`` has the same structures in C."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from ...values import Array

__all__ = [
    "ATTENTION_NUMBERS",
    "AXES",
    "FLOAT",
    "FUNCTIONS",
    "FUNCTION_NUMBERS",
    "JOINS",
    "KINDS",
    "NUMBERS",
    "RECURRENT_SIZES",
    "TAKES",
    "Flag",
    "Op",
    "Plane",
    "padding_of",
]

KINDS = (
    "CONVOLVE", "DEPTHWISE", "ADD", "MULTIPLY", "TABLE", "MAX_POOL", "COPY", "SPREAD", "TAKE", "GIVE",
    "RECURRENT", "SHUFFLE", "TO_FLOATS", "TO_BYTES", "ATTEND", "NORMALISE", "PICK", "BILINEAR", "PUT", "SCALE",
    "FLOAT_CONVOLVE", "FLOAT_DEPTHWISE", "FLOAT_ADD", "FLOAT_SUBTRACT", "FLOAT_MULTIPLY", "FLOAT_SCALE", "FLOAT_TABLE",
    "FLOAT_MAX_POOL", "FLOAT_TAKE", "FLOAT_GIVE", "FLOAT_NORM", "FLOAT_SCORES", "FLOAT_WEIGH", "FLOAT_RESHAPE",
    "FLOAT_TRANSPOSE", "FLOAT_PICK", "FLOAT_MIX", "FLOAT_SELECT",
)  # fmt: skip
"""In the order of ``enum kind``."""
JOINS = ("ADD", "MULTIPLY", "FLOAT_ADD", "FLOAT_SUBTRACT", "FLOAT_MULTIPLY")
TAKES = ("TAKE", "FLOAT_TAKE")
FLOAT = 4
"""Bytes of a float."""
FUNCTIONS = ("TABLE_OF_INDICES", "SIGMOID", "TANH", "SWISH", "MISH", "ELU", "HARD_SWISH", "HARD_SIGMOID")
"""In the order of ``enum function``."""
FUNCTION_NUMBERS = 14
AXES = 6
"""Of a SHUFFLE."""
RECURRENT_SIZES = (
    "steps", "batch", "inputs", "hidden", "gates", "directions", "reverse", "reset_late",
    "x_step", "x_item", "x_value", "y_step", "y_direction", "y_item", "y_value",
)  # fmt: skip
"""In the order of ``enum size`` of ``recurrent.c``."""
ATTENTION_NUMBERS = 6 + 256
"""``enum number_of_attention``, and exponentials of all distances."""
NUMBERS = ("unit", "other_unit", "first_low", "first_high", "low", "high", "step")
_CHANNELS = 16


class Flag:
    """What an op does besides, as ``enum flags`` says."""

    LIMITED, SLOPED, JOIN_ADD, JOIN_MULTIPLY, LATE_SLOPED, GENTLE, ZEROS, ZERO_FIRST, RECTIFY, FUNCTION = (
        1 << bit for bit in range(10)
    )
    FLOATS_IN, FLOATS_OUT, HALVES, ROUNDED = (1 << bit for bit in range(10, 14))
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
    third: Optional[Plane] = None
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

    @property
    def planes(self) -> list[Plane]:
        """All that it reads and writes."""
        return [plane for plane in (self.x, self.y, self.other, self.third) if plane is not None]


def padding_of(op: Op) -> tuple[int, int, int, int]:
    """What windows reach beyond x: top, left, bottom, right; negative where they end before."""
    ends = []
    for axis, (source, target) in enumerate(((op.x.height, op.y.height), (op.x.width, op.y.width))):
        reach = (target - 1) * op.strides[axis] + op.dilations[axis] * (op.kernel[axis] - 1) + 1
        ends.append(reach - source - op.pads[axis])
    return op.pads[0], op.pads[1], ends[0], ends[1]
