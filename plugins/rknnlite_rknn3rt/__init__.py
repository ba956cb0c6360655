"""Backend for a host with an RK1820 or RK1828: the vendor's ``librknn3_api.so`` by ctypes."""

from __future__ import annotations

from collections.abc import Callable

from rknnlite import hookimpl
from rknnlite.spi import Backend

__all__ = ["rknnlite_register_backends"]


@hookimpl
def rknnlite_register_backends(register: Callable[[Backend], None]) -> None:
    """Offer the backend ``rknn3rt``."""
    from .backend import Rknn3Backend

    register(Rknn3Backend())
