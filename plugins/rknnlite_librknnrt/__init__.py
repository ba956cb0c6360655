"""librknnrt.so of our own: programs in C, C++, Go, Rust on the CPU reference, without a board.

``client`` is the library in C; ``server`` is the process that it starts, with this package's other modules. ``build``
finds or compiles the library, ``command`` has what people call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import hookimpl

if TYPE_CHECKING:
    from rknnlite.spi.command import Command

__all__ = ["rknnlite_register_commands"]


@hookimpl
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer ``rknnlite librknnrt`` and ``rknnlite exec``."""
    from .command import COMMANDS

    for command in COMMANDS:
        register(command)
