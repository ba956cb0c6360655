"""Containers: recognise a file, read it into a ``Model``. One module per container.

Files are untrusted: every offset and size is checked, nothing larger than the file justifies is allocated,
and a damaged file gives ``ModelInvalid``.
"""

from __future__ import annotations

import mmap
import struct
from functools import cached_property
from pathlib import Path
from typing import Union

from ..errors import ModelInvalid, ModelUnsupported
from .model import IoTensor, Model

__all__ = ["IoTensor", "Model", "ModelFile", "sniff"]

Source = Union[str, Path, bytes, bytearray, memoryview]

_REMEDY = "convert the network again with rknn-toolkit2 1.6 or newer for your SoC"


class ModelFile:
    """A model file or the bytes of one; read and parsed only as far as somebody asks.

    ``path`` is None for bytes. A file is mapped, not copied.
    """

    def __init__(self, source: Source) -> None:
        self.path = None if isinstance(source, (bytes, bytearray, memoryview)) else Path(source)
        self._source = source

    @property
    def label(self) -> str:
        """Name for messages."""
        return str(self.path) if self.path else "model in memory"

    @cached_property
    def data(self) -> memoryview:
        """The bytes of the file; raises ModelInvalid when it cannot be read."""
        if self.path is None:
            return memoryview(self._source).cast("B")  # type: ignore[arg-type]
        try:
            with self.path.open("rb") as file:
                if not file.seek(0, 2):
                    return memoryview(b"")
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as error:
            raise ModelInvalid(f"cannot be read: {error.strerror or error}") from None

    @cached_property
    def model(self) -> Model:
        """The metadata; raises ModelInvalid or ModelUnsupported naming the file and the remedy."""
        try:
            return _read(self.data)
        except ModelInvalid as error:
            raise type(error)(f"{self.label}: {error}") from None


def sniff(data: memoryview) -> int:
    """The container version of a genuine RKNPU2 file.

    Raises:
        ModelInvalid: not such a file; the text says what it is instead and what to do.
    """
    if len(data) == 0:
        raise ModelInvalid("the file is empty; copy it again")
    head = bytes(data[:8])
    if head == b"CYPTRKNN" or head[:4] == b"RKCE":
        raise ModelUnsupported(
            "the model is encrypted; only the vendor's runtime on a board can open it: run it there, or use the "
            "unencrypted export"
        )
    if head[:4] == b"RKNX":
        raise ModelUnsupported("this is an RKNN3 model (RK1820/RK1828); open it with rknn3lite on its device")
    if head[:4] != b"RKNN":
        raise ModelInvalid(f"not an RKNN model: it starts with {head!r}, not b'RKNN'; {_REMEDY}")
    if len(data) < 64:
        raise ModelInvalid(f"the file is truncated: {len(data)} bytes cannot hold its header; copy it again")
    version: int = struct.unpack_from("<Q", data, 8)[0]
    if version & 0xFF00 == 0x1000:
        raise ModelUnsupported(
            f"container version {version:#x} is the mini format of RV1103/RV1106, which this version does not "
            "execute; convert the network for an RK35xx, RK3576, RK3588 or RV1126B target"
        )
    if version == 1 and bytes(data[28:32]) != b"RKNN":
        raise ModelUnsupported(
            "this model was made by RKNN-Toolkit 1 for RK1808, RK3399Pro, RV1109 or RV1126, another NPU "
            f"generation; {_REMEDY}"
        )
    if 1 <= version <= 5:
        raise ModelUnsupported(
            f"container version {version} is older than toolkit 1.6 and not supported; {_REMEDY}"
        )
    if version != 6:
        raise ModelUnsupported(
            f"container version {version} is unknown to this version of rknnlite; update rknnlite, or {_REMEDY}"
        )
    return version


def _read(data: memoryview) -> Model:
    sniff(data)
    from .rknn6 import read

    return read(data)
