"""The memory that the NPU sees: buffers at addresses, and nothing between them."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid

from .refused import MachineRefused

__all__ = ["Bytes", "Memory"]

Bytes = NDArray[np.uint8]
_END = 1 << 32


class _Buffer(NamedTuple):
    address: int
    end: int


class Memory:
    """Buffers by address; they do not overlap.

    Examples:
        >>> memory = Memory()
        >>> memory.map(0x1000, np.arange(16, dtype=np.uint8))
        >>> memory.view(0x1004, 2).tolist()
        [4, 5]
        >>> try:
        ...     memory.view(0x100F, 2)
        ... except MachineRefused as refused:
        ...     print(refused)
        memory address = 0x100f: 2 bytes lie in no buffer; the nearest is 0x1000 to 0x1010
    """

    def __init__(self) -> None:
        self._places: list[_Buffer] = []
        self._contents: dict[int, Bytes] = {}

    def map(self, address: int, content: Bytes) -> None:
        """Put a buffer at ``address``: what is written changes ``content``, which is contiguous.

        Raises:
            InputInvalid: it leaves the 32 bits of an address, overlaps another, or is no plain array of bytes.
        """
        if content.dtype != np.uint8 or content.ndim != 1 or not content.flags.c_contiguous:
            raise InputInvalid(f"a buffer is a contiguous row of bytes, not {content.dtype} {content.shape}")
        if not len(content):
            return
        end = address + len(content)
        if address < 0 or end > _END:
            raise InputInvalid(
                f"a buffer of {len(content)} bytes at {address:#x} leaves the 32 bits of an address"
            )
        for other in self._places:
            if address < other.end and other.address < end:
                raise InputInvalid(
                    f"buffers overlap: {address:#x} to {end:#x}, and {other.address:#x} to {other.end:#x}"
                )
        insort(self._places, _Buffer(address, end))
        self._contents[address] = content

    def unmap(self, address: int) -> None:
        """Take away the buffer that begins at ``address``; there need not be one."""
        if self._contents.pop(address, None) is not None:
            self._places = [place for place in self._places if place.address != address]

    def start_of(self, address: int) -> Optional[int]:
        """The address of the buffer that ``address`` lies in; None where it lies in none."""
        at = bisect_right(self._places, (address, _END)) - 1
        inside = at >= 0 and address < self._places[at].end
        return self._places[at].address if inside else None

    def view(self, address: int, size: int) -> Bytes:
        """``size`` bytes from ``address`` on, all of one buffer.

        Raises:
            MachineRefused: they lie in no buffer.
        """
        at = bisect_right(self._places, (address, _END)) - 1
        if at >= 0 and size >= 0:
            place = self._places[at]
            if address + size <= place.end:
                return self._contents[place.address][address - place.address : address - place.address + size]
        raise MachineRefused("memory", None, "address", address, why=self._nearest(address, size))

    def _nearest(self, address: int, size: int) -> str:
        nearest: Optional[_Buffer] = min(
            self._places, key=lambda p: max(p.address - address, address - p.end, 0), default=None
        )
        known = (
            "there is none" if nearest is None else f"the nearest is {nearest.address:#x} to {nearest.end:#x}"
        )
        return f"{size} bytes lie in no buffer; {known}"
