"""Modules under the names that they had in the core in earlier versions; asked when nobody else knows a module."""

from __future__ import annotations

import importlib
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Optional

from rknnlite.libraries import missing_library

__all__ = ["FORMER", "former_path"]

FORMER = {
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


def former_path(name: str) -> Optional[ModuleSpec]:
    """How to import a module under the name that it had in earlier versions; None for a name that no module had."""
    for former, now in FORMER.items():
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
