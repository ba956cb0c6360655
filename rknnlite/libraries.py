"""Libraries: bodies of knowledge beside the core, which plugins and faces share, found when they are first used.

A library comes in through an entry point as every plugin does. It offers commands, and names of ``import rknnlite``.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Optional

from . import plugins
from .errors import BackendUnavailable
from .extras import OWN_PLUGINS
from .spi.public_name import PublicName

if TYPE_CHECKING:
    from .spi.command import Command

__all__ = [
    "COMMANDS",
    "NAMES",
    "command",
    "commands_of",
    "former_path",
    "is_there",
    "library",
    "missing_library",
    "public_name",
]

NAMES = {name: plugin.name for plugin in OWN_PLUGINS.values() for name in plugin.names}
"""Public names of our own libraries, and which one each comes from: said where it is not installed."""

COMMANDS = {
    word: f"rknnlite_{plugin.name}.{module}"
    for plugin in OWN_PLUGINS.values()
    for word, module in plugin.commands.items()
}
"""Commands of our own plugins, and the module whose ``COMMAND`` each is: imported when the command is called."""

_FORMER = {
    "rknnlite.abi.init_flags": "rknnlite_backend.abi.init_flags",
    "rknnlite.accuracy": "rknnlite_insight",
    "rknnlite.graph": "rknnlite_graph.graph",
    "rknnlite.llm.stream": "rknnlite_llm.streaming",
    "rknnlite.llm": "rknnlite_llm",
    "rknnlite.native.addresses": "rknnlite_backend.addresses",
    "rknnlite.native.crash": "rknnlite_backend.crash",
    "rknnlite.native.objects": "rknnlite_backend.native_objects",
    "rknnlite.protocol": "rknnlite_protocol",
    "rknnlite.spi.dumps": "rknnlite_insight.dumps",
    "rknnlite.spi.board_facts": "rknnlite_protocol.board_facts",
    "rknnlite.spi.lowering": "rknnlite_graph.lowering",
    "rknnlite.spi.one_node": "rknnlite_insight.one_node",
    "rknnlite.spi.perf": "rknnlite_backend.perf",
    "rknnlite.spi.running": "rknnlite_backend.running",
    "rknnlite.spi.zero_copy": "rknnlite_backend.zero_copy",
}
"""Where programs of earlier versions import from -> where it lies."""


def public_name(name: str) -> Any:
    """What libraries offer as ``rknnlite.NAME``.

    Raises:
        AttributeError: nobody knows such a name.
        BackendUnavailable: the library that has it is not installed, or switched off; the text says which it is.
    """
    room = NAMES.get(name, "")
    if room or not plugins.entering():  # else it is a plugin that asks while it is imported
        for _, offered in plugins.offers("rknnlite_register_names", room):
            for one in offered:
                if isinstance(one, PublicName) and one.name == name:
                    return getattr(importlib.import_module(one.module), name)
    if room:
        raise missing_library(room, f"rknnlite.{name} is not here")
    raise AttributeError(f"module 'rknnlite' has no attribute {name!r}")


def command(word: str) -> Command | None:
    """The command of a plugin of ours, which alone is imported; None for other words.

    Raises:
        BackendUnavailable: its plugin is not installed, switched off or broken; the text says what to do.
    """
    if word not in COMMANDS:
        return None
    name = _plugin_of(COMMANDS[word])
    if plugins.enter(name) is None:
        raise missing_library(name, f"the command {word} is not here")
    try:
        return _imported(COMMANDS[word])
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise BackendUnavailable(f"the command {word} cannot be loaded: {why}; correct {name}") from None


def commands_of(name: str) -> Iterator[Command]:
    """All commands of a plugin of ours: what its hook offers."""
    for module in COMMANDS.values():
        if _plugin_of(module) == name:
            yield _imported(module)


def _plugin_of(module: str) -> str:
    return module.partition(".")[0][len(f"{plugins.GROUP}_") :]


def _imported(module: str) -> Command:
    found: Command = importlib.import_module(module).COMMAND
    return found


def library(name: str) -> Any:
    """The module of a library of ours; raises BackendUnavailable where it is not installed, or switched off."""
    found = plugins.enter(name)
    if found is None and name not in plugins.problems():  # one without hooks has no entry point
        with contextlib.suppress(ModuleNotFoundError):
            found = importlib.import_module(f"{plugins.GROUP}_{name}")
    if found is None:
        raise missing_library(name, f"this needs the library {name}")
    return found


def is_there(name: str) -> bool:
    """Whether a library of ours is installed, and not switched off."""
    return plugins.enter(name) is not None


def missing_library(name: str, what: str) -> BackendUnavailable:
    """The error of something that needs a plugin of ours: ``what`` cannot be done, and how to get it."""
    reason = plugins.problems().get(name, plugins.NOT_INSTALLED)
    if plugins.SWITCHED_OFF in reason:
        return BackendUnavailable(f"{what} ({name} is {reason}); leave it out there")
    because = "" if reason.startswith(plugins.NOT_INSTALLED) else f" ({name}: {reason})"
    return BackendUnavailable(
        f"{what}{because}; install the whole of rknnlite (Debian: apt install {OWN_PLUGINS[name].debian})"
    )


def former_path(name: str) -> Optional[ModuleSpec]:
    """How to import a module under the name that it had in earlier versions; None for a name that no module had."""
    for former, now in _FORMER.items():
        if name == former or name.startswith(former + "."):
            return ModuleSpec(name, _Former(now + name[len(former) :]), is_package=True)  # type: ignore[arg-type]
    return None


class _FormerModule(ModuleType):
    """Has the names of another module; modules below it are found by ``former_path`` again."""

    def __init__(self, name: str, found: ModuleType) -> None:
        super().__init__(name, found.__doc__)  # in Python 3.9 a module has no names before
        vars(self).update(_found=found, __path__=[])

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_found"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        """importlib puts modules into the one above, which a function may have the name of."""
        if not (isinstance(value, ModuleType) and callable(getattr(vars(self)["_found"], name, None))):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return dir(vars(self)["_found"])


class _Former:
    """Makes a module that has all names of another."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """As importlib calls it; raises ModuleNotFoundError saying which library is missing."""
        try:
            return _FormerModule(spec.name, importlib.import_module(self._name))
        except ModuleNotFoundError as error:
            top = self._name.partition(".")[0]
            if error.name != top:
                raise
            text = str(missing_library(top[len("rknnlite_") :], f"{spec.name} is not here"))
            raise ModuleNotFoundError(text, name=top) from None

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to execute."""
