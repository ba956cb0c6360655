"""Compressed convolution weights (compress_weight=True): segments, each with a header and a bit stream.

* By words (rk3588: 16 segments, rk3566 and rk3568: 8): segment k holds the 4-byte words j with j mod K = k;
  every unit, a byte or a 16-bit number, has a code of its own.
* By bytes (rk3562, rk3576, rv1126b: 2 segments): segment k holds the bytes i with i mod 2 = k, in blocks of
  eight.

Files are untrusted: all sizes are checked before anything is decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.tensor import DType

from . import weight_decompression_fast
from .weight_decompression import parse_header

__all__ = ["CompressedWeight"]

_WORD_SEGMENTS, _BYTE_SEGMENTS = (8, 16), (2,)
_LEAST_HEADER = 16
_MOST_PER_BYTE = 1 << 12  # plain bytes per stored one; weights of a single value stay below


@dataclass(frozen=True)
class CompressedWeight:
    """One compressed weight.

    ``data`` is the blob, ``size`` the plain size in bytes, ``dtype`` the plain element type, ``by_bytes`` the
    codec; ``payloads``, ``offsets`` and ``headers`` are sizes and places of the segments in bytes.
    """

    name: str
    data: memoryview
    size: int
    dtype: DType
    by_bytes: bool
    payloads: Sequence[int]
    offsets: Sequence[int]
    headers: Sequence[int]

    def check(self) -> None:
        """Segments lie inside the blob and may hold the weight; else ModelInvalid or ModelUnsupported."""
        count = len(self.payloads)
        legal = _BYTE_SEGMENTS if self.by_bytes else _WORD_SEGMENTS
        if count not in legal or len(self.offsets) != count or len(self.headers) != count:
            raise ModelInvalid(
                f"compressed weight {self.name}: {count} segments with {len(self.offsets)} offsets and "
                f"{len(self.headers)} headers; this SoC uses {' or '.join(map(str, legal))}"
            )
        if self.dtype not in (DType.INT8, DType.INT16, DType.FLOAT16):
            raise ModelUnsupported(
                f"compressed weight {self.name}: {self.dtype.short} elements are not supported"
            )
        for k, (payload, offset, header) in enumerate(zip(self.payloads, self.offsets, self.headers)):
            if (
                min(payload, offset) < 0
                or header < _LEAST_HEADER
                or offset + header + payload > len(self.data)
            ):
                raise ModelInvalid(
                    f"compressed weight {self.name}: segment {k} ({header} + {payload} bytes at {offset}) leaves "
                    f"its blob of {len(self.data)} bytes"
                )
        if self.size > _MOST_PER_BYTE * len(self.data):
            raise ModelInvalid(
                f"compressed weight {self.name}: {len(self.data)} bytes cannot hold {self.size} plain ones"
            )

    def decode(self) -> NDArray[np.uint8]:
        """The plain bytes of the weight; ModelInvalid for a damaged stream."""
        count, width = len(self.payloads), 1 if self.by_bytes else 4
        words = -(-self.size // width)
        segments = []
        for k in range(count):
            rows = len(range(k, words, count))
            missing = words * width - self.size if rows and (words - 1) % count == k else 0
            try:
                plain = self._segment(k, rows * width - missing)
            except ModelInvalid as error:
                raise ModelInvalid(f"compressed weight {self.name}: segment {k}: {error}") from None
            segments.append(np.pad(plain, (0, missing)).reshape(rows, width))
        out = np.zeros((len(segments[0]), count, width), np.uint8)
        for k, rows_of_segment in enumerate(segments):
            out[: len(rows_of_segment), k] = rows_of_segment
        return out.reshape(-1)[: self.size]

    def _segment(self, k: int, size: int) -> NDArray[np.uint8]:
        first, middle = self.offsets[k], self.offsets[k] + self.headers[k]
        header = parse_header(bytes(self.data[first:middle]), self.by_bytes)
        stream = bytes(self.data[middle : middle + self.payloads[k]])
        if self.by_bytes:
            return weight_decompression_fast.decode_bytes(stream, header, size)
        if self.dtype is DType.INT8:
            return weight_decompression_fast.decode_words(stream, header, 8, size).astype(np.uint8)
        units = weight_decompression_fast.decode_words(stream, header, 16, size // 2)
        if self.dtype is DType.FLOAT16:
            units = units >> np.uint16(1) | units << np.uint16(15)  # the sign was moved to the lowest bit
        return units.astype("<u2").view(np.uint8)
