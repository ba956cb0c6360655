"""Load ``librknn3_api.so`` and bind its functions as the runtime's version declares them.

The declarations are imported once there is a library to load: most machines that look for one have none.
The structures of the library changed between versions: which ones count is known as soon as the version is, so a
``Library`` is the file and an ``Api`` is the file with one revision of the structures.
"""

from __future__ import annotations

import ctypes as ct
import functools
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rknnlite_backend.crash import named
from rknnlite_backend.library import (
    FunctionMissing,
    OncePerFile,
    Search,
    open_library,
    refuse_own,
    version_in,
)

from rknnlite import config

if TYPE_CHECKING:
    from rknnlite_backend.abi import rknn3

__all__ = ["SEARCH", "Api", "Library", "load"]

SEARCH = Search(
    ("librknn3_api.so",),
    "RKNNLITE_RKNN3_LIBRARY",
    "install the host package of the RK1820/RK1828 SDK, or name the library in RKNNLITE_RKNN3_LIBRARY",
)
_NEEDED = (
    "rknn3_init",
    "rknn3_load_model_from_path",
    "rknn3_load_model_from_data",
    "rknn3_model_init",
    "rknn3_destroy",
    "rknn3_query",
    "rknn3_run",
    "rknn3_create_mem",
    "rknn3_destroy_mem",
    "rknn3_mem_sync",
)
_OURS = "rknnlite_librknn3_marker"
"""What rknnlite's own library exports."""
# Compiled when a library is searched, not at every start.
_VERSION = rb"librknn3_api version: ([0-9][^\0\n\"%]{0,120})"

_starting = threading.Lock()
_libraries: OncePerFile[Library] = OncePerFile(lambda path: Library(path))


def load(explicit: str | os.PathLike[str] | None = None) -> Library:
    """The library, loaded and checked once per file.

    Raises:
        LibraryNotFound, LibraryWrongArchitecture, LibraryUnusable, LibraryIncomplete, LibraryIsOurs.
    """
    return _libraries.of(SEARCH.find(explicit, config.get("rknn3_library")))


class Library:
    """A loaded library whose version is not known yet; ``start`` has the functions that all versions share."""

    name = "librknn3_api"

    def __init__(self, path: Path) -> None:
        from rknnlite_backend.abi import rknn3

        refuse_own(open_library(path, _NEEDED, "RKNN3 runtime"), path, _OURS, SEARCH.variable)
        self.path = path
        self.start = Api(self, rknn3.FIRST, "")
        self._apis: dict[str, Api] = {}

    @functools.cached_property
    def version(self) -> str:
        """Version as compiled into the file, empty when it is not written there."""
        return version_in(self.path, _VERSION)

    def api(self, version: str) -> Api:
        """The functions as this version declares them; raises ModelUnsupported for one that nobody has seen."""
        from rknnlite_backend.abi import rknn3

        revision = rknn3.revision(version)
        with _starting:
            if revision.name not in self._apis:
                self._apis[revision.name] = Api(self, revision, version)
            return self._apis[revision.name]

    def __repr__(self) -> str:
        return f"<Library {self.path} {self.version}>"


class Api:
    """The functions of a library with the structures of one revision; each is bound when it is first used."""

    def __init__(self, library: Library, abi: rknn3.Revision, version: str) -> None:
        self.library = library
        self.abi = abi
        self.version = version
        self._dll = ct.CDLL(str(library.path))  # of its own, because prototypes differ between revisions
        self._bound: dict[str, Any] = {}

    def has(self, name: str) -> bool:
        """Whether this version declares the function and the library exports it."""
        return name in self.abi.functions and hasattr(self._dll, name)

    def function(self, name: str) -> Any:
        """A C function with its prototype, which a crash inside it names; raises FunctionMissing."""
        bound = self._bound.get(name)
        if bound is None:
            if not self.has(name):
                raise FunctionMissing(
                    f"{name} is not supported by this library version ({self.library.path.name} "
                    f"{self.version or self.library.version}); change the runtime, or do without the feature"
                )
            function = self.abi.functions[name].bind(getattr(self._dll, name))
            bound = self._bound[name] = named(f"backend rknn3rt, {self.library.path}", name, function)
        return bound
