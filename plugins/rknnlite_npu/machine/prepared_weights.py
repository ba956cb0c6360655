"""Weights made ready for products, and kept: the next run has the same bytes at the same place, as a rule."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from rknnlite.quant import split_for_exactness

from . import numbers as n
from .memory import Bytes
from .registers import Design, Mode
from .weights import dense_weights, depthwise_weights, paired_weights, row_weights

__all__ = ["PreparedWeights", "WeightStore"]

_MOST_KEPT = 1 << 26  # stored bytes; numbers take four to eight times as much


class PreparedWeights:
    """Attributes:
    values: (OC, kh, kw, C), of a depthwise convolution (kh, kw, C).
    zeros_added: whether their zero points are in them already.
    """

    def __init__(
        self,
        plain: Bytes,
        shape: tuple[int, int, int, int],
        precision: int,
        mode: Mode,
        design: Design,
        zero: int = 0,
    ) -> None:
        """``shape``: OC, kh, kw, C as the registers count them; ``design`` has the sizes of blocks; ``zero`` is added to all.

        Raises:
            MachineRefused: they do not lie in ``plain``.
        """
        kind = np.float64 if precision == n.INT16 else np.float32
        depthwise = mode is Mode.DEPTHWISE
        paired = depthwise and bool(design.run) and shape[0] > 1
        if paired:
            self.values = paired_weights(
                plain, shape, precision, kind, design.depthwise, design.run if precision == n.INT8 else 1
            )
        elif depthwise:
            self.values = depthwise_weights(plain, shape, precision, kind, design.depthwise)
        elif mode is Mode.PICTURE_BY_ROWS:
            self.values = row_weights(plain, shape, precision, kind, design.rows)
        else:
            self.values = dense_weights(plain, shape, precision, kind, (design.rows, design.lanes))
        if zero:
            self.values += zero
        self.precision, self.depthwise = precision, depthwise
        self.zeros_added = paired
        self._matrices: dict[int, tuple[n.Values, list[slice]]] = {}

    @property
    def kernel(self) -> tuple[int, int]:
        """(kh, kw)."""
        height, width = self.values.shape[-3:-1]
        return height, width

    @property
    def channels(self) -> int:
        """Channels of the output."""
        return int(self.values.shape[-1 if self.depthwise else 0])

    @cached_property
    def blocks(self) -> n.Values:
        """float64 (C, kh, kw, OC) of floats: products are added lane by lane of the inputs."""
        return np.ascontiguousarray(self.values.transpose(3, 1, 2, 0), np.float64)

    def matrix(self, inputs: int) -> tuple[n.Values, list[slice]]:
        """(kh * kw * C, OC + 1) of the first ``inputs`` channels, in its last column ones, and parts whose sums of products
        with integers of that type are exact.
        """
        if inputs not in self._matrices:
            rows = self.values[..., :inputs].reshape(len(self.values), -1)
            rows = np.concatenate([rows, np.ones((1, rows.shape[1]), rows.dtype)])
            parts = [slice(0, rows.shape[1])]
            if rows.dtype == np.float32:
                parts = split_for_exactness(rows[:, :, None, None], *map(float, n.limits(self.precision)))
            self._matrices = {inputs: (np.ascontiguousarray(rows.T), parts)}
        return self._matrices[inputs]


class WeightStore:
    """Weights by their address, as long as the bytes there are the same."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], tuple[Bytes, PreparedWeights]] = {}
        self._size = 0

    def prepared(
        self,
        address: int,
        plain: Bytes,
        shape: tuple[int, int, int, int],
        precision: int,
        mode: Mode,
        design: Design,
        zero: int = 0,
    ) -> PreparedWeights:
        """The weights in ``plain``; see ``PreparedWeights``."""
        key = address, len(plain), shape, precision, mode, zero
        if key in self._kept and np.array_equal(self._kept[key][0], plain):
            return self._kept[key][1]
        found = PreparedWeights(plain, shape, precision, mode, design, zero)
        if key not in self._kept:
            self._size += len(plain)
        if self._size > _MOST_KEPT:
            self._kept.clear()
            self._size = len(plain)
        self._kept[key] = plain.copy(), found
        return found
