"""Libraries: bodies of knowledge beside the core, which plugins and faces share, found when they are first used.

A library comes in through an entry point as every plugin does. It offers commands, and names of ``import rknnlite``.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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
