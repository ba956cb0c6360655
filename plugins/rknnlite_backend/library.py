"""Find and check a vendor's runtime library before it is loaded; what can be wrong with one has its own error.

Order of the search: an explicit path, the configured one, ``LD_LIBRARY_PATH``, the usual places. A path that
was named is never replaced by another one: what is wrong with it is the error.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from rknnlite.errors import BackendUnavailable, RknnError
from rknnlite.files.reading import open_file

from .crash import caller, name_crashes
from .elf import ElfInvalid, check_contents, of_this_python, read_header
from .trial import check_trial

__all__ = [
    "DIRECTORIES",
    "FunctionMissing",
    "LibraryIncomplete",
    "LibraryIsOurs",
    "LibraryNotFound",
    "LibraryUnusable",
    "LibraryWrongArchitecture",
    "OncePerFile",
    "Search",
    "check_elf",
    "is_file",
    "open_library",
    "refuse_own",
    "version_in",
]

DIRECTORIES = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/arm-linux-gnueabihf",
    "/lib",
    "/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/vendor/lib64",
    "/vendor/lib",
    "/oem/usr/lib",
)
T = TypeVar("T")


class LibraryNotFound(BackendUnavailable):
    """There is no runtime library where it was looked for."""


class LibraryWrongArchitecture(BackendUnavailable):
    """The library is for another processor than this Python."""


class LibraryUnusable(BackendUnavailable):
    """The file is no shared library, or the dynamic linker refuses it."""


class LibraryIncomplete(BackendUnavailable):
    """The library lacks functions that every runtime of its kind has."""


class LibraryIsOurs(BackendUnavailable):
    """The library is rknnlite's own for programs in other languages: whoever opened it would open himself."""


class FunctionMissing(RknnError):
    """This version of the library does not have the function that was asked for."""


@dataclass(frozen=True)
class Search:
    """Where a library is looked for: its file names, the environment variable that names one, what to do."""

    names: tuple[str, ...]
    variable: str
    remedy: str
    directories: tuple[str, ...] = DIRECTORIES

    def find(self, explicit: str | os.PathLike[str] | None = None, configured: str | None = None) -> Path:
        """Path of the library to load; raises LibraryNotFound listing where it was looked for.

        ``configured`` is what the environment variable or the configuration file says.
        """
        named = explicit or configured
        if named:
            path = Path(named)
            for candidate in (path, *(path / name for name in self.names)):
                if is_file(candidate):
                    return candidate
            source = "" if explicit else f" (from {self.variable})"
            raise LibraryNotFound(f"there is no runtime library {path}{source}; {self.remedy}")
        looked = [*filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")), *self.directories]
        for directory in looked:
            for name in self.names:
                if is_file(Path(directory) / name):
                    return Path(directory) / name
        raise LibraryNotFound(f"no {' or '.join(self.names)} in {', '.join(looked)}; {self.remedy}")


class OncePerFile(Generic[T]):
    """Libraries that were loaded, one object per file; a file that was replaced meanwhile is another one."""

    def __init__(self, load: Callable[[Path], T]) -> None:
        """``load`` gets the path without links; what it raises is raised, and it is asked again the next time."""
        self._load = load
        self._loaded: dict[tuple[str, int, int], T] = {}
        self._lock = threading.Lock()

    def of(self, found: Path) -> T:
        """The library of a file."""
        path = Path(os.path.realpath(found))
        status = path.stat()
        key = (str(path), status.st_ino, status.st_mtime_ns)
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = self._load(path)
            return self._loaded[key]


def is_file(path: Path) -> bool:
    """Whether there is a file, as far as this user may look; never raises."""
    try:
        return path.is_file()
    except OSError:
        return False


def open_library(path: Path, needed: Sequence[str], kind: str) -> ctypes.CDLL:
    """Load a library that exports all of ``needed``; ``kind`` says in words what it should be.

    Raises:
        LibraryWrongArchitecture, LibraryUnusable, LibraryIncomplete.
    """
    check_elf(path)
    end = check_trial(path)
    if end:
        raise LibraryUnusable(
            f"{path}: loading it in a process of its own {end}: the file is damaged; copy it again"
        )
    name_crashes()
    try:
        dll: ctypes.CDLL = caller(f"library {path}", "loading the library")(ctypes.CDLL, str(path))
    except (OSError, UnicodeDecodeError) as error:  # what the linker says may hold names of the file
        raise LibraryUnusable(f"{path} cannot be loaded: {error}") from None
    missing = [name for name in needed if not hasattr(dll, name)]
    if missing:
        raise LibraryIncomplete(f"{path} is no {kind}: it does not export {', '.join(missing)}")
    return dll


def refuse_own(dll: ctypes.CDLL, path: Path, marker: str, variable: str) -> None:
    """Raise LibraryIsOurs where a library exports ``marker``, whose text is its version.

    ``variable`` is the one that names a library of this kind.
    """
    if not hasattr(dll, marker):
        return
    text = ctypes.c_char.in_dll(dll, marker)
    version = ctypes.string_at(ctypes.addressof(text)).decode("ascii", "replace") or "of unknown version"
    raise LibraryIsOurs(
        f"{path} is rknnlite's own library {version} for programs in other languages, which computes on the CPU "
        f"reference; use backend cpu, which gives the same numbers, or for an NPU name the board's own library in "
        f"{variable} (is the other one's folder in LD_LIBRARY_PATH?)"
    )


def version_in(path: Path, pattern: bytes) -> str:
    """The first group of ``pattern`` in the file, empty when it is not there."""
    try:
        with open_file(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            match = re.search(pattern, data)
            return match.group(1).decode("ascii", "replace").strip() if match else ""
    except (OSError, ValueError):
        return ""


def check_elf(path: Path) -> None:
    """Whether a file is a whole shared library for this processor; raises LibraryUnusable, LibraryWrongArchitecture."""
    try:
        theirs, ours = read_header(path), of_this_python()
        if not theirs.fits(ours):
            raise LibraryWrongArchitecture(
                f"{path} is for {theirs.processor}, this Python is {ours.processor}; install the library for this processor"
            )
        check_contents(path)
    except OSError as error:
        raise LibraryUnusable(f"{path} cannot be read: {error.strerror}") from None
    except ElfInvalid as error:
        raise LibraryUnusable(f"{path} is {error}") from None
