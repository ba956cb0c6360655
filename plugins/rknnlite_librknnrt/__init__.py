"""``librknnrt.so`` for every machine: programs in C, C++, Go, Rust on the CPU reference, without a board.

``client`` is the library in C, ``server`` the process that it starts; ``build`` finds the library or builds it.
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
    from rknnlite.libraries import commands_of

    for command in commands_of("librknnrt"):
        register(command)
