"""How the KV cache keeps one layer's keys and values: float32, float16, or numbers of eight and four bits in groups.

A store has ``slots`` places, one per token. Keys are grouped along tokens per channel, values along channels
per token, scales are float16 and symmetric (RKNN3 user guide, 4.5). A key group is quantised when its last slot
has been filled; the keys of the group that is being filled lie in a float16 tail.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.description import KvFormat

from rknnlite.spi.llm import KvDtype

from .kv_cache_formats import Code, code_of, to_fp8
from .linear import half_bits

__all__ = ["Store", "make_store"]

Array = NDArray[Any]
Rounded = Callable[[Array], Array]
_HALF_SCALE = np.float32(2.0**112)
_LARGEST_HALF = np.float32(65504)


class Store(ABC):
    """Keys and values of one layer, (kv_heads, slots, head_dim)."""

    def __init__(self, slots: int) -> None:
        self.slots = slots

    @abstractmethod
    def rounded(self, values: Array) -> Array:
        """float32 values as they will be read back before any grouping."""

    @abstractmethod
    def put(self, slot: int, keys: Array, values: Array) -> None:
        """Store (kv_heads, n, head_dim) float32 into consecutive slots from ``slot``."""

    @abstractmethod
    def keys(self, used: int) -> Array:
        """Keys of the first ``used`` slots, float32."""

    @abstractmethod
    def values(self, used: int) -> Array:
        """Values of the first ``used`` slots, float32."""

    @abstractmethod
    def arrays(self, used: int) -> list[Array]:
        """Views of all that the first ``used`` slots consist of, for saving and loading."""

    @property
    def whole(self) -> list[Array]:
        """``arrays`` of all slots."""
        return self.arrays(self.slots)

    def check(self, arrays: Sequence[Array]) -> None:  # noqa: B027  # most stores have nothing but numbers
        """Raise ValueError when such ``arrays`` cannot be."""


class Float(Store):
    """float32: for comparing with other programs."""

    def __init__(self, heads: int, slots: int, dim: int) -> None:
        super().__init__(slots)
        self._keys = np.zeros((heads, slots, dim), np.float32)
        self._values = np.zeros((heads, slots, dim), np.float32)

    def rounded(self, values: Array) -> Array:
        return values

    def put(self, slot: int, keys: Array, values: Array) -> None:
        place = slice(slot, slot + keys.shape[1])
        self._keys[:, place] = keys
        self._values[:, place] = values

    def keys(self, used: int) -> Array:
        return self._keys[:, :used]

    def values(self, used: int) -> Array:
        return self._values[:, :used]

    def arrays(self, used: int) -> list[Array]:
        return [self._keys[:, :used], self._values[:, :used]]


class Half(Store):
    """float16."""

    def __init__(self, heads: int, slots: int, dim: int) -> None:
        super().__init__(slots)
        self._keys = np.zeros((heads, slots, dim), np.float16)
        self._values = np.zeros((heads, slots, dim), np.float16)

    def rounded(self, values: Array) -> Array:
        return _widen(_to_half(values))

    def put(self, slot: int, keys: Array, values: Array) -> None:
        place = slice(slot, slot + keys.shape[1])
        self._keys[:, place] = _to_half(keys)
        self._values[:, place] = _to_half(values)

    def keys(self, used: int) -> Array:
        return _widen(self._keys[:, :used])

    def values(self, used: int) -> Array:
        return _widen(self._values[:, :used])

    def arrays(self, used: int) -> list[Array]:
        return [self._keys[:, :used], self._values[:, :used]]


class Grouped(Store):
    """Eight bits, or four with two codes per byte (the first half of the channels in the low nibbles).

    ``computed`` rounds what is read to the numbers that the NPU multiplies.
    """

    @property
    def form(self) -> tuple[int, Code, bool]:
        """Group, code of the numbers, and whether what is read is rounded."""
        return self._group, self._code, self._computed is not _same

    def __init__(self, heads: int, slots: int, dim: int, group: int, code: Code, computed: Rounded) -> None:
        super().__init__(slots)
        self._group, self._code, self._bits, self._computed = group, code, code.bits, computed
        width = dim if code.bits == 8 else dim // 2
        self._key_codes = np.zeros((heads, slots // group, group, width), np.int8)
        self._key_scales = np.zeros((heads, slots // group, 1, dim), np.float16)
        self._tail = np.zeros((heads, group, dim), np.float16)
        self._filled = np.zeros(2, np.int64)  # group being filled, slots of it that are in the tail
        self._value_codes = np.zeros((heads, slots, width), np.int8)
        self._value_scales = np.zeros((heads, slots, -(-dim // group), 1), np.float16)

    def rounded(self, values: Array) -> Array:
        return self._computed(_widen(_to_half(values)))

    def put(self, slot: int, keys: Array, values: Array) -> None:
        count = keys.shape[1]
        codes, scales = self._quantise(values.reshape(*values.shape[:2], -1, self._group), axis=3)
        self._value_codes[:, slot : slot + count] = self._packed(codes.reshape(values.shape))
        self._value_scales[:, slot : slot + count] = scales
        done = 0
        while done < count:
            number, inside = divmod(slot + done, self._group)
            step = min(self._group - inside, count - done)
            self._resume(number, inside)
            self._tail[:, inside : inside + step] = _to_half(keys[:, done : done + step])
            self._filled[:] = number, inside + step
            if inside + step == self._group:
                codes, scales = self._quantise(self._tail.astype(np.float32), axis=1)
                self._key_codes[:, number] = self._packed(codes)
                self._key_scales[:, number] = scales
                self._filled[1] = 0
            done += step

    def _resume(self, number: int, inside: int) -> None:
        """Make the tail hold the first ``inside`` keys of a group, where filling goes on after a truncation."""
        group, filled = self._filled.tolist()
        if inside and not (group == number and filled >= inside):
            keys = self._unpacked(self._key_codes[:, number]) * self._key_scales[:, number].astype(np.float32)
            self._tail[:, :inside] = _to_half(keys[:, :inside])

    def _quantise(self, values: Array, axis: int) -> tuple[Array, Array]:
        scales = (np.abs(values).max(axis=axis, keepdims=True) / self._code.top).astype(np.float16)
        divisor = scales.astype(np.float32)
        divisor[divisor == 0] = 1
        return self._code.encode(np.clip(values / divisor, -self._code.top, self._code.top)), scales

    def _packed(self, codes: Array) -> Array:
        if self._bits == 8:
            return codes
        half = codes.shape[-1] // 2
        return (codes[..., :half] & np.int8(15)) | (codes[..., half:] << np.int8(4))

    def _unpacked(self, codes: Array) -> Array:
        if self._bits == 8:
            return self._code.decode(codes)
        half = codes.shape[-1]
        out = np.empty((*codes.shape[:-1], 2 * half), np.float32)
        out[..., :half] = self._code.decode((codes << np.int8(4)) >> np.int8(4))
        out[..., half:] = self._code.decode(codes >> np.int8(4))
        return out

    def keys(self, used: int) -> Array:
        groups = -(-used // self._group)
        keys = self._unpacked(self._key_codes[:, :groups])
        keys *= _widen(self._key_scales[:, :groups])
        keys = keys.reshape(keys.shape[0], groups * self._group, self._tail.shape[-1])
        number, inside = self._filled.tolist()
        start = number * self._group
        if inside and start < used:
            keys[:, start : start + inside] = _widen(self._tail[:, :inside])
        return self._computed(keys[:, :used])

    def values(self, used: int) -> Array:
        values = self._unpacked(self._value_codes[:, :used])
        scales = _widen(self._value_scales[:, :used])
        grouped = values.reshape(*values.shape[:2], scales.shape[2], self._group)
        grouped *= scales
        return self._computed(values)

    def arrays(self, used: int) -> list[Array]:
        groups = -(-used // self._group)
        keys: list[Array] = [
            self._key_codes[:, :groups],
            self._key_scales[:, :groups],
            self._tail,
            self._filled,
        ]
        return [*keys, self._value_codes[:, :used], self._value_scales[:, :used]]

    def check(self, arrays: Sequence[Array]) -> None:
        number, inside = arrays[3].tolist()
        if not (0 <= number <= self._key_codes.shape[1] and 0 <= inside <= self._group):
            raise ValueError(f"{inside} keys wait in group {number}")


def _same(values: Array) -> Array:
    return values


def _to_half(values: Array) -> Array:
    return np.clip(values, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16)


def _widen(half: Array) -> Array:
    out = np.empty(half.shape, np.float32)
    half_bits(half.view(np.int16), out)
    out *= _HALF_SCALE
    return out


def make_store(form: KvFormat, heads: int, slots: int, dim: int) -> Store:
    """The store of one layer; ``slots`` is a multiple of the group."""
    if form.dtype == KvDtype.UNDEFINED:
        return Float(heads, slots, dim)
    if form.dtype == KvDtype.FLOAT16:
        return Half(heads, slots, dim)
    stored, computed = form.dtype.name.lower().split("_to_")
    return Grouped(heads, slots, dim, form.group, code_of(stored), to_fp8 if computed == "f8" else _same)
