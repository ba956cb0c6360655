"""Hosts compiled CPU operators (``librkcst_*.so``) on any backend, through the vendor's C ABI."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import hookimpl

if TYPE_CHECKING:
    from rknnlite.spi import CustomOp, OpHost

__all__ = ["rknnlite_register_custom_ops", "rknnlite_register_op_hosts"]


@hookimpl
def rknnlite_register_op_hosts(register: Callable[[OpHost], None]) -> None:
    """Offer the host ``cplugin``."""
    from .host import CPluginHost

    register(CPluginHost())


@hookimpl
def rknnlite_register_custom_ops(register: Callable[[CustomOp], None]) -> None:
    """Offer the operators that lie in the plugin directories."""
    from .discovery import discover

    for op in discover():
        register(op)
