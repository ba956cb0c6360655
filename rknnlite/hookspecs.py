"""The hooks that a plugin may implement (pluggy project name ``rknnlite``).

A plugin is a module or object named by an entry point in group ``rknnlite``; it implements any of these
with ``@rknnlite.hookimpl``. Every hook gets ``register`` and calls it once per thing it offers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from .spi import Backend, CustomOp, OpHost
    from .spi.command import Command
    from .spi.lowering import Lowering

__all__ = ["hookimpl", "hookspec", "mistakes"]

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


@hookspec
def rknnlite_register_lowerings(register: Callable[[Lowering], None]) -> None:
    """Offer other forms of graphs, such as ONNX: call ``register(lowering)`` for each."""


def mistakes(plugin: Any) -> Iterator[str]:
    """What a plugin meant for a hook and what pluggy takes no notice of: misspelt names, a missing ``@hookimpl``."""
    known = [name for name, thing in globals().items() if hasattr(thing, "rknnlite_spec")]
    for name in dir(plugin):
        thing = getattr(plugin, name, None)
        marked = getattr(thing, "rknnlite_impl", None)
        if name in known and marked is None:
            yield f"{name} is never called: it lacks @rknnlite.hookimpl"
        if name in known or not callable(thing) or not (marked or name.startswith("rknnlite_register")):
            continue
        hook = marked.get("specname") or name if isinstance(marked, dict) else name
        if hook not in known and not (isinstance(marked, dict) and marked.get("optionalhook")):
            import difflib  # only where there is a mistake

            near = difflib.get_close_matches(hook, known, 1) or [", ".join(known)]
            yield f"{name} is never called: there is no such hook; did you mean {near[0]}?"
