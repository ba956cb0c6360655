"""Types of a language model's weights: one row of ``WEIGHT_TYPES`` for each, which export, reader and decoder go by.

A matrix of K inputs and N outputs is float32 [K, N], or tiles of 32 inputs and 128 outputs, zero padded:
[ceil(N/128), ceil(K/32), 32, 128]. A tile row of 128 outputs is one run of memory, so that products, scales and sums
work on long rows, and a group of 32 inputs is one tile. Integers have a scale per group and output, float16
[ceil(N/128), ceil(K/32), 128]: ``weight = q * scale``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

__all__ = ["COLUMNS", "GROUP", "WEIGHT_TYPES", "WeightType", "tiles"]

Array = NDArray[Any]
GROUP, COLUMNS = 32, 128
"""Inputs and outputs of a tile."""


def tiles(inputs: int, outputs: int) -> tuple[int, int]:
    """Numbers of tiles across the outputs and across the inputs."""
    return -(-outputs // COLUMNS), -(-inputs // GROUP)


Encode = Callable[[Array], tuple[Array, Optional[Array]]]
Widen = Callable[[Array, Array], None]


@dataclass(frozen=True)
class WeightType:
    """How the numbers of a matrix are stored.

    Attributes:
        name: as users spell it.
        element: type in the safetensors file.
        encode: float32 [.., 32, 128] -> codes, and scales [.., 128] where there are any.
        widen: ``(codes, out)`` writes float32 [.., 32, 128], scales left out.
        scaled: there are scales.
        tiled: the matrix lies in tiles.
        per_element: weights in one element; the file has so many times fewer rows per tile.
    """

    name: str
    element: str
    encode: Encode
    widen: Widen
    scaled: bool = False
    tiled: bool = True
    per_element: int = 1

    def shape(self, inputs: int, outputs: int) -> tuple[int, ...]:
        """Shape of a matrix in the file."""
        if not self.tiled:
            return inputs, outputs
        return (*tiles(inputs, outputs), GROUP // self.per_element, COLUMNS)

    def scale_shape(self, inputs: int, outputs: int) -> tuple[int, ...]:
        """Shape of its scales."""
        return (*tiles(inputs, outputs), COLUMNS)

    def pack(self, matrix: Array) -> tuple[Array, Array | None]:
        """Codes and scales of float32 (outputs, inputs), as PyTorch's Linear has it."""
        return self.encode(_tiled(matrix) if self.tiled else np.ascontiguousarray(matrix.T))


def _tiled(matrix: Array) -> Array:
    outputs, inputs = matrix.shape
    across, down = tiles(inputs, outputs)
    padded = np.zeros((across * COLUMNS, down * GROUP), np.float32)
    padded[:outputs, :inputs] = matrix
    return np.ascontiguousarray(padded.reshape(across, COLUMNS, down, GROUP).transpose(0, 2, 3, 1))


def _copy(codes: Array, out: Array) -> None:
    np.copyto(out, codes)


def _float32(values: Array) -> tuple[Array, None]:
    return values, None


def _float16(values: Array) -> tuple[Array, None]:
    return values.astype(np.float16), None


def _bfloat16(values: Array) -> tuple[Array, None]:
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    half_even = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return np.asarray((bits + half_even) >> np.uint32(16), np.uint16), None


def _widen_bfloat16(codes: Array, out: Array) -> None:
    """Bit patterns: the upper half of a float32."""
    bits = out.view(np.uint32)
    np.copyto(bits, codes)
    np.left_shift(bits, 16, out=bits)


def _codes(values: Array, scale: Array, low: int, high: int) -> tuple[Array, Array]:
    stored = scale.astype(np.float16)  # quantise with the scale that is stored, not with the exact one
    divisor = stored.astype(np.float32)
    safe = np.where(divisor == 0, np.float32(1), divisor)
    return np.clip(np.rint(values / safe), low, high).astype(np.int8), stored[:, :, 0]


def _int8(values: Array) -> tuple[Array, Array]:
    return _codes(values, np.abs(values).max(axis=2, keepdims=True) / np.float32(127), -127, 127)


_STEPS = (-8.0, -7.5, -7.0, -8.5, -9.0)
"""Codes of the extreme value of a group that are tried for its scale. Beyond -8 the extreme is cut, and the rest is finer."""


def _int4(values: Array) -> tuple[Array, Array]:
    """Nibbles ``q + 8``, the first half of the rows in the low ones.

    The extreme value of a group gets -8, the one code without a counterpart, unless another scale has a smaller squared error.
    Of normally distributed weights this takes a tenth off the error.
    """
    extreme = np.take_along_axis(values, np.abs(values).argmax(axis=2)[:, :, None], axis=2)
    codes, scale = _codes(values, extreme / np.float32(_STEPS[0]), -8, 7)
    least = _squared_error(values, codes, scale)
    for step in _STEPS[1:]:
        _take_better(values, extreme / np.float32(step), codes, scale, least)
    _take_better(values, _fitted(values, codes), codes, scale, least)
    nibbles = (codes + np.int8(8)).astype(np.uint8)
    half = GROUP // 2
    return nibbles[:, :, :half] | (nibbles[:, :, half:] << np.uint8(4)), scale


def _take_better(values: Array, wanted: Array, codes: Array, scale: Array, least: Array) -> None:
    """Replace the codes of groups whose error is smaller with the scale ``wanted``."""
    others, other = _codes(values, wanted, -8, 7)
    error = _squared_error(values, others, other)
    better = error < least
    np.copyto(codes, others, where=better[:, :, None])
    np.copyto(scale, other, where=better)
    np.copyto(least, error, where=better)


def _fitted(values: Array, codes: Array) -> Array:
    """The scales with the smallest squared errors for given codes."""
    wide = codes.astype(np.float32)
    squares = np.einsum("agic,agic->agc", wide, wide)
    sums = np.einsum("agic,agic->agc", wide, values)
    return np.asarray(sums / np.where(squares == 0, np.float32(1), squares))[:, :, None]


def _squared_error(values: Array, codes: Array, scale: Array) -> Array:
    """Of every group, [.., 128]."""
    rest = codes.astype(np.float32)
    rest *= scale.astype(np.float32)[:, :, None]
    rest -= values
    return np.asarray(np.einsum("agic,agic->agc", rest, rest))


def _widen_int4(codes: Array, out: Array) -> None:
    half = GROUP // 2
    nibbles = np.bitwise_and(codes, np.uint8(15))
    np.subtract(nibbles, np.uint8(8), out=nibbles)
    np.copyto(out[:, :, :half], nibbles.view(np.int8))
    np.right_shift(codes, np.uint8(4), out=nibbles)
    np.subtract(nibbles, np.uint8(8), out=nibbles)
    np.copyto(out[:, :, half:], nibbles.view(np.int8))


_ROWS = (
    WeightType("f32", "F32", _float32, _copy, tiled=False),
    WeightType("f16", "F16", _float16, _copy),
    WeightType("bf16", "BF16", _bfloat16, _widen_bfloat16),
    WeightType("w8", "I8", _int8, _copy, scaled=True),
    WeightType("w4", "U8", _int4, _widen_int4, scaled=True, per_element=2),
)
WEIGHT_TYPES = {kind.name: kind for kind in _ROWS}
"""All types, by the name that users write."""
