"""Libraries: bodies of knowledge beside the core, which plugins and faces share, found when they are first used.

A library comes in through an entry point as every plugin does. It offers commands, and names of ``import rknnlite``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Optional

from . import plugins
from .errors import BackendUnavailable
from .spi.public_name import PublicName

__all__ = ["NAMES", "accept_former_paths", "is_there", "library", "missing_library", "public_name"]

NAMES = {"Chat": "llm", "compare": "insight", "open_llm": "llm", "to_onnx": "insight"}
"""Public names of our own libraries, and which one each comes from: said where it is not installed."""

_FORMER = {
    "rknnlite.abi.init_flags": "rknnlite_backend.abi.init_flags",
    "rknnlite.accuracy": "rknnlite_insight",
    "rknnlite.graph": "rknnlite_graph.graph",
    "rknnlite.llm.stream": "rknnlite_llm.streaming",
    "rknnlite.llm": "rknnlite_llm",
    "rknnlite.protocol": "rknnlite_protocol",
    "rknnlite.spi.dumps": "rknnlite_insight.dumps",
    "rknnlite.spi.lowering": "rknnlite_graph.lowering",
    "rknnlite.spi.one_node": "rknnlite_insight.one_node",
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
    for one in _offered():
        if one.name == name:
            return getattr(importlib.import_module(one.module), name)
    if name in NAMES:
        raise missing_library(NAMES[name], f"rknnlite.{name} is not here")
    raise AttributeError(f"module 'rknnlite' has no attribute {name!r}")


def _offered() -> Iterator[PublicName]:
    if plugins.entering():  # a plugin that is just being imported imports a name of a library
        yield from (PublicName(name, f"{plugins.GROUP}_{room}") for name, room in NAMES.items())
        return
    for _, offered in plugins.offers("rknnlite_register_names"):
        yield from (one for one in offered if isinstance(one, PublicName))


def library(name: str) -> Any:
    """The module of a library of ours; raises BackendUnavailable where it is not installed, or switched off."""
    found = plugins.enter(name)
    if found is None:
        raise missing_library(name, f"this needs the library {name}")
    return found


def is_there(name: str) -> bool:
    """Whether a library of ours is installed, and not switched off."""
    return plugins.enter(name) is not None


def missing_library(name: str, what: str) -> BackendUnavailable:
    """The error of something that needs a library: ``what`` cannot be done, and how to get it."""
    reason = plugins.problems().get(name, "")
    because = f" ({reason})" if reason and not reason.startswith(plugins.NOT_INSTALLED) else ""
    return BackendUnavailable(
        f"{what}{because}; install the whole of rknnlite (Debian: apt install python3-rknnlite-{name}), and leave "
        f"{name} out of RKNNLITE_DISABLE"
    )


class _FormerPaths:
    """Finds modules under the names that they had in earlier versions; asked when nobody else knows a name."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        """As importlib calls it."""
        for former, now in _FORMER.items():
            if name == former or name.startswith(former + "."):
                return ModuleSpec(name, _Former(now + name[len(former) :]), is_package=True)  # type: ignore[arg-type]
        return None


class _FormerModule(ModuleType):
    """Has the names of another module; modules below it are found by ``_FormerPaths`` again."""

    def __init__(self, name: str, found: ModuleType) -> None:
        vars(self)["_found"] = found
        super().__init__(name, found.__doc__)
        vars(self)["__path__"] = []

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


def accept_former_paths() -> None:
    """Let programs import from where earlier versions had things."""
    if not any(isinstance(finder, _FormerPaths) for finder in sys.meta_path):
        sys.meta_path.append(_FormerPaths())
