"""CPU reference backend: executes graphs of genuine model files with the NPU's numbers."""

from __future__ import annotations

from collections.abc import Callable

from rknnlite import hookimpl
from rknnlite.spi import Backend

__all__ = ["rknnlite_register_backends"]


@hookimpl
def rknnlite_register_backends(register: Callable[[Backend], None]) -> None:
    """Offer the backend ``cpu``."""
    from .backend import CpuBackend

    register(CpuBackend())
