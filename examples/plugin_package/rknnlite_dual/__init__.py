"""Plugin of rknnlite: models with the node type ``cstDualResidual`` run once this package is installed."""

from __future__ import annotations

from collections.abc import Callable

import rknnlite

__all__ = ["rknnlite_register_custom_ops"]
RKNNLITE_CONTRACT = 1  # of rknnlite.spi: another one would not load this


@rknnlite.hookimpl
def rknnlite_register_custom_ops(register: Callable[[rknnlite.CustomOp], None]) -> None:
    """Offer the operator; imported here, so that importing rknnlite stays quick."""
    from .op import DualResidual

    register(DualResidual())
