"""The hooks that a plugin may implement (pluggy project name ``rknnlite``).

A plugin is a module or object named by an entry point in group ``rknnlite``; it implements any of these
with ``@rknnlite.hookimpl``. Every hook gets ``register`` and calls it once per thing it offers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pluggy

from .spi import Backend, CustomOp, OpHost

if TYPE_CHECKING:
    from .spi.command import Command

__all__ = ["hookimpl", "hookspec"]

hookspec = pluggy.HookspecMarker("rknnlite")
hookimpl = pluggy.HookimplMarker("rknnlite")


@hookspec
def rknnlite_register_backends(register: Callable[[Backend], None]) -> None:
    """Offer backends: call ``register(backend)`` for each."""


@hookspec
def rknnlite_register_custom_ops(register: Callable[[CustomOp], None]) -> None:
    """Offer custom operators that every context shall know: call ``register(op)`` for each.

    Also takes an object of the PC toolkit's plain class. When two plugins offer the same type, a model that
    uses it must be opened with the wanted one in ``custom_ops``.
    """


@hookspec
def rknnlite_register_op_hosts(register: Callable[[OpHost], None]) -> None:
    """Offer hosts that turn compiled files into custom operators: call ``register(host)`` for each."""


@hookspec
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer commands for the ``rknnlite`` command line: call ``register(command)`` for each."""
