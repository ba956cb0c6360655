"""Values one behind the other, as ``client/common/pack.c`` writes them: numbers of 64 bits, bytes with their size."""

from __future__ import annotations

import struct
from typing import Optional

from rknnlite.errors import ParamInvalid

__all__ = ["Packed"]

_NUMBER = struct.Struct("=Q")
_NONE = 0xFFFFFFFFFFFFFFFF


class Packed:
    """Reads what the library has packed, in its order. Raises ParamInvalid where it ends too early."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = memoryview(data), 0

    @property
    def ended(self) -> bool:
        """Whether all was read."""
        return self._at == len(self._data)

    def number(self) -> int:
        """A number of 0 to 2**64 - 1."""
        return int(_NUMBER.unpack(self._take(_NUMBER.size))[0])

    def signed(self) -> int:
        """A number that C had with a sign."""
        number = self.number()
        return number - (1 << 64) if number >> 63 else number

    def data(self) -> Optional[bytes]:
        """Bytes, None for a NULL."""
        size = self.number()
        return None if size == _NONE else bytes(self._take(size))

    def text(self) -> Optional[str]:
        """Text, None for a NULL."""
        data = self.data()
        return None if data is None else data.decode("utf-8", "replace")

    def path(self) -> Optional[str]:
        """A file's name, None for a NULL."""
        data = self.data()
        return None if data is None else data.decode("utf-8", "surrogateescape")

    def _take(self, size: int) -> memoryview:
        if size > len(self._data) - self._at:
            raise ParamInvalid(f"the call has {len(self._data)} bytes of arguments, {size} more are needed")
        self._at += size
        return self._data[self._at - size : self._at]
