"""Find ``librknn_api.so``, tell what it is, and bind its functions when they are first used.

A file of this name may be librknnrt under an old name: what it exports tells them apart, before any function of it is
called. The declarations are imported once there is a library to load.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rknnlite_backend.crash import named
from rknnlite_backend.library import (
    FunctionMissing,
    LibraryIncomplete,
    OncePerFile,
    Search,
    open_library,
    refuse_own,
    version_in,
)

from rknnlite import config

if TYPE_CHECKING:
    from .abi import Flavour

__all__ = ["SEARCH", "Library", "load"]

SEARCH = Search(
    ("librknn_api.so",),
    "RKNNLITE_RKNN1_LIBRARY",
    "install the runtime of your board's SDK (RK1808, RV1109, RV1126, RK3399Pro), or name librknn_api.so in "
    "RKNNLITE_RKNN1_LIBRARY",
)
_ONLY_IN_LIBRKNNRT = ("rknn_dup_context", "rknn_set_core_mask", "rknn_create_mem2", "rknn_mem_sync")
_OURS = "rknnlite_librknn1_marker"
"""What rknnlite's own library exports."""
# Compiled when a library is searched, not at every start.
_VERSION = rb"([01]\.\d{1,2}\.\d{1,2} \([0-9a-f]{7,10} build: [^)\0\n]{4,40}\))"

_libraries: OncePerFile[Library] = OncePerFile(lambda path: Library(path))


def load(explicit: str | os.PathLike[str] | None = None) -> Library:
    """The library, loaded and checked once per file.

    Raises:
        LibraryNotFound, LibraryWrongArchitecture, LibraryUnusable, LibraryIncomplete.
    """
    return _libraries.of(SEARCH.find(explicit, config.get("rknn1_library")))


class Library:
    """A loaded library; ``flavour`` says whether the NPU is beside the CPU or behind a cable."""

    name = "librknn_api"

    def __init__(self, path: Path) -> None:
        from . import abi

        self._dll = open_library(path, abi.BASE_FUNCTIONS, "RKNN runtime of the first generation")
        refuse_own(self._dll, path, _OURS, SEARCH.variable)
        self.path = path
        newer = [name for name in _ONLY_IN_LIBRKNNRT if self.has(name)]
        if newer:
            raise LibraryIncomplete(
                f"{path} is librknnrt, the runtime of RK356x, RK3588 and later ones, whatever its name is (it exports "
                f"{', '.join(newer)}): it runs no file of RKNN-Toolkit 1; {SEARCH.remedy}"
            )
        host = any(map(self.has, abi.HOST_ONLY))
        self.flavour: Flavour = abi.Flavour.HOST if host else abi.Flavour.BOARD
        self._prototypes = abi.prototypes(self.flavour)
        self._bound: dict[str, Any] = {}

    @functools.cached_property
    def version(self) -> str:
        """Version as compiled into the file, such as ``1.7.3 (a7bb3f8 build: 2022-07-07)``; may be empty."""
        return version_in(self.path, _VERSION)

    def has(self, name: str) -> bool:
        """Whether the library exports a function."""
        return hasattr(self._dll, name)

    def function(self, name: str) -> Any:
        """A C function with its prototype, which a crash inside it names; raises FunctionMissing."""
        bound = self._bound.get(name)
        if bound is None:
            if name not in self._prototypes or not self.has(name):
                raise FunctionMissing(
                    f"{name} is not in this library ({self.path.name}, {self.flavour.value} flavour, "
                    f"{self.version or 'of unknown version'}); update the runtime, or do without the feature"
                )
            function = getattr(self._dll, name)
            function.restype, function.argtypes = self._prototypes[name]
            bound = self._bound[name] = named(f"backend rknn1rt, {self.path}", name, function)
        return bound

    def __repr__(self) -> str:
        return f"<Library {self.path} {self.flavour.value} {self.version}>"
