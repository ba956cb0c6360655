"""Backend for the runtime of the first NPU generation: ``librknn_api.so`` by ctypes, on a board or on a host."""

from __future__ import annotations

from collections.abc import Callable

from rknnlite import hookimpl
from rknnlite.spi import Backend

__all__ = ["rknnlite_register_backends"]


@hookimpl
def rknnlite_register_backends(register: Callable[[Backend], None]) -> None:
    """Offer the backend ``rknn1rt``."""
    from .backend import Rknn1Backend

    register(Rknn1Backend())
