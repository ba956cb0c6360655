"""Layouts of matrix products (RKNN user guide, table 3-5), as pure functions on numpy arrays.

A and C are cut along K (N) into lanes, B into tiles of n columns by k rows; B is turned round on the way, which is
where the time goes: OpenCV interleaves rows several times faster than numpy, and is used where it is installed.
int4 elements are int8 arrays here; in memory two share a byte, the earlier one in the lower half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ParamInvalid
from ..layout import opencv_merge as _merge
from ..native.forks import after_fork
from ..native.processors import HelperThreads, processors
from ..tensor import DType

__all__ = [
    "bfloat16_to_float",
    "float_to_bfloat16",
    "from_bytes",
    "pack_b",
    "pack_lanes",
    "to_bytes",
    "unpack_b",
    "unpack_lanes",
]

Array = NDArray[Any]
_WORDS = {8: np.dtype(np.float64), 16: np.dtype(np.complex128)}  # bytes that numpy moves at once
_FIRST, _THEN = 4, {1: 4, 2: 8}  # rows that are interleaved first, and then by bytes of an element (measured)
_CHUNK = np.dtype(np.complex128)  # 16 bytes that numpy moves at once
_ROWS = 128  # of B at a time: the scratch stays in the cache
_BLOCK = (512, 32)  # rows and words of A at a time
_WAY = 4096  # rows a multiple of these bytes apart share few cache lines:
_NARROW_BLOCK = (16, 1024)  # then fewer at a time
_MANY = 1 << 23  # bytes from which threads pay


def _padded(matrix: Array, rows: int, columns: int) -> Array:
    """Contiguous, with zeros up to multiples."""
    height, width = (-(-size // step) * step for size, step in zip(matrix.shape, (rows, columns)))
    if (height, width) == matrix.shape:
        return np.ascontiguousarray(matrix)
    out = np.zeros((height, width), matrix.dtype)
    out[: matrix.shape[0], : matrix.shape[1]] = matrix
    return out


def _need_matrix(array: Array, what: str) -> None:
    if array.ndim != 2 or 0 in array.shape:
        raise ParamInvalid(f"{what} needs a matrix, got shape {array.shape}")


def pack_lanes(matrix: Array, lanes: int) -> Array:
    """[M, K] -> [ceil(K / lanes), M, lanes], the native layout of A (and of C, with N in the place of K)."""
    _need_matrix(matrix, "pack_lanes")
    source = _padded(matrix, 1, lanes)
    return _turned(source.reshape(len(source), -1, lanes))


def unpack_lanes(native: Array, width: int) -> Array:
    """[ceil(K / lanes), M, lanes] -> [M, width]."""
    turned = _turned(np.ascontiguousarray(native))
    return np.ascontiguousarray(turned.reshape(len(turned), -1)[:, :width])


def _turned(source: Array) -> Array:
    """[rows, groups, lanes] -> [groups, rows, lanes]."""
    rows, groups, lanes = source.shape
    out = np.empty((groups, rows, lanes), source.dtype)
    word = _WORDS.get(lanes * source.itemsize)
    here, there = (source, out) if word is None else (source.view(word)[..., 0], out.view(word)[..., 0])
    step, across = _BLOCK if source.strides[0] % _WAY else _NARROW_BLOCK

    def work(starts: Iterable[int]) -> None:
        for start in starts:
            for left in range(0, groups, across):
                block = here[start : start + step, left : left + across]
                there[left : left + across, start : start + step] = block.swapaxes(0, 1)

    _side_by_side(work, range(0, rows, step), source.nbytes)
    return out


def pack_b(matrix: Array, tile: tuple[int, int], segment: int = 0) -> Array:
    """[K, N] -> [ceil(N / n), ceil(K / k), n, k] for a tile (n, k).

    With more rows than ``segment`` (0: never) each segment of rows is packed on its own, one after another; the
    result then has one axis.
    """
    _need_matrix(matrix, "pack_b")
    if segment and len(matrix) > segment:
        parts = [pack_b(matrix[start : start + segment], tile) for start in range(0, len(matrix), segment)]
        return np.concatenate([part.reshape(-1) for part in parts])
    tile_n, tile_k = tile
    source = _padded(matrix, tile_k, tile_n)
    depth, width = source.shape
    out = np.empty((width // tile_n, depth // tile_k, tile_n, tile_k), source.dtype)
    if not _interleave(source, out):
        out[...] = source.reshape(depth // tile_k, tile_k, width // tile_n, tile_n).transpose(2, 0, 3, 1)
    return out


def unpack_b(native: Array, shape: tuple[int, int], tile: tuple[int, int], segment: int = 0) -> Array:
    """What ``pack_b`` made -> [K, N] of ``shape``."""
    (depth, width), (tile_n, tile_k) = shape, tile
    columns = -(-width // tile_n)
    flat, at, parts = native.reshape(-1), 0, []
    for start in range(0, depth, segment or depth):
        rows = min(segment or depth, depth - start)
        groups = -(-rows // tile_k)
        count = columns * groups * tile_n * tile_k
        tiles = flat[at : at + count].reshape(columns, groups, tile_n, tile_k)
        parts.append(tiles.transpose(1, 3, 0, 2).reshape(groups * tile_k, columns * tile_n)[:rows, :width])
        at += count
    return np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts))


def _interleave(source: Array, out: Array) -> bool:
    """Turn the tiles by interleaving: a few rows of elements to words, a few rows of those to chunks of columns.

    False where the tile, the element or OpenCV does not allow it.
    """
    merge, (columns, depth, tile_n, tile_k) = _merge(), out.shape
    then = _THEN.get(source.itemsize)
    if merge is None or then is None or tile_k % (_FIRST * then):
        return False
    element: Any = np.uint8 if source.itemsize == 1 else np.uint16
    word: Any = np.int32 if source.itemsize == 1 else np.float64  # bits are moved, never computed with
    width, parts = source.shape[1], tile_k // (_FIRST * then)
    rows = source.view(element)
    target = out.view(_CHUNK).reshape(columns, depth, tile_n, parts, -1)
    step = min(_ROWS, len(rows))

    def work(starts: Iterable[int]) -> None:
        words = np.empty((step // _FIRST, width, _FIRST), element)
        chunks = np.empty((step // (_FIRST * then), width, then), word)
        for start in starts:
            some = rows[start : start + step]
            tiles, at = len(some) // tile_k, start // tile_k
            here, there = words[: len(some) // _FIRST], chunks[: tiles * parts]
            merge([some[i::_FIRST] for i in range(_FIRST)], here)
            flat = here.reshape(len(here), -1).view(word)
            merge([flat[i::then] for i in range(then)], there)
            found = there.view(_CHUNK).reshape(tiles, parts, columns, tile_n, -1)
            for part in range(parts):
                target[:, at : at + tiles, :, part] = found[:, part].swapaxes(0, 1)

    _side_by_side(work, range(0, len(rows), step), source.nbytes)
    return True


def _side_by_side(work: Callable[[Iterable[int]], None], starts: range, nbytes: int) -> None:
    """Call ``work`` with all starts, divided among as many threads as there are processors where it is much."""
    threads = min(processors(), len(starts)) if nbytes >= _MANY else 1
    _helpers.run(work, [[starts[number::threads]] for number in range(threads)])


_helpers = HelperThreads("rknnlite-layout")

after_fork(_helpers.forget)


# -- elements as bytes ----------------------------------------------------------------------------------------


def to_bytes(array: Array, dtype: DType) -> Array:
    """Elements -> uint8 as they lie in memory."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if dtype is not DType.INT4:
        return flat.view(np.uint8)
    nibbles = flat.view(np.uint8)
    if len(nibbles) % 2:
        nibbles = np.append(nibbles, np.uint8(0))
    packed: Array = (nibbles[0::2] & 15) | (nibbles[1::2] << 4)
    return packed


def from_bytes(data: Array, dtype: DType, dims: tuple[int, ...]) -> Array:
    """Bytes as they lie in memory -> elements (int4: int8); a view where possible."""
    count = int(np.prod(dims, dtype=np.int64))
    if dtype is not DType.INT4:
        return data[: count * dtype.numpy.itemsize].view(dtype.numpy).reshape(dims)
    data = data[: (count + 1) // 2]
    both = np.empty((len(data), 2), np.int8)
    both[:, 0] = (data << 4).view(np.int8) >> 4
    both[:, 1] = data.view(np.int8) >> 4
    return both.reshape(-1)[:count].reshape(dims)


def float_to_bfloat16(values: Array) -> Array:
    """float32 -> nearest bfloat16 (ties to even) as uint16."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    stored: Array = np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype(np.uint16)
    return stored


def bfloat16_to_float(stored: Array) -> Array:
    """bfloat16 as uint16 -> float32."""
    values: Array = (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values
