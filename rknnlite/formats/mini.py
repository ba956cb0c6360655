"""Container version 0x1004, the mini format of RV1103, RV1106, RV1103B and RV1106B.

After the common header come a table of sizes and then, one behind the other: task records, register commands,
constants of helper tensors, weights, and a flatbuffer much like that of container 6 with other slot numbers.
Constants are named by an offset into their area. int8 only; nodes carry few attributes, the rest is in the
registers (``register_map``).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from ..errors import ModelInvalid
from .flat_model import FlatModel, attributes_of, metadata
from .flatbuffer import Schema, root
from .frame import HEADER, MINI, trailer
from .slots import (
    GraphSlot,
    MiniNodeSlot,
    MiniRootSlot,
    MiniTensorSlot,
    NodeSlot,
    RootSlot,
    TensorKind,
    TensorSlot,
    numbers,
)

__all__ = ["RknnMini", "read"]

_AREAS = 128
_SIZES = struct.Struct("<16I")
_WEIGHT_KINDS = (TensorKind.WEIGHT, TensorKind.OPERAND)


def _places(asked: type, stored: type) -> dict[int, int]:
    """Slot of container 6 -> slot here, of the fields that both have."""
    by_name = numbers(asked)
    return {by_name[name]: slot for name, slot in numbers(stored).items()}


_TENSOR = Schema(_places(TensorSlot, MiniTensorSlot))
_NODE = Schema(_places(NodeSlot, MiniNodeSlot))
_GRAPH = Schema(children={GraphSlot.TENSORS: _TENSOR, GraphSlot.NODES: _NODE})
_ROOT = Schema(_places(RootSlot, MiniRootSlot), {RootSlot.GRAPHS: _GRAPH})


class Areas(NamedTuple):
    """The parts of the payload."""

    tasks: memoryview
    commands: memoryview
    helpers: memoryview
    weights: memoryview
    flat: memoryview


@dataclass
class RknnMini(FlatModel):
    """A model in the mini format."""

    complete_attributes: ClassVar[bool] = False
    areas: Areas = field(default=None, repr=False)  # type: ignore[assignment]


def read(data: memoryview, version: int = MINI) -> RknnMini:
    """Read the metadata; the graph is built later, on demand. Raises ModelInvalid."""
    payload, stub = trailer(data, HEADER)
    areas = _areas(payload)
    flat = root(areas.flat, b"RKNN", _ROOT)
    model = metadata(flat, stub, len(data), attributes_of(flat.string(RootSlot.NOTES)), RknnMini, version)
    model.areas = areas
    return model


def _areas(payload: memoryview) -> Areas:
    if len(payload) < _AREAS - HEADER:
        raise ModelInvalid(f"the file is truncated: {len(payload)} bytes after its header; copy it again")
    flat, tasks, count, commands, _, weights, helpers, *_ = _SIZES.unpack_from(payload)
    sizes = np.array([tasks, commands, helpers, weights, flat], np.int64)
    ends = _AREAS - HEADER + np.cumsum(sizes)
    if ends[-1] != len(payload):
        raise ModelInvalid(
            f"damaged file: its parts of {sizes.tolist()} bytes do not add up to its payload of {len(payload)}; "
            "copy it again"
        )
    if 40 * count > tasks:
        raise ModelInvalid(f"damaged file: {count} task records in {tasks} bytes")
    parts = [payload[end - size : end] for size, end in zip(sizes.tolist(), ends.tolist())]
    return Areas(parts[0][: 40 * count], *parts[1:])
