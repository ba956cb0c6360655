"""Where the C library for programs in other languages lies: in the wheel, in Debian's package, or built here.

The library starts the Python that the file ``interpreter`` beside it names; one in ``PREFIX/lib/python3.X`` finds
``PREFIX/bin/python3.X`` by itself. Where it lies such that neither would start this Python, a folder of this Python's
own in the cache holds the library and that file. The folder keeps its name when the library changes.
"""

from __future__ import annotations

import enum
import hashlib
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple, Optional

from rknnlite_backend.library import check_elf, is_file
from rknnlite_programs import buildcache

from rknnlite import config
from rknnlite._version import __version__
from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.files.writing import write_file
from rknnlite.native.processors import machine

from . import recipe
from .recipe import LIBRARY, RKLLM_LIBRARIES

__all__ = [
    "Found",
    "Origin",
    "beside",
    "find",
    "library",
    "own_folder",
    "rkllm_library",
    "rkllm_version",
]

_HERE = Path(__file__).parent
_PREBUILT = _HERE / "lib"
_SYSTEM_PACKAGES, _SYSTEM_LIBRARIES = Path("/usr/lib/python3/dist-packages"), Path("/usr/lib")
_LATEST = tuple(RKLLM_LIBRARIES)[-1]
_LAYOUTS = ((r"1\.1(\.[0-4])?", "1.1.4"), (r"1\.2\.0", "1.2.0"), (r"1\.2\.1b1", "1.2.1b1"), (r"1\.2(\.[1-3])?", "1.2.3"),
            (r"1\.3(\.0)?", "1.3.0"))  # fmt: skip
"""Versions, as a pattern, and the last one with their layout."""
_PURPOSE = f"{LIBRARY} for programs in other languages"
_REMEDY = (
    "install one (apt install gcc libc6-dev), or name it in CC; wheels have the library ready for glibc on x86-64 and "
    "aarch64, Debian's package librknnrt-rknnlite for its own Python"
)


class Origin(enum.Enum):
    """Where a library comes from."""

    PREBUILT = "prebuilt"
    """It came with the wheel."""
    SYSTEM = "system"
    """Debian's package librknnrt-rknnlite."""
    BUILT = "built"
    """Compiled on this machine."""


class Found(NamedTuple):
    """The library's file, and where it comes from."""

    file: Path
    origin: Origin


def library() -> Path:
    """``librknnrt.so`` for this machine, in a folder where it starts this Python.

    Raises:
        BackendUnavailable: it has to be compiled, and there is no compiler.
        ParamInvalid: the compiler fails, or nothing can be kept in the cache.
    """
    return find().file


def find(interpreter_is_named: bool = False) -> Found:
    """As ``library``. ``interpreter_is_named``: RKNNLITE_PYTHON will say what it starts, so it may lie anywhere."""
    system = _of_the_system()
    if system is not None:
        return Found(system, Origin.SYSTEM)
    prebuilt = _prebuilt()
    if prebuilt is None:
        return Found(_put(_built()), Origin.BUILT)
    if interpreter_is_named or _starts_this_python(prebuilt.parent):
        return Found(prebuilt, Origin.PREBUILT)
    return Found(_put(prebuilt, link=True), Origin.PREBUILT)


def beside(found: Found, name: str) -> Path:
    """Another library of ``recipe.LIBRARIES`` in the folder of the one that was found, or below it; put there where it is not.

    Raises as ``library`` does, and BackendUnavailable where Debian's package or the wheel has none.
    """
    room = str(Path(name).parent)
    if found.origin is Origin.BUILT:
        return _put(_built(name), room=room)
    file, there = found.file.parent / name, found.file.resolve().parent / name
    if not is_file(there):
        raise BackendUnavailable(
            f"{there} is not there: {found.file} was installed without it; install rknnlite again"
        )
    return file if is_file(file) and not found.file.is_symlink() else _put(there, link=True, room=room)


def rkllm_library(found: Found, version: Optional[str] = None) -> Path:
    """``librkllmrt.so`` of a version, in a folder of its own below that of the library that was found.

    ``version`` None: what ``RKNNLITE_RKLLM_VERSION`` says, else the latest. Raises as ``beside`` does, and ParamInvalid for a
    version that there is none of.
    """
    return beside(found, RKLLM_LIBRARIES[rkllm_version(version)])


def rkllm_version(named: Optional[str] = None) -> str:
    """The last version with the layout that is asked for; raises ParamInvalid."""
    wanted = named or config.get("rkllm_version") or _LATEST
    layout = next((last for prefix, last in _LAYOUTS if wanted == last or re.fullmatch(prefix, wanted)), None)
    if layout is None:
        raise ParamInvalid(
            f"there is no librkllmrt.so of version {wanted!r} (RKNNLITE_RKLLM_VERSION); there are {', '.join(RKLLM_LIBRARIES)}, "
            "and those between them with the same layout"
        )
    return layout


def own_folder() -> Path:
    """This Python's folder in the cache; made. Raises ParamInvalid where nothing can be kept."""
    if not sys.executable:
        raise BackendUnavailable(
            f"{_PURPOSE} needs to know which Python to start, and this one runs inside another program; "
            "run rknnlite from the command line"
        )
    key = hashlib.sha256(repr((sys.executable, *buildcache.system())).encode()).hexdigest()[:16]
    folder = buildcache.cache_dir(lasting=True) / "librknnrt" / key
    buildcache.make_private(folder)
    for place in (folder.parent, folder):
        buildcache.check_private(place)
    return folder


def _of_the_system() -> Optional[Path]:
    """Debian's library, for Debian's own package under the Python that the library starts."""
    if _SYSTEM_PACKAGES not in _HERE.parents:
        return None
    for file in sorted(_SYSTEM_LIBRARIES.glob(f"*/rknnlite/{LIBRARY}")):
        if _fits(file) and _same_python(_first_line(file.with_name("interpreter"))):
            return file
    return None


def _prebuilt() -> Optional[Path]:
    """The wheel's library for this machine, where it can be loaded, and is made of the sources that lie here."""
    file = _PREBUILT / f"{machine()}-linux-gnu" / LIBRARY
    fits = is_file(file) and _first_line(file.with_name(recipe.MADE_OF)) == recipe.digest() and _fits(file)
    return file if fits else None


def _fits(file: Path) -> bool:
    """Whether this process could load the file, which is not tried: its name is that of the vendor's."""
    try:
        check_elf(file)
    except BackendUnavailable:
        return False
    return recipe.glibc_needed(file) <= _glibc() != (0, 0)


def _glibc() -> tuple[int, int]:
    """Version of this process's glibc; (0, 0) where there is another C library."""
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        return 0, 0
    found = re.fullmatch(r"glibc (\d+)\.(\d+).*", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def can_audit() -> bool:
    """Whether LD_AUDIT leaves a program as fast as it is: before glibc 2.35 each call of a function went through the linker."""
    return _glibc() >= (2, 35)


def _built(name: str = LIBRARY) -> Path:
    own_folder()  # where nothing can be kept there is nothing to compile for
    flags = (*recipe.flags(name), recipe.version_flag(__version__), "-I.")
    try:
        file = Path(name).name
        return buildcache.build_library(file, recipe.files(name), _PURPOSE.replace(LIBRARY, file), *flags)
    except BackendUnavailable as error:
        raise BackendUnavailable(f"{error}; {_REMEDY}") from None


def _starts_this_python(folder: Path) -> bool:
    """Whether a library there starts this Python without a file that says so: the rule of ``server_process.c``."""
    prefix, lib, rest = str(folder).rpartition("/lib/python3")
    python = f"{prefix}/bin/{(lib + rest).split('/')[2]}" if lib else ""
    return not is_file(folder / "interpreter") and _same_python(python, Path(prefix))


def _same_python(python: str, prefix: Optional[Path] = None) -> bool:
    """Whether a program is this Python, packages included: environments are links to one and the same."""
    try:
        inside = (prefix or Path(python).parents[1]).samefile(sys.prefix)
        return inside and Path(python).samefile(sys.executable)
    except (OSError, IndexError):
        return False


def _first_line(file: Path) -> str:
    try:
        return file.read_text("utf-8", "surrogateescape").partition("\n")[0]
    except OSError:
        return ""


def _put(source: Path, link: bool = False, room: str = "") -> Path:
    """Put a library into this Python's folder, or into ``room`` in it; each file is there whole, the one it reads before it."""
    target = own_folder() / room / source.name
    buildcache.make_private(target.parent)
    _keep(target.with_name("interpreter"), os.fsencode(f"{sys.executable}\n"))
    if not link:
        _keep(target, source.read_bytes(), mode=0o700)
    elif not target.is_symlink() or target.readlink() != source:
        new = target.with_name(f".{os.urandom(8).hex()}.part")
        new.symlink_to(source)
        new.replace(target)
    return target


def _keep(file: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file unless it has that content: one that is in use stays as it is."""
    if file.is_symlink() or not is_file(file) or file.read_bytes() != content:
        write_file(file, content, mode)
