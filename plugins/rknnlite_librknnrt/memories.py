"""Memory of the program that a context uses: mapped from the descriptor that came with it."""

from __future__ import annotations

import os

from rknnlite.errors import ParamInvalid
from rknnlite.spi import Memory
from rknnlite.spi.context import Context
from rknnlite.spi.matmul import MatmulContext

from .protocol import Request

__all__ = ["Memories"]


class Memories:
    """The memory that one context knows, by the program's numbers."""

    def __init__(self, opened: Context | MatmulContext) -> None:
        self._opened = opened
        self._known: dict[int, tuple[Memory, int]] = {}

    def learn(self, request: Request) -> None:
        """Map memory. Raises ParamInvalid where it cannot be."""
        number, size, offset, _ = request.args[:4]
        if number in self._known:
            raise ParamInvalid(f"this context knows a memory {number} already")
        memory = self._opened.import_mem(request.fds.first, size, offset)
        self._known[number] = (memory, request.fds.take())

    def find(self, number: int) -> Memory:
        """The memory of that number; raises ParamInvalid."""
        if number not in self._known:
            raise ParamInvalid(f"this context knows no memory {number}")
        return self._known[number][0]

    def forget(self, request: Request) -> None:
        """Memory that the program has destroyed."""
        found = self._known.pop(request.args[0], None)
        if found is not None:
            found[0].close()
            os.close(found[1])

    def close(self) -> None:
        """Forget all; the context is closed."""
        for memory, fd in self._known.values():
            memory.close()
            os.close(fd)
        self._known.clear()
