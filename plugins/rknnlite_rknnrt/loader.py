"""Find, check and load the vendor's runtime library; bind its functions when they are first used.

Order of the search: an explicit path, ``RKNNLITE_LIBRARY``, ``LD_LIBRARY_PATH``, the usual places. A path that
was named is never replaced by another one: what is wrong with it is the error.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import platform
import re
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rknnlite import config
from rknnlite.errors import BackendUnavailable, RknnError

from .abi import BASE_FUNCTIONS, PROTOTYPES

__all__ = [
    "DIRECTORIES",
    "NAMES",
    "FunctionMissing",
    "Library",
    "LibraryIncomplete",
    "LibraryNotFound",
    "LibraryUnusable",
    "LibraryWrongArchitecture",
    "find",
    "is_file",
    "load",
]

NAMES = ("librknnrt.so", "librknnmrt.so")
DIRECTORIES = (
    "/usr/lib", "/usr/lib64", "/usr/lib/aarch64-linux-gnu", "/usr/lib/arm-linux-gnueabihf", "/lib", "/lib64",
    "/usr/local/lib", "/usr/local/lib64", "/vendor/lib64", "/vendor/lib", "/oem/usr/lib",
)  # fmt: skip
_REMEDY = (
    "install the runtime of your board's SDK (a Debian package rknpu2-rk3588 or the like, or copy librknnrt.so "
    "to /usr/lib), or name it in RKNNLITE_LIBRARY"
)
_MACHINES = {3: "x86", 40: "armhf", 62: "x86_64", 183: "aarch64", 243: "riscv"}
_VERSION = re.compile(rb"librknn\w{0,2}rt version: ([0-9][^\0\n\"%]{0,120})")


class LibraryNotFound(BackendUnavailable):
    """There is no runtime library where it was looked for."""


class LibraryWrongArchitecture(BackendUnavailable):
    """The library is for another processor than this Python."""


class LibraryUnusable(BackendUnavailable):
    """The file is no shared library, or the dynamic linker refuses it."""


class LibraryIncomplete(BackendUnavailable):
    """The library lacks functions that every RKNN runtime has."""


class FunctionMissing(RknnError):
    """This version of the library does not export the function that was asked for."""


def find(explicit: str | os.PathLike[str] | None = None) -> Path:
    """Path of the library to load; raises LibraryNotFound listing where it was looked for."""
    named = explicit or config.get("library")
    if named:
        path = Path(named)
        found = next((c for c in _candidates(path) if is_file(c)), None)
        if found is None:
            source = "" if explicit else " (from RKNNLITE_LIBRARY)"
            raise LibraryNotFound(f"there is no runtime library {path}{source}; {_REMEDY}")
        return found
    looked = [*filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")), *DIRECTORIES]
    for directory in looked:
        for name in NAMES:
            if is_file(Path(directory) / name):
                return Path(directory) / name
    raise LibraryNotFound(f"no {' or '.join(NAMES)} in {', '.join(looked)}; {_REMEDY}")


def is_file(path: Path) -> bool:
    """Whether there is a file, as far as this user may look; never raises."""
    try:
        return path.is_file()
    except OSError:
        return False


def _candidates(path: Path) -> Iterator[Path]:
    yield path
    yield from (path / name for name in NAMES)


_loaded: dict[tuple[str, int, int], Library] = {}
_loading = threading.Lock()


def load(explicit: str | os.PathLike[str] | None = None) -> Library:
    """The library, loaded and checked once per file.

    Raises:
        LibraryNotFound, LibraryWrongArchitecture, LibraryUnusable, LibraryIncomplete.
    """
    path = find(explicit).resolve()
    status = path.stat()
    key = (str(path), status.st_ino, status.st_mtime_ns)
    with _loading:
        if key not in _loaded:
            _loaded[key] = Library(path)
        return _loaded[key]


class Library:
    """A loaded runtime library. ``dll`` is ours, prototypes set; ``public`` is left to programs as it is."""

    def __init__(self, path: Path) -> None:
        _check_architecture(path)
        try:
            self.dll = ctypes.CDLL(str(path))
        except OSError as error:
            raise LibraryUnusable(f"{path} cannot be loaded: {error}") from None
        self.path = path
        self._bound: dict[str, Any] = {}
        missing = [name for name in BASE_FUNCTIONS if not hasattr(self.dll, name)]
        if missing:
            raise LibraryIncomplete(
                f"{path} is no RKNN runtime of this generation: it does not export {', '.join(missing)}"
            )

    @functools.cached_property
    def public(self) -> ctypes.CDLL:
        """The same library as a second ctypes object: a program may set prototypes without disturbing us."""
        return ctypes.CDLL(str(self.path))

    @functools.cached_property
    def _plain(self) -> ctypes.CDLL:
        return ctypes.CDLL(str(self.path))

    @property
    def name(self) -> str:
        """``librknnrt`` or ``librknnmrt``, as the vendor's log lines name it."""
        return "librknnmrt" if "librknnmrt" in self.path.name else "librknnrt"

    @functools.cached_property
    def version(self) -> str:
        """Version as compiled into the file, such as ``2.3.2 (429f97ae6b@2025-04-09T09:09:27)``; may be empty.

        Read from the file, because a library answers the question only once a model could be opened.
        """
        try:
            with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                match = _VERSION.search(data)
                return match.group(1).decode("ascii", "replace").strip() if match else ""
        except (OSError, ValueError):
            return ""

    def has(self, name: str) -> bool:
        """Whether the library exports a function."""
        return hasattr(self.dll, name)

    def function(self, name: str) -> Any:
        """A C function with its prototype; raises FunctionMissing."""
        bound = self._bound.get(name)
        if bound is None:
            try:
                bound = getattr(self.dll, name)
            except AttributeError:
                version = f" {self.version}" if self.version else ""
                raise FunctionMissing(
                    f"{name} is not supported by this library version ({self.path.name}{version}); "
                    "update the runtime, or do without the feature"
                ) from None
            bound.restype, bound.argtypes = PROTOTYPES[name]
            self._bound[name] = bound
        return bound

    def quick(self, name: str) -> Any:
        """The function without a prototype, or one that raises FunctionMissing when it is called.

        ctypes converts nothing then, which halves the cost of a call; all arguments must be ctypes objects.
        """
        return getattr(self._plain, name) if self.has(name) else functools.partial(self._refuse, name)

    def _refuse(self, name: str, *_args: Any) -> int:
        self.function(name)
        return -1

    def __repr__(self) -> str:
        return f"<Library {self.path} {self.version}>"


def _machine() -> int:
    """ELF machine number of this Python, 0 for one not in the table."""
    name, wide = platform.machine().lower(), ctypes.sizeof(ctypes.c_void_p) == 8
    if name in ("aarch64", "arm64", "armv8l", "armv7l", "armv6l"):
        return 183 if wide else 40
    return (62 if wide else 3) if name in ("x86_64", "amd64", "i686", "i586") else 0


def _end_of_sections(head: bytes) -> int:
    """Where the table of sections ends, the last thing in an ELF file."""
    wide = head[4] == 2
    (start,) = struct.unpack_from("<Q" if wide else "<I", head, 40 if wide else 32)
    entry, count = struct.unpack_from("<HH", head, 58 if wide else 46)
    return int(start + entry * count)


def _check_architecture(path: Path) -> None:
    try:
        with path.open("rb") as file:
            head, size = file.read(64), file.seek(0, os.SEEK_END)
    except OSError as error:
        raise LibraryUnusable(f"{path} cannot be read: {error.strerror}") from None
    if len(head) < 64 or head[:4] != b"\x7fELF":
        raise LibraryUnusable(f"{path} is no shared library (no ELF header); copy it again")
    end = _end_of_sections(head)
    if size < end:  # the dynamic linker would crash on it
        raise LibraryUnusable(f"{path} is cut off: it has {size} of {end} bytes; copy it again")
    (theirs,), ours = struct.unpack_from("<H", head, 18), _machine()
    if ours and theirs != ours:
        raise LibraryWrongArchitecture(
            f"{path} is for {_MACHINES.get(theirs, f'ELF machine {theirs}')}, this Python is "
            f"{_MACHINES.get(ours)}; install the library for this processor"
        )
