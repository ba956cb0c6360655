"""Matrix products with the weights of a package, kept as they are stored and widened in cache-sized pieces.

Memory bandwidth bounds decoding, so narrow weights are read as they lie in the file; numpy's conversion to
float32 runs at several elements per nanosecond when source and target stay in the cache. The products of one
row go by tiles of 32 x 128: one small product per group, its scale, then a sum over groups. Every thread widens
what it multiplies, so that nothing travels between the caches of cores; the BLAS itself is to use one thread
(``kernels.threads.limited``).
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.weight_types import COLUMNS, GROUP, WEIGHT_TYPES, Widen, tiles

from ..kernels.parallel import matmul, parts_of, run_blocks

__all__ = ["Linear", "Maker", "Scratch", "half_bits", "make_linear", "observed", "padded"]

Array = NDArray[Any]

_CHUNK = 1 << 20  # weights widened at a time, 4 MiB of float32: fewer need more calls, and a call takes time
_FEW = 16  # rows whose products are fewer than the weights are worth
_F16_MASK = np.int32(-0x70000001)
HALF_SHIFT = np.float32(2.0**-96)
HALF_REST = np.float32(2.0**-16)
"""Widened half floats are 2**112 too small; ``HALF_SHIFT`` undoes most of it before, ``HALF_REST`` after."""


class _Buffers:
    """Float32 buffers by name, kept between calls: fresh pages cost more than the work."""

    def __init__(self) -> None:
        self._buffers: dict[str, Array] = {}
        self._views: dict[tuple[str, tuple[int, ...]], Array] = {}

    def get(self, name: str, shape: tuple[int, ...]) -> Array:
        """An uninitialised float32 array, valid until this name is asked for again."""
        view = self._views.get((name, shape))
        if view is None:
            view = self._views[name, shape] = self._view(name, shape)
        return view

    def _view(self, name: str, shape: tuple[int, ...]) -> Array:
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < size:
            buffer = self._buffers[name] = np.empty(size, np.float32)
            self._views = {key: old for key, old in self._views.items() if key[0] != name}
        return buffer[:size].reshape(shape)


class Scratch(threading.local):
    """Buffers of each thread, lent to one computation at a time: a signal handler may compute in the middle of another.

    Examples:
        >>> with Scratch().lent() as scratch:
        ...     wide = scratch.get("wide", (32, 128))
    """

    def __init__(self) -> None:
        self._idle: list[_Buffers] = []

    @contextmanager
    def lent(self) -> Iterator[_Buffers]:
        """Buffers that nobody else has meanwhile."""
        buffers = self._idle.pop() if self._idle else _Buffers()
        try:
            yield buffers
        finally:
            self._idle.append(buffers)


SCRATCH = Scratch()


def half_bits(source: Array, out: Array) -> None:
    """float16 bit patterns (int16) -> float32 ``out``, each value times 2**-112.

    Sign extension, a shift by 13 and a mask put sign, exponent and mantissa in place; it is twenty times as fast
    as numpy's conversion. Subnormals stay exact.
    """
    bits = out.view(np.int32)
    np.copyto(bits, source)
    np.left_shift(bits, 13, out=bits)
    np.bitwise_and(bits, _F16_MASK, out=bits)


def padded(x: Array, width: int) -> Array:
    """Rows (m, inputs) with zeros behind them, (m, width): the last tile has weights for so many inputs."""
    return x if x.shape[1] == width else np.pad(x, ((0, 0), (0, width - x.shape[1])))


class Linear(ABC):
    """``x (m, inputs) float32 -> (m, outputs) float32``; ``name`` is that of the matrix in the package."""

    name = ""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.inputs = inputs
        self.outputs = outputs

    @abstractmethod
    def __call__(self, x: Array) -> Array:
        """The product; the result is the caller's."""


class Plain(Linear):
    """float32 [inputs, outputs]."""

    def __init__(self, weight: Array, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self._weight = weight

    def __call__(self, x: Array) -> Array:
        if len(x) > 1:
            return matmul(x, self._weight)
        shares = parts_of(self.inputs)  # of whole rows, which the memory delivers fastest
        sums = np.empty((len(shares), 1, self.outputs), np.float32)

        def work(share: slice) -> None:
            np.matmul(x[:, share], self._weight[share], out=sums[share.start // shares[0].stop])

        run_blocks(work, shares, self._weight.size)
        return np.asarray(np.add.reduce(sums))


class Tiled(Linear):
    """The narrow types: ``codes`` [across, down, rows, 128] in tiles, which ``widen`` makes float32."""

    before, after = np.float32(1), np.float32(1)

    def __init__(
        self, codes: Array, inputs: int, outputs: int, widen: Widen, scale: Array | None = None
    ) -> None:
        super().__init__(inputs, outputs)
        self._codes, self._widen = codes, widen
        self._scale = None if scale is None else scale.astype(np.float32)[:, :, None]
        self._across, self._down = tiles(inputs, outputs)

    def _chunks(self, groups: int, least: int = 1) -> list[slice]:
        """Tiles to be widened at a time when ``groups`` of their inputs are; ``least`` chunks if possible."""
        step = max(1, min(_CHUNK // (groups * GROUP * COLUMNS), -(-self._across // least)))
        return [slice(i, min(i + step, self._across)) for i in range(0, self._across, step)]

    def __call__(self, x: Array) -> Array:
        rows = self._padded(x)
        if len(x) == 1:
            return self._one(rows)
        return self._few(rows) if self._scale is not None and len(x) <= _FEW else self._many(rows)

    def _padded(self, x: Array) -> Array:
        if self.before != 1:
            x = x / self.before
        return padded(x, self._down * GROUP)

    def _one(self, x: Array) -> Array:
        """Cores share the inputs, which always divide evenly; each sums over its groups."""
        groups = x.reshape(self._down, 1, GROUP)
        shares = parts_of(self._down)
        sums = np.empty((len(shares), self._across, COLUMNS), np.float32)

        def work(share: slice) -> None:
            rows, out = groups[share], sums[share.start // shares[0].stop]
            with SCRATCH.lent() as scratch:
                for chunk in self._chunks(len(rows)):
                    count = chunk.stop - chunk.start
                    wide = scratch.get("wide", (count, len(rows), GROUP, COLUMNS))
                    partial = scratch.get("partial", (count, len(rows), 1, COLUMNS))
                    self._widen(self._codes[chunk, share], wide)
                    np.matmul(rows, wide, out=partial)
                    if self._scale is None:
                        np.add.reduce(partial[:, :, 0], axis=1, out=out[chunk])
                    else:
                        np.einsum("agoc,agoc->ac", partial, self._scale[chunk, share], out=out[chunk])

        run_blocks(work, shares, self._codes.size)
        return self._finish(np.add.reduce(sums).reshape(1, -1))

    def _few(self, x: Array) -> Array:
        """As ``_many``, but products are scaled and not weights, as in ``_one``: they are fewer."""
        count = len(x)
        groups = np.ascontiguousarray(x.reshape(count, self._down, GROUP).swapaxes(0, 1))
        out = np.empty((self._across, count, COLUMNS), np.float32)

        def work(chunk: slice) -> None:
            across = chunk.stop - chunk.start
            with SCRATCH.lent() as scratch:
                wide = scratch.get("wide", (across, self._down, GROUP, COLUMNS))
                partial = scratch.get("partial", (across, self._down, count, COLUMNS))
                self._widen(self._codes[chunk], wide)
                np.matmul(groups, wide, out=partial)
                assert self._scale is not None
                np.multiply(partial, self._scale[chunk], out=partial)
                np.add.reduce(partial, axis=1, out=out[chunk])

        run_blocks(work, self._chunks(self._down, len(parts_of(self._across))), count * self._codes.size)
        return self._finish(out.swapaxes(0, 1).reshape(count, -1))

    def _many(self, x: Array) -> Array:
        """Cores share the outputs."""
        out = np.empty((len(x), self._across, COLUMNS), np.float32)

        def work(chunk: slice) -> None:
            with SCRATCH.lent() as scratch:
                wide = scratch.get("wide", (chunk.stop - chunk.start, self._down, GROUP, COLUMNS))
                self._widen(self._codes[chunk], wide)
                if self._scale is not None:
                    np.multiply(wide, self._scale[chunk], out=wide)
                for tile, weights in enumerate(wide, chunk.start):
                    np.matmul(x, weights.reshape(-1, COLUMNS), out=out[:, tile])

        run_blocks(work, self._chunks(self._down, len(parts_of(self._across))), len(x) * self._codes.size)
        return self._finish(out.reshape(len(x), -1))

    def _finish(self, out: Array) -> Array:
        if self.after != 1:
            np.multiply(out, self.after, out=out)
        return out[:, : self.outputs]


class Half(Tiled):
    """float16, much faster than by numpy's conversion."""

    before, after = HALF_SHIFT, np.float32(1) / HALF_REST

    def __init__(self, codes: Array, inputs: int, outputs: int) -> None:
        super().__init__(codes.view(np.int16), inputs, outputs, half_bits)


def make_linear(weights: str, array: Array, scale: Array | None, inputs: int, outputs: int) -> Linear:
    """The product for a matrix as its ``WeightType`` lays it out."""
    kind = WEIGHT_TYPES[weights]
    if not kind.tiled:
        return Plain(array, inputs, outputs)
    if array.dtype == np.float16:
        return Half(array, inputs, outputs)
    return Tiled(array, inputs, outputs, kind.widen, scale)


Maker = Callable[[str, Array, Optional[Array], int, int], Linear]
"""What is called as ``make_linear``."""


class _Observed(Linear):
    """Shows what is multiplied before it is."""

    def __init__(self, product: Linear, observe: Callable[[str, Array], None]) -> None:
        super().__init__(product.inputs, product.outputs)
        self._product, self._observe = product, observe

    def __call__(self, x: Array) -> Array:
        self._observe(self.name, x)
        return self._product(x)


def observed(make: Maker, observe: Callable[[str, Array], None]) -> Maker:
    """As ``make``; ``observe`` is called with the name of a matrix and its inputs before each product."""
    return lambda *given: _Observed(make(*given), observe)
