"""Backend for the vendor's runtime library on a board: ``librknnrt.so`` (or ``librknnmrt.so``) by ctypes."""

from __future__ import annotations

from collections.abc import Callable

from rknnlite import hookimpl
from rknnlite.spi import Backend

__all__ = ["rknnlite_register_backends"]


@hookimpl
def rknnlite_register_backends(register: Callable[[Backend], None]) -> None:
    """Offer the backend ``rknnrt``."""
    from .backend import RknnrtBackend

    register(RknnrtBackend())
