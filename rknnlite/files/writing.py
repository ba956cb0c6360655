"""Writing files: every file of the product is written here, so that none follows a planted link or is left half done.

A file is written under a random name in the folder where it shall lie, and put into place at once. Nobody can foresee
the name, and nothing that exists is opened; a link at the target is replaced, not followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Optional, Union

import numpy as np
from numpy.typing import NDArray

__all__ = ["write_array", "write_file", "write_text", "writing"]

StrPath = Union[str, "os.PathLike[str]"]
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_PRIVATE = 0o600
_MODES = 0o777


@contextlib.contextmanager
def writing(path: StrPath, mode: int = 0o666, lasting: bool = True) -> Iterator[BinaryIO]:
    """A binary file to write in a ``with`` block; it is at ``path`` once the block ends well, and nothing is left else.

    A file that was there keeps its permissions and, where that is allowed, its owner. Pipes and character devices
    (``/dev/stdout``, ``/dev/null``) cannot be replaced and are written to.

    Args:
        mode: permissions of a new file, less the umask.
        lasting: the file survives a loss of power; False saves the time for what is made anew easily.

    Raises:
        OSError: it cannot be written; ``filename`` is ``path``, not the temporary file.
    """
    target = Path(path)
    try:
        old = _replaced(target)
        if old is not None and not stat.S_ISREG(old.st_mode):
            with _existing(target) as file:
                yield file
            return
        partial = target.with_name(f".rknnlite-{os.urandom(8).hex()}.part")
        handle = os.open(partial, _NEW, mode if old is None else _PRIVATE)
        try:
            with open(handle, "wb") as file:  # noqa: PTH123  a descriptor
                yield file
                file.flush()
                if old is not None:
                    _like(handle, old)
                if lasting:
                    os.fsync(handle)
            partial.replace(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        if lasting:
            _sync_folder(target.parent)
    except OSError as error:
        if error.errno is not None:
            error.filename, error.filename2 = str(target), None
        raise


def write_file(path: StrPath, content: bytes, mode: int = 0o666) -> None:
    """Write bytes, see ``writing``."""
    with writing(path, mode) as file:
        file.write(content)


def write_text(path: StrPath, text: str) -> None:
    """Write UTF-8, see ``writing``; what UTF-8 has no bytes for (lone surrogates) comes escaped."""
    write_file(path, text.encode("utf-8", "backslashreplace"))


def write_array(path: StrPath, array: NDArray[Any], lasting: bool = True) -> None:
    """Write a ``.npy`` file, see ``writing``."""
    with writing(path, lasting=lasting) as file:
        np.save(_Sink(file), np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)


class _Sink:
    """Hides that a file is one: numpy would write past it, and then cannot say why that failed."""

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write


def _replaced(target: Path) -> Optional[os.stat_result]:
    """What is at the target: a regular file to replace, or what is written to; None: nothing, or a link to a file."""
    try:
        old = target.lstat()
        if stat.S_ISLNK(old.st_mode):
            old = target.stat()
            if stat.S_ISREG(old.st_mode):
                return None
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if stat.S_ISREG(old.st_mode) and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file there is write-protected", str(target))
    return old


def _existing(target: Path) -> BinaryIO:
    """A pipe or device to write to; a pipe that nobody reads is an error instead of a wait for ever."""
    handle = os.open(target, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    os.set_blocking(handle, True)
    return open(handle, "wb")  # noqa: PTH123  a descriptor


def _like(handle: int, old: os.stat_result) -> None:
    """Owner and permissions of the file that is replaced."""
    mine = os.fstat(handle)
    if (mine.st_uid, mine.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(OSError):  # only root may give a file away
            os.fchown(handle, old.st_uid, old.st_gid)
    os.fchmod(handle, old.st_mode & _MODES)


def _sync_folder(folder: Path) -> None:
    """Make the new name last; not every file system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
