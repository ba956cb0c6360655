"""Things built on first use (helper libraries, host stubs, kernels), kept by the hash of what they are built from.

Several processes may build the same at a time: each writes a file of its own and puts it into place at once. Every
file ends in a checksum of what is before it, which loaders of programs ignore; one that is damaged is built anew.

Whoever uses an entry holds a shared lock on its folder until the process ends. When something new is kept, entries
that nobody holds and nobody has used for a month go; in a cache of many entries, those not used for a day.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Optional, Union

from rknnlite import config
from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.log import logger

__all__ = [
    "build",
    "build_library",
    "cache_dir",
    "check_private",
    "compiler",
    "fetch",
    "for_this_processor",
    "is_kept",
    "keep",
    "kept_library",
    "make_private",
    "system",
    "writable_by_others",
]

_TUNED = {"x86_64": "-march=native", "aarch64": "-mcpu=native", "armv7l": "-mcpu=native"}
_TIME_LIMIT = 300.0
"""Seconds: the native engine takes two minutes on a small core that has other work."""
_CHECKSUM_SIZE = hashlib.sha256().digest_size
_HEX = frozenset("0123456789abcdef")
_DAY = 86400.0
_UNUSED, _UNUSED_OF_MANY = 30 * _DAY, _DAY
_MANY = 64
_held: dict[Path, int] = {}  # entries that this process uses: descriptors with the lock
_holding = threading.Lock()


def cache_dir(lasting: bool = False) -> Path:
    """``RKNNLITE_CACHE``, else ``rknnlite`` in the XDG cache folder; made, and for this user alone.

    Where nothing can be written there (read-only disk, no home), a temporary folder serves this process.

    Raises ParamInvalid when others could put files there: what lies in it is executed; and, for what is to be there
    when this process has ended (``lasting``), where only a temporary folder could be had.
    """
    try:
        folder = config.cache_folder()
        make_private(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(f"{folder} is not writable")
    except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
        if lasting:
            raise ParamInvalid(f"nothing can be kept: {error}; name a folder in RKNNLITE_CACHE") from None
        return _temporary(str(error), os.getpid())
    check_private(folder)
    return folder


def make_private(folder: Path) -> None:
    """Make a folder, and those that it lies in, for this user alone whatever the umask is. Raises OSError."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)  # with ``parents`` the others would have the mode of the umask
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def check_private(folder: Path) -> None:
    """Raise ParamInvalid where others could put files into a folder, or another folder into its place: what is there is run."""
    if writable_by_others(folder):
        place, remedy = folder, "run chmod go-w on it"
    else:
        whole = Path(os.path.realpath(folder))  # Path.resolve of Python 3.9 leaves a circle behind
        open_to_all = [place for place in whole.parents if _replaceable(place)]
        if not open_to_all:
            return
        place, remedy = open_to_all[0], "run chmod o-w or chmod +t on it"
    raise ParamInvalid(
        f"{place} can be written by other users, and programs are kept in {'it' if place == folder else folder}; {remedy}, or "
        "name another folder in RKNNLITE_CACHE"
    )


def _replaceable(place: Path) -> bool:
    """Whether anybody may rename what lies in a folder: all may write there, and no sticky bit keeps what is another's."""
    mode = place.stat().st_mode
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX


@functools.lru_cache(maxsize=1)
def _temporary(why: str, owner: int) -> Path:
    """A folder that goes away with the process ``owner``, which is this one."""
    try:
        folder = tempfile.mkdtemp(prefix="rknnlite-")
    except OSError as error:
        raise ParamInvalid(f"nothing can be built: {why}; {error}; name a folder in RKNNLITE_CACHE") from None
    atexit.register(_remove, folder, owner)
    logger.warning("what is built cannot be kept: %s; name a folder in RKNNLITE_CACHE", why)
    return Path(folder)


def _remove(folder: str, owner: int) -> None:
    if owner == os.getpid():  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)


def writable_by_others(path: Path) -> bool:
    """Whether anybody but root and this user owns or may write a file or folder."""
    status = path.stat()
    return status.st_uid not in (0, os.geteuid()) or bool(status.st_mode & 0o022)


def keep(file: Path, content: bytes) -> None:
    """Put a file into the cache, whole or not at all. Raises OSError."""
    while True:
        make_private(file.parent)
        check_private(file.parent)
        _hold(file.parent)
        if file.parent.is_dir():  # else somebody pruned it just before it was held
            break
    from rknnlite.files.writing import writing  # most things are there already

    with writing(file, mode=0o700) as stored:
        stored.write(content)
        stored.write(_checksum(content))
    _prune(file.parent.parent)


def is_kept(file: Path) -> bool:
    """Whether a file lies in an entry of the cache, beside which more may be kept."""
    try:
        return file.parent.parent == cache_dir()
    except ParamInvalid:
        return False


def fetch(file: Path) -> Optional[bytes]:
    """What ``keep`` put there; None when there is nothing, or something that was damaged since."""
    _hold(file.parent)
    try:
        if writable_by_others(file.parent):  # its checksum tells of damage, not of who wrote it
            return None
        with file.open("rb", buffering=0) as stored:
            size = os.fstat(stored.fileno()).st_size - _CHECKSUM_SIZE
            content, checksum = stored.read(max(0, size)), stored.read()
    except OSError:
        return None
    return content if checksum == _checksum(content) else None


def _hold(entry: Path) -> None:
    """Mark an entry as used now, and keep others from pruning it while this process lives."""
    with _holding, contextlib.suppress(OSError):  # none yet; a cache that is read only
        if entry not in _held or not _is(entry, _held[entry]):
            folder = os.open(entry, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
            fcntl.flock(folder, fcntl.LOCK_SH)
            before = _held.pop(entry, None)
            _held[entry] = folder
            if before is not None:
                os.close(before)
        os.utime(entry)


def _is(entry: Path, folder: int) -> bool:
    """Whether the descriptor is that of this folder, which may have been removed and made anew."""
    return os.path.samestat(entry.stat(), os.fstat(folder))


def _prune(cache: Path) -> None:
    """Remove entries that nobody holds and nobody has used for long."""
    with contextlib.suppress(OSError):
        entries = [
            entry for entry in cache.iterdir() if len(entry.name) == 32 and _HEX.issuperset(entry.name)
        ]
        oldest = time.time() - (_UNUSED_OF_MANY if len(entries) > _MANY else _UNUSED)
        for entry in entries:
            if not entry.is_symlink() and entry.stat().st_mtime < oldest:
                _remove_unheld(entry, oldest)


def _remove_unheld(entry: Path, oldest: float) -> None:
    with contextlib.suppress(OSError):
        folder = os.open(entry, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(folder).st_mtime < oldest:  # nobody came in between
                shutil.rmtree(entry, ignore_errors=True)
        finally:
            os.close(folder)


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def build(name: str, files: Mapping[str, bytes], command: Sequence[str], purpose: str) -> Path:
    """The result of a compiler run, from the cache when the same was built before.

    Args:
        name: file name of the result.
        files: what the command reads, by file name.
        command: compiler and arguments; runs in a folder that holds ``files``. ``{out}`` is the result.
        purpose: what it is for, for messages.

    Raises:
        BackendUnavailable: there is no such compiler. ParamInvalid: it fails; the text holds its last lines.
    """
    compiler = shutil.which(command[0])
    target = _place(name, files, command)
    if fetch(target) is not None:
        return target
    if compiler is None:
        raise BackendUnavailable(f"{purpose} needs the compiler {command[0]}, which is not installed")
    from rknnlite.files.writing import write_file

    try:
        with tempfile.TemporaryDirectory() as folder:
            for file, content in files.items():
                write_file(Path(folder, file), content)
            _run([compiler, *(a.replace("{out}", name) for a in command[1:])], folder, purpose)
            keep(target, Path(folder, name).read_bytes())
    except OSError as error:
        raise ParamInvalid(f"{purpose} cannot be built in {target.parent}: {error}") from None
    return target


def _place(name: str, files: Mapping[str, bytes], command: Sequence[str]) -> Path:
    """Where a result is kept."""
    digest = hashlib.sha256(repr((name, tuple(command), shutil.which(command[0]), *system())).encode())
    for file, content in sorted(files.items()):
        digest.update(f"\0{file}\0{len(content)}\0".encode() + content)
    return cache_dir() / digest.hexdigest()[:32] / name


def compiler() -> str:
    """What compiles C: ``$CC``, else ``cc``."""
    return os.environ.get("CC") or "cc"


def system() -> tuple[str, int, str]:
    """What a result runs on: homes and caches are shared between machines and containers."""
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):  # not GNU's
        libc = ""
    from rknnlite.native.processors import machine  # as in for_this_processor

    return machine(), sys.maxsize, libc


def for_this_processor() -> list[str]:
    """What a compiler is told for the processor of this machine alone; another one has an entry of its own in the cache."""
    from rknnlite.native.processors import (
        instructions,  # where something is built, not in every process that looks
    )

    tuned = _TUNED.get(system()[0])
    return [f"-DPROCESSOR={instructions()}", *([tuned] if tuned else [])]


def build_library(name: str, source: Union[Path, Sequence[Path]], purpose: str, *flags: str) -> Path:
    """A shared library from C files and headers, by ``$CC`` or ``cc``; raises as ``build`` does."""
    return build(name, *_library(source, flags), purpose)


def kept_library(name: str, source: Union[Path, Sequence[Path]], *flags: str) -> Optional[Path]:
    """What ``build_library`` has built and kept; None where it would have to build. Raises ParamInvalid as ``cache_dir``."""
    target = _place(name, *_library(source, flags))
    return target if fetch(target) is not None else None


def _library(source: Union[Path, Sequence[Path]], flags: Sequence[str]) -> tuple[dict[str, bytes], list[str]]:
    """Files and the command."""
    files = [source] if isinstance(source, Path) else source
    compiled = [file.name for file in files if file.suffix == ".c"]
    command = [compiler(), "-shared", "-fPIC", "-O2", "-pthread", *flags, "-o", "{out}", *compiled, "-ldl"]
    return {file.name: file.read_bytes() for file in files}, command


def _run(command: Sequence[str], folder: str, purpose: str) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIME_LIMIT,
            check=False,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise ParamInvalid(f"{purpose}: {command[0]} did not finish within {_TIME_LIMIT:.0f} s") from None
    if done.returncode:
        tail = "\n".join(done.stdout.strip().splitlines()[-15:])
        raise ParamInvalid(f"{purpose}: {Path(command[0]).name} ended with status {done.returncode}:\n{tail}")
