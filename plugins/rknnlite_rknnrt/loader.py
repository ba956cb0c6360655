"""Load the vendor's runtime library and bind its functions when they are first used.

The declarations are imported once there is a library to load: most machines that look for one have none.
"""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

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

__all__ = ["SEARCH", "Library", "load"]

SEARCH = Search(
    ("librknnrt.so", "librknnmrt.so"),
    "RKNNLITE_LIBRARY",
    "install the runtime of your board's SDK (a Debian package rknpu2-rk3588 or the like, or copy librknnrt.so "
    "to /usr/lib), or name it in RKNNLITE_LIBRARY",
)
# Compiled when a library is searched, not at every start.
_VERSION = rb"librknn\w{0,2}rt version: ([0-9][^\0\n\"%]{0,120})"
_MINI = "librknnmrt"
_NEVER_IN_MINI = (
    "rknn_set_core_mask",
    "rknn_set_batch_core_num",
    "rknn_register_custom_ops",
    "rknn_custom_op_",
    "rknn_matmul_",
)
"""How the names of functions begin that the runtime of RV1103 and RV1106 lacks (seen in 2.3.2): one core, int8 only."""

_OURS = "rknnlite_librknnrt_marker"
"""What the library of plugin rknnlite_librknnrt exports."""
_ONLY_HERE = ("rknn_dup_context", "rknn_set_core_mask", "rknn_create_mem2", "rknn_mem_sync")
_FIRST_GENERATION = ("rknn_inputs_map", "rknn_find_devices", "rknn_init2")
"""What tells the first generation's librknn_api, whose functions have the same names and other arguments."""

_libraries: OncePerFile[Library] = OncePerFile(lambda path: Library(path))


def load(explicit: str | os.PathLike[str] | None = None) -> Library:
    """The library, loaded and checked once per file.

    Raises:
        LibraryNotFound, LibraryWrongArchitecture, LibraryUnusable, LibraryIncomplete, LibraryIsOurs.
    """
    return _libraries.of(SEARCH.find(explicit, config.get("library")))


class Library:
    """A loaded runtime library. ``dll`` is ours, ``public`` is for programs; both have prototypes."""

    def __init__(self, path: Path) -> None:
        from .abi import BASE_FUNCTIONS

        self.dll = open_library(path, BASE_FUNCTIONS, "RKNN runtime of this generation")
        self.path = path
        refuse_own(self.dll, path, _OURS, SEARCH.variable)
        self._refuse_first_generation()
        self._bound: dict[str, Any] = {}
        self._named: dict[str, Any] = {}

    def _refuse_first_generation(self) -> None:
        old = [name for name in _FIRST_GENERATION if self.has(name)]
        if (old or self.path.name.startswith("librknn_api")) and not any(map(self.has, _ONLY_HERE)):
            raise LibraryIncomplete(
                f"{self.path} is librknn_api of the first NPU generation (RK1808, RV1126, RK3399Pro), not librknnrt: "
                f"rknn_init takes other arguments there; name it in RKNNLITE_RKNN1_LIBRARY, backend rknn1rt runs it"
            )

    @functools.cached_property
    def public(self) -> ctypes.CDLL:
        """The same library for programs that call C functions themselves."""
        from .c_functions import open_public

        return open_public(self.path)

    @functools.cached_property
    def _plain(self) -> ctypes.CDLL:
        return ctypes.CDLL(str(self.path))

    @property
    def name(self) -> str:
        """``librknnrt`` or ``librknnmrt``, as the vendor's log lines name it."""
        return _MINI if _MINI in self.path.name else "librknnrt"

    @functools.cached_property
    def version(self) -> str:
        """Version as compiled into the file, such as ``2.3.2 (429f97ae6b@2025-04-09T09:09:27)``; may be empty.

        Read from the file, because a library answers the question only once a model could be opened.
        """
        return version_in(self.path, _VERSION)

    def has(self, name: str) -> bool:
        """Whether the library exports a function."""
        return hasattr(self.dll, name)

    def function(self, name: str) -> Any:
        """A C function with its prototype, which a crash inside it names; raises FunctionMissing."""
        function = self._named.get(name)
        if function is None:
            function = self._named[name] = named(f"backend rknnrt, {self.path}", name, self.bare(name))
        return function

    def bare(self, name: str) -> Any:
        """``function`` for methods that stand in the report of a crash themselves (``crash.calls``)."""
        bound = self._bound.get(name)
        if bound is None:
            try:
                bound = getattr(self.dll, name)
            except AttributeError:
                version = f" {self.version}" if self.version else ""
                raise FunctionMissing(
                    f"{name} is not supported by this library version ({self.path.name}{version}); {self._remedy(name)}"
                ) from None
            from .abi import PROTOTYPES

            bound.restype, bound.argtypes = PROTOTYPES[name]
            self._bound[name] = bound
        return bound

    def _remedy(self, name: str) -> str:
        if self.name == _MINI and name.startswith(_NEVER_IN_MINI):
            return f"no version of {_MINI} has it: do without the feature"
        return "update the runtime, or do without the feature"

    def quick(self, name: str) -> Any:
        """The function without a prototype, or one that raises FunctionMissing when it is called.

        ctypes converts nothing then, which halves the cost of a call. Arguments wider than an int must be ctypes
        objects, best those that ``byref`` and ``from_param`` make: they are ready for C.
        """
        return getattr(self._plain, name) if self.has(name) else functools.partial(self._refuse, name)

    def _refuse(self, name: str, *_args: Any) -> int:
        self.function(name)
        return -1

    def __repr__(self) -> str:
        return f"<Library {self.path} {self.version}>"
