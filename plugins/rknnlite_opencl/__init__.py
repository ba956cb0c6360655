"""GPU operators through OpenCL (pyopencl): kernels with a list of arguments, and compiled GPU plugins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rknnlite import hookimpl
from rknnlite.spi import OpHost

if TYPE_CHECKING:
    from .arguments import Attr, AttrList, Count, In, Local, Out, Scratch
    from .op import Kernel, OpenClOp

__all__ = [
    "Attr",
    "AttrList",
    "Count",
    "In",
    "Kernel",
    "Local",
    "OpenClOp",
    "Out",
    "Scratch",
    "rknnlite_register_op_hosts",
]


@hookimpl
def rknnlite_register_op_hosts(register: Callable[[OpHost], None]) -> None:
    """Offer the host ``opencl``."""
    from .host import OpenClHost

    register(OpenClHost())


def __getattr__(name: str) -> Any:
    """The classes of operators, imported when somebody writes one: most programs never do."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import arguments, op

    return getattr(op if name in op.__all__ else arguments, name)
