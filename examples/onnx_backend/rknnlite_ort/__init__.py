"""Plugin of rknnlite: the backend ``ort``."""

from __future__ import annotations

from collections.abc import Callable

import rknnlite
from rknnlite.spi import Backend

__all__ = ["rknnlite_register_backends"]


@rknnlite.hookimpl
def rknnlite_register_backends(register: Callable[[Backend], None]) -> None:
    """Offer the backend; imported here, so that importing rknnlite stays quick."""
    from .backend import OrtBackend

    register(OrtBackend())
