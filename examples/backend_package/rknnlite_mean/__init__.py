"""Plugin of rknnlite: the backend ``mean``."""

from __future__ import annotations

from collections.abc import Callable

import rknnlite
from rknnlite.spi import Backend

__all__ = ["rknnlite_register_backends"]
RKNNLITE_CONTRACT = 1  # of rknnlite.spi: another one would not load this


@rknnlite.hookimpl
def rknnlite_register_backends(register: Callable[[Backend], None]) -> None:
    """Offer the backend; imported here, so that importing rknnlite stays quick."""
    from .backend import MeanBackend

    register(MeanBackend())
