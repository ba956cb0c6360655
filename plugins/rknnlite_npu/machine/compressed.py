"""Compressed weights, as the fetching unit reads them: sixteen streams with a header each, one behind the other."""

from __future__ import annotations

import numpy as np
from rknnlite_graph.reading.compressed_weights import CompressedWeight

from rknnlite.errors import ModelInvalid
from rknnlite.tensor import DType

from .memory import Bytes, Memory
from .registers import Field, UnitRegisters

__all__ = ["COMPRESSION", "plain_bytes"]

COMPRESSION = Field("DECOMP_CONTROL", 0x1100, 2, 0)
HEADERS = tuple(Field(f"DCOMP_REGNUM_{k}", 0x1104, 2 * k + 1, 2 * k) for k in range(16))
PAYLOADS = tuple(Field(f"DCOMP_AMOUNT{k}", 0x1140 + 4 * k) for k in range(16))
_TYPES = {1: DType.INT8, 3: DType.INT16, 5: DType.FLOAT16}
_UNIT = 16  # bytes that streams are counted in, headers but the first unit of them among the payload
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
    headers = [r[field] * _UNIT for field in HEADERS]
    payloads = [(r[field] + 1) * _UNIT - header for field, header in zip(PAYLOADS, headers)]
    offsets, end = [], 0
    for field, header, payload in zip(PAYLOADS, headers, payloads):
        offsets.append(end)
        end += -(-(header + payload) // _SEGMENT) * _SEGMENT
        if end > _MOST:
            r.refuse(field, "weights of no file are that large")
    data = memory.view(address, end)
    weight = CompressedWeight(
        "", memoryview(data.tobytes()), size, _TYPES[kind], False, payloads, offsets, headers
    )
    try:
        weight.check()
        return np.ascontiguousarray(weight.decode())
    except ModelInvalid as error:
        r.refuse(COMPRESSION, str(error))
