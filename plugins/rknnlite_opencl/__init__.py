"""GPU operators through OpenCL (pyopencl): kernels with a list of arguments, and compiled GPU plugins."""

from __future__ import annotations

from collections.abc import Callable

from rknnlite import hookimpl
from rknnlite.spi import OpHost

from .op import Attr, Count, In, OpenClOp, Out

__all__ = ["Attr", "Count", "In", "OpenClOp", "Out", "rknnlite_register_op_hosts"]


@hookimpl
def rknnlite_register_op_hosts(register: Callable[[OpHost], None]) -> None:
    """Offer the host ``opencl``."""
    from .host import OpenClHost

    register(OpenClHost())
