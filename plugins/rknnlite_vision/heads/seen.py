"""What recognition goes by: the size of the picture, and the outputs as maps over it or as rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.tensor import Layout, TensorAttr

from .stored import Stored

__all__ = ["ACTIVATIONS", "STRIDES", "Map", "Seen", "parts_of"]

Array = NDArray[Any]
STRIDES = ((8, 16, 32), (4, 8, 16, 32), (8, 16, 32, 64), (16, 32))
"""Pixels per cell of the grids that networks in use have."""
ACTIVATIONS = ("logits", "probabilities")
"""What may stand behind a family in a hint, or alone: whether a sigmoid or softmax is still to come."""


@dataclass(frozen=True)
class Map:
    """An output of four dimensions that lies over the picture: numbers for each cell of a grid.

    Attributes:
        index: of the output.
        channels: numbers per cell.
        height: rows of cells.
        width: cells of a row.
        stride: pixels of the picture from one cell to the next.
        last: the channels are the last dimension.
        attr: of the output.
        first: where the channels begin, in outputs that hold several things.
    """

    index: int
    channels: int
    height: int
    width: int
    stride: int
    last: bool
    attr: TensorAttr
    first: int = 0

    def cells(self, outputs: Sequence[Array]) -> Array:
        """[channels, cells] of the first picture, without a copy."""
        array, part = outputs[self.index][0], slice(self.first, self.first + self.channels)
        if self.last:
            array = array.reshape(self.height * self.width, -1).T
        cells: Array = array.reshape(-1, self.height * self.width)[part]
        return cells

    def part(self, first: int, channels: int) -> Map:
        """Some of the channels."""
        return dataclasses.replace(self, first=self.first + first, channels=channels)

    def centres(self) -> Array:
        """float32 [2, cells]: x and y of the middle of each cell, in cells."""
        x, y = np.meshgrid(np.arange(self.width), np.arange(self.height))
        return (np.stack([x.ravel(), y.ravel()]) + 0.5).astype(np.float32)


class Seen:
    """Inputs and outputs of a network.

    Attributes:
        inputs: attributes.
        outputs: attributes; tables have three dimensions.
        hint: the family that the caller says; may be empty.
        activation: what the hint says of the scores: ``logits`` or ``probabilities``; empty where it says nothing.
        anchors: what the caller says, [heads, anchors of each, 2]; None otherwise.
        size: width and height of the picture; (0, 0) where no input takes one.
        batch: pictures of a run; 1 where no input takes one.
        maps: outputs that lie over the picture, in the order of the network; the picture's own grid is not one of them.
        rows: the other outputs.
    """

    def __init__(
        self,
        inputs: Sequence[TensorAttr],
        outputs: Sequence[TensorAttr],
        hint: str = "",
        anchors: Optional[Array] = None,
    ) -> None:
        self.inputs, self.anchors = list(inputs), anchors
        self.hint, self.activation = parts_of(hint)
        pictures = ((size, attr.dims[0]) for attr in self.inputs if (size := _picture(attr)))
        self.size, self.batch = next(pictures, ((0, 0), 1))
        self.outputs = [self._plain(attr) for attr in outputs]
        found = [self._map(index, attr) for index, attr in enumerate(self.outputs)]
        self.maps = [m for m in found if m]
        self.rows = [attr for attr, m in zip(self.outputs, found) if not m]

    def grids(self, maps: Optional[Sequence[Map]] = None) -> list[list[Map]]:
        """Maps by their grid, finest first; those of one grid in the order of the network."""
        by_stride: dict[int, list[Map]] = {}
        for m in self.maps if maps is None else maps:
            by_stride.setdefault(m.stride, []).append(m)
        return [by_stride[stride] for stride in sorted(by_stride)]

    def stored(self, index: int, logits: bool = False) -> Stored:
        """How an output's numbers are stored."""
        return Stored(self.outputs[index], logits)

    def cells(self) -> list[int]:
        """How many cells the grids of networks for this size have altogether, for the strides that are in use."""
        (w, h) = self.size
        return [sum((w // s) * (h // s) for s in strides) for strides in STRIDES]

    def index(self, attr: TensorAttr) -> int:
        """The place of an output."""
        return next(n for n, other in enumerate(self.outputs) if other is attr)

    def __str__(self) -> str:
        said = [f"input {a.name} {list(a.dims)}" for a in self.inputs]
        said += [f"output {a.name} {list(a.dims)} {a.dtype.short}" for a in self.outputs]
        return ", ".join(said)

    def _plain(self, attr: TensorAttr) -> TensorAttr:
        """Without the last dimension of 1 that files of older toolkits give to tables."""
        (_, *sides, last) = attr.dims if len(attr.dims) == 4 else (0, 0)
        table = last == 1 and min(sides) > 1 and attr.layout != Layout.NHWC and sides != [*self.size[::-1]]
        if not table or self._map(0, attr):
            return attr
        return dataclasses.replace(attr, dims=attr.dims[:3])

    def _map(self, index: int, attr: TensorAttr) -> Optional[Map]:
        if len(attr.dims) != 4 or 0 in self.size:
            return None
        orders = [True, False] if attr.layout == Layout.NHWC else [False, True]
        for last in orders:
            height, width, channels = attr.dims[1:] if last else (*attr.dims[2:], attr.dims[1])
            stride = self._stride(width, height)
            if stride:
                return Map(index, channels, height, width, stride, last, attr)
        return None

    def _stride(self, width: int, height: int) -> int:
        """Pixels per cell; 0 for what does not lie over the picture."""
        (w, h) = self.size
        if width < 1 or height < 1 or w % width or h % height or w // width != h // height:
            return 0
        return w // width if w // width > 1 else 0


def parts_of(hint: str) -> tuple[str, str]:
    """A hint in small letters and digits as its family and what it says of the scores."""
    said = next((word for word in ACTIVATIONS if hint.endswith(word)), "")
    return hint[: len(hint) - len(said)], said


def _picture(attr: TensorAttr) -> Optional[tuple[int, int]]:
    """Width and height where an input takes a picture."""
    if len(attr.dims) != 4:
        return None
    channels_first = attr.dims[1] in (1, 3, 4) and attr.layout != Layout.NHWC
    if not channels_first and attr.dims[3] not in (1, 3, 4):
        return None
    height, width = attr.dims[2:] if channels_first else attr.dims[1:3]
    return (width, height) if width > 1 and height > 1 else None
