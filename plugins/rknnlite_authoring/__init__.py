"""For who writes plugins and packages: templates (``rknnlite new-plugin``), manual pages, completion of shells."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import hookimpl

if TYPE_CHECKING:
    from rknnlite.spi.command import Command

__all__ = ["rknnlite_register_commands"]


@hookimpl
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer ``new-plugin``, ``completion`` and ``man``."""
    from rknnlite.libraries import commands_of

    for command in commands_of("authoring"):
        register(command)
