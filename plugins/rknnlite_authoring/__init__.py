"""For who writes plugins: packages from templates (``rknnlite new-plugin``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import hookimpl

if TYPE_CHECKING:
    from rknnlite.spi.command import Command

__all__ = ["rknnlite_register_commands"]


@hookimpl
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer ``new-plugin``."""
    from .new_plugin import COMMAND

    register(COMMAND)
