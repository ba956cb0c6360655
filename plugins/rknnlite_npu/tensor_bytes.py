"""The bytes of a tensor as the NPU keeps it, and its elements in logical order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.tensor import DType

from .program import NpuTensor

__all__ = ["TensorBytes"]

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
_MOST_CHANNELS = 4  # of a picture, whose channels stay together


@dataclass(frozen=True)
class TensorBytes:
    """How a tensor lies.

    Attributes:
        shape: logical (NCHW for rank 4).
        grid: the shape in which the bytes lie, with all padding: that of ``dtype`` elements from the first byte on.
        picture: rows of pixels, channels together; else groups of channels, or the logical order where ``grid`` is ``shape``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grid: tuple[int, ...]
    picture: bool = False

    @classmethod
    def of(cls, tensor: NpuTensor, shape: Sequence[int], dtype: DType) -> TensorBytes:
        """Raises ModelUnsupported, ModelInvalid for a form that is not known or that its bytes do not hold."""
        shape, native, kind = tuple(shape), tensor.native, dtype.numpy.newbyteorder("<")
        if dtype is DType.INT4:
            raise ModelUnsupported(f"tensor {tensor.name}: how the NPU keeps elements of 4 bits is not known")
        if len(native) != 5 or native == shape:
            found = cls(tensor.name, shape, kind, shape)
        elif len(shape) != 4 or min(native) <= 0:
            raise ModelUnsupported(
                f"tensor {tensor.name}: {list(shape)} lies as {list(native)}, which is not known"
            )
        elif native[1] == 1 and native[4] <= _MOST_CHANNELS:
            n, _, height, width, channels = native
            step = max(1, tensor.row // kind.itemsize)
            found = cls(tensor.name, shape, kind, (n, height, -(-width // step) * step, channels), True)
        else:
            n, groups, height, width, lanes = native
            surface = -(-height * width // tensor.surface) * tensor.surface
            found = cls(tensor.name, shape, kind, (n, groups, surface, lanes))
        found._check(tensor)
        return found

    def _check(self, tensor: NpuTensor) -> None:
        n, c, h, w = self.shape if len(self.shape) == 4 else (1, 1, 1, 1)
        if self.picture:
            fits = n <= self.grid[0] and c <= self.grid[3] and h <= self.grid[1] and w <= self.grid[2]
        else:
            fits = self.plain or (
                n <= self.grid[0] and c <= self.grid[1] * self.grid[3] and h * w <= self.grid[2]
            )
        if not fits or self.nbytes > tensor.size:
            raise ModelInvalid(
                f"damaged file: tensor {self.name} {list(self.shape)} takes {self.nbytes} bytes as {list(tensor.native)}, the "
                f"file says {tensor.size}"
            )

    @property
    def plain(self) -> bool:
        """Elements lie in logical order."""
        return self.grid == self.shape

    @cached_property
    def nbytes(self) -> int:
        """Bytes with padding."""
        return prod(self.grid) * self.dtype.itemsize

    def unpack(self, data: Bytes) -> Array:
        """Elements in logical order: a copy."""
        grid = data[: self.nbytes].view(self.dtype).reshape(self.grid)
        if self.plain:
            return grid.copy()
        n, c, h, w = self.shape
        if self.picture:
            return np.ascontiguousarray(grid[:n, :h, :w, :c].transpose(0, 3, 1, 2))
        groups, surface, lanes = self.grid[1:]
        planes = grid[:n].transpose(0, 1, 3, 2).reshape(n, groups * lanes, surface)
        return np.ascontiguousarray(planes[:, :c, : h * w]).reshape(self.shape)

    def pack(self, elements: Array, data: Bytes) -> None:
        """Put elements in logical order into ``data``; padding becomes 0."""
        grid = data[: self.nbytes].view(self.dtype).reshape(self.grid)
        if self.plain:
            grid[...] = elements
            return
        n, c, h, w = self.shape
        if self.picture:
            if grid[:n, :h, :w, :c].size != grid.size:
                grid[...] = 0
            grid[:n, :h, :w, :c] = elements.transpose(0, 2, 3, 1)
            return
        groups, surface, lanes = self.grid[1:]
        padded = np.zeros((n, groups * lanes, surface), self.dtype)
        padded[:, :c, : h * w] = elements.reshape(n, c, h * w)
        grid[:n] = padded.reshape(n, groups, lanes, surface).transpose(0, 1, 3, 2)
