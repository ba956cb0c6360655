"""The hooks that a plugin may implement (pluggy project name ``rknnlite``).

A plugin is a module or object named by an entry point in group ``rknnlite``; it implements any of these
with ``@rknnlite.hookimpl``. Every hook gets ``register`` and calls it once per thing it offers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from .extras import EntryPoint
    from .spi import Backend, CustomOp, OpHost
    from .spi.command import Command
    from .spi.inspection import Inspector
    from .spi.public_name import PublicName

__all__ = ["Manager", "check_contract", "hookimpl", "hookspec", "mistakes", "taken"]

_PROJECT = "rknnlite"

hookspec = pluggy.HookspecMarker(_PROJECT)
hookimpl = pluggy.HookimplMarker(_PROJECT)


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
def rknnlite_register_inspectors(register: Callable[[Inspector], None]) -> None:
    """Offer what is known of model files beyond their containers: call ``register(inspector)`` for each."""


@hookspec
def rknnlite_register_lowerings(register: Callable[[Any], None]) -> None:
    """Offer other forms of graphs, such as ONNX: call ``register(lowering)`` for each ``rknnlite_graph.lowering.Lowering``."""


@hookspec
def rknnlite_register_names(register: Callable[[PublicName], None]) -> None:
    """Offer names of ``import rknnlite``, found when first used: call ``register(PublicName(name, module))`` for each."""


def check_contract(plugin: Any) -> None:
    """Raise ImportError for a plugin of other contracts than these; one that names none is taken."""
    from .spi import CONTRACT

    theirs = getattr(plugin, "RKNNLITE_CONTRACT", CONTRACT)
    if theirs != CONTRACT:
        older = "that plugin" if isinstance(theirs, int) and theirs < CONTRACT else "rknnlite"
        raise ImportError(f"it is made for contract {theirs!r}, rknnlite.spi has {CONTRACT}; update {older}")


def mistakes(plugin: Any) -> Iterator[str]:
    """What a plugin meant for a hook and what pluggy takes no notice of: misspelt names, a missing ``@hookimpl``."""
    known = [name for name, thing in globals().items() if hasattr(thing, "rknnlite_spec")]
    for name in dir(plugin):
        thing = getattr(plugin, name, None)
        if isinstance(thing, ModuleType):  # some find names only when asked
            continue
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


def taken(hook: str, thing: Any) -> Any:
    """What a plugin offers through a hook, as it is used; raises TypeError, ParamInvalid for something else."""
    if hook == "rknnlite_register_custom_ops":
        from .spi.custom_op import as_custom_op

        return as_custom_op(thing)
    if hook not in ("rknnlite_register_op_hosts", "rknnlite_register_backends"):
        return thing
    from . import spi

    kind: type = spi.OpHost if hook == "rknnlite_register_op_hosts" else spi.Backend
    if not isinstance(thing, kind):
        raise TypeError(f"{thing!r} is no {kind.__name__}")
    return thing


class Manager(pluggy.PluginManager):
    """Looks for marks at functions of a module only; pluggy examines whatever lies in it at length."""

    def __init__(self, project: str) -> None:
        super().__init__(project)
        self.late: dict[str, EntryPoint] = {}
        """What is not imported so far."""
        self.own: set[str] = set()
        """Names of plugins of ours."""
        self.backends: dict[str, Backend] = {}
        """Those of ours that somebody asked for by name."""

    def has_plugin(self, name: str) -> bool:
        """Whether there is a plugin of that name; it may be imported later."""
        return name in self.late or super().has_plugin(name)

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        if _no_hook(plugin, name):
            return None
        own = vars(plugin)[name] if isinstance(plugin, ModuleType) and name in vars(plugin) else None
        if isinstance(own, FunctionType):  # its mark is all that pluggy would find, after a long look
            mark = vars(own).get(f"{_PROJECT}_impl")
            return mark if isinstance(mark, dict) else None
        return super().parse_hookimpl_opts(plugin, name)

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:
        return None if _no_hook(module_or_class, name) else super().parse_hookspec_opts(module_or_class, name)


def _no_hook(holder: Any, name: str) -> bool:
    """Whether what a module has there cannot be a hook or its specification: no function, or one without a mark."""
    if not isinstance(holder, ModuleType) or name not in vars(holder):
        return False
    thing = vars(holder)[name]
    if isinstance(thing, FunctionType):
        return not {f"{_PROJECT}_impl", f"{_PROJECT}_spec"} & vars(thing).keys()
    return not isinstance(thing, (MethodType, classmethod, staticmethod))
