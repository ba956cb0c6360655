"""Compressed weights, as the fetching unit reads them: streams with a header each, one behind the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from rknnlite_graph.reading.compressed_weights import CompressedWeight

from rknnlite.errors import ModelInvalid
from rknnlite.tensor import DType

from .memory import Bytes, Memory
from .registers import Field, UnitRegisters

__all__ = ["COMPRESSION", "plain_bytes"]

COMPRESSION = Field("DECOMP_CONTROL", 0x1100, 2, 0)


class _Streams(NamedTuple):
    """How the streams of a family are told: fields of each; ``unit``: bytes that they are counted in."""

    headers: tuple[Field, ...]
    amounts: tuple[Field, ...]
    unit: int


_STREAMS = {
    16: _Streams(
        tuple(Field(f"DCOMP_REGNUM_{k}", 0x1104, 2 * k + 1, 2 * k) for k in range(16)),
        tuple(Field(f"DCOMP_AMOUNT{k}", 0x1140 + 4 * k) for k in range(16)),
        unit=16,
    ),
    8: _Streams(
        tuple(Field(f"DCOMP_REGNUM_{k}", 0x1104, 3 * k + 2, 3 * k) for k in range(8)),
        tuple(Field(f"DCOMP_AMOUNT{k}", (0x1140, 0x1130)[k // 4] + 4 * (k % 4)) for k in range(8)),
        unit=8,
    ),
    2: _Streams(
        tuple(Field(f"DCOMP_REGNUM_{k}", 0x1104, 2 * k + 1, 2 * k) for k in range(2)),
        tuple(Field(f"DCOMP_AMOUNT{k}", 0x1140 + 4 * k) for k in range(2)),
        unit=16,
    ),
}
"""By their number; headers but the first unit of them are among the amount."""
_BY_BYTES = 2  # streams where bytes of all types have one code
_TYPES = {1: DType.INT8, 3: DType.INT16, 5: DType.FLOAT16}
_SEGMENT = 64  # bytes that a stream begins at a multiple of
_MOST = 1 << 26  # bytes of a weight


def plain_bytes(r: UnitRegisters, memory: Memory, address: int, size: int) -> Bytes:
    """The weights as they were before.

    Args:
        address: of the first stream.
        size: bytes of the plain weights.

    Raises:
        MachineRefused: an unknown code, or streams that hold nothing of the kind.
    """
    kind = r.need(COMPRESSION, *_TYPES)
    fields, amounts, unit = _STREAMS[r.design.streams]
    by_bytes = r.design.streams == _BY_BYTES
    headers = [r[field] * unit for field in fields]
    payloads = [(r[field] + 1) * unit - header for field, header in zip(amounts, headers)]
    offsets, end = [], 0
    for field, header, payload in zip(amounts, headers, payloads):
        offsets.append(end)
        end += -(-(header + payload) // _SEGMENT) * _SEGMENT
        if end > _MOST:
            r.refuse(field, "weights of no file are that large")
    data = memory.view(address, end)
    weight = CompressedWeight(
        "", memoryview(data.tobytes()), size, _TYPES[kind], by_bytes, payloads, offsets, headers
    )
    try:
        weight.check()
        return np.ascontiguousarray(weight.decode())
    except ModelInvalid as error:
        r.refuse(COMPRESSION, str(error))
