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

from ..errors import OutOfMemory
from .reading import check_folder

__all__ = ["DiskFull", "GrowingFile", "write_array", "write_file", "write_text", "writing"]

StrPath = Union[str, "os.PathLike[str]"]
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_GROWING = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_PRIVATE = 0o600
_MODES = 0o777


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFull(OutOfMemory, OSError):
    """There is no room for a file: no space, no quota, or a limit of file sizes. The old file is as it was."""

    def __str__(self) -> str:
        return f"{self.filename} cannot be written: {self.strerror}"


@contextlib.contextmanager
def writing(path: StrPath, mode: int = 0o666, lasting: bool = True) -> Iterator[BinaryIO]:
    """A binary file to write in a ``with`` block; it is at ``path`` once the block ends well, and nothing is left else.

    A file that was there keeps its permissions and, where that is allowed, its owner. Pipes and character devices
    (``/dev/stdout``, ``/dev/null``) cannot be replaced and are written to.

    Args:
        mode: permissions of a new file, less the umask.
        lasting: the file survives a loss of power; False saves the time for what is made anew easily.

    Raises:
        OSError: it cannot be written; ``filename`` is ``path``, not the temporary file. DiskFull: there is no room for it;
            the file that was there is as it was.
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
        if error.errno == errno.ENOENT:
            check_folder(target)
        if error.errno in _NO_ROOM:
            raise _disk_full(error.errno, target) from None
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


class GrowingFile:
    """A file that arrives in pieces, also over the lives of several programs; ``finish`` puts it into place at once.

    It lies in a folder of this user's alone, and has one writer at a time, who holds a lock on it.

    Raises:
        BlockingIOError: somebody else writes it now. OSError: it cannot be written.
    """

    def __init__(self, path: StrPath) -> None:
        import fcntl  # not on every system

        self._path = Path(path)
        while True:
            self._handle = os.open(self._path, _GROWING, _PRIVATE)
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(self._handle), self._path.lstat()):
                    return
            except FileNotFoundError:
                pass
            except BaseException:
                self.close()
                raise
            self.close()  # it was finished or removed just before the lock was had

    @property
    def size(self) -> int:
        """Bytes that are there."""
        return os.fstat(self._handle).st_size

    def append(self, data: bytes) -> None:
        """Put bytes behind those that are there; raises OSError, and then some of them may be there."""
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._handle, left) :]
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise _disk_full(error.errno, self._path) from None
            raise

    def finish(self, target: StrPath) -> None:
        """Put the file into place, for good: also after a loss of power it is there whole or not at all."""
        os.fsync(self._handle)
        self._path.replace(target)
        _sync_folder(Path(target).parent)

    def discard(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file, which stays as it is; may be called again."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def _disk_full(number: int, path: Path) -> DiskFull:
    return DiskFull(number, f"{os.strerror(number)}; make room, or write to another disk", str(path))


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
