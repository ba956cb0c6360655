"""Runs RK182x post-process plugins (RISC-V objects) behind any model on the CPU reference."""

from __future__ import annotations

from collections.abc import Callable

from rknnlite import hookimpl
from rknnlite.spi import OpHost

__all__ = ["rknnlite_register_op_hosts"]


@hookimpl
def rknnlite_register_op_hosts(register: Callable[[OpHost], None]) -> None:
    """Offer the host ``riscv``."""
    from .host import RiscvHost

    register(RiscvHost())
