"""Reading files: the one place that opens what a path names. A file has a size, which is known before a byte is read.

Devices, pipes and sockets are refused: opening one may wait for ever, and reading it may not end. So is what is larger than
the memory, and what has other bytes than its size says, as files of /proc have, and those that somebody is writing.

Mapped files are read when they are touched.

A file that is cut while it is mapped ends the process (SIGBUS) as soon as a byte behind its new end is touched, and one
that is written anew in place gives the bytes of another model. So what identifies the file is remembered, and ``check``
is called before many bytes are read: once for the graph of a shape, once for a turn of a language model. A file that
changes between the check and the last byte read is not noticed in time; only replacing files by rename is safe. A file
that was replaced by rename, or removed, stays readable as it was for whoever has mapped it.
"""

from __future__ import annotations

import contextlib
import errno
import io
import mmap
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, Optional

from ..errors import ModelInvalid, ParamInvalid, visible

__all__ = [
    "MappedFile",
    "check_file",
    "check_folder",
    "descriptor_size",
    "is_pipe",
    "is_stream",
    "open_file",
    "read_bytes",
    "read_text",
    "read_yaml",
    "with_remedy",
]

_NO_FILE = "it is a pipe, a socket or a device; give a file"
_REMEDIES = {
    errno.ENOENT: "check its name",
    errno.ENOTDIR: "check its path",
    errno.EISDIR: "give a file",
    errno.EACCES: "give this user the right to read it",
}
_LARGE = 64 << 20  # bytes from which on the memory is asked first


class MappedFile:
    """``data`` are the bytes of a file, ``identity`` what the system says about it: device, inode, size, mtime, ctime.

    Raises OSError, or ValueError for a path that no system takes.
    """

    def __init__(self, path: Path) -> None:
        self._path = os.path.abspath(path)  # noqa: PTH100  links stay as they are
        self._map: Optional[mmap.mmap] = None
        with open_file(path) as file:
            status = os.fstat(file.fileno())
            if status.st_size:
                self._map = mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_READ)
        self._place, self._state = _place(status), _state(status)
        self.identity = (*self._place, *self._state, status.st_ctime_ns)
        self.data = memoryview(self._map if self._map is not None else b"")

    def check(self, label: str) -> None:
        """Raise ModelInvalid when the file was cut or written anew in place since it was mapped."""
        size, time = self._state
        if self._map is None:
            return
        found = self._map.size()  # of the file that is mapped, whatever its name is by now
        why = f"it had {size} bytes, now {found}"
        if found == size:
            try:
                status = os.stat(self._path)  # noqa: PTH116
            except OSError:
                return
            if _place(status) != self._place or _state(status) == (size, time):
                return
            why = "it was written to"
        raise ModelInvalid(
            f"{label}: the file was changed in place while it was in use ({why}); replace a model file by rename "
            "(copy to a new name, then mv), then open it again"
        )

    def want_large_pages(self) -> None:
        """What is read from the disk from now on may lie in pages of megabytes, which are mapped at once.

        Products with numbers that lie in such pages took about a twentieth less time; where memory has none it changes nothing.
        """
        if self._map is not None and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without them
                self._map.madvise(mmap.MADV_HUGEPAGE)

    def drop_pages(self) -> None:
        """Give the pages back to the system; they are read again when they are touched."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


def _place(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _state(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def is_stream(path: Path) -> bool:
    """A pipe, a socket or a device: opening it may wait for ever, reading it may not end."""
    with contextlib.suppress(OSError, ValueError):  # nothing is there, or nothing can be
        mode = path.stat().st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False


def is_pipe(path: Path) -> bool:
    """A pipe or a socket: opening it waits for somebody who writes."""
    return path.is_fifo() or path.is_socket()


def open_file(path: Path) -> BinaryIO:
    """A file to read bytes from; raises OSError, also for what is none, and ValueError for a path that no system takes."""
    try:
        return _opened(path)
    except OSError as error:
        raise with_remedy(error, path) from None


def with_remedy(error: OSError, path: Path) -> OSError:
    """What the system says of a path, and what to do about it."""
    said = error.strerror or str(error)
    remedy = _REMEDIES.get(error.errno or 0) if said == os.strerror(error.errno or 0) else None
    return type(error)(error.errno, f"{said}; {remedy}" if remedy else said, str(path))


def _opened(path: Path) -> BinaryIO:
    check_file(path)  # before it is opened: a device may notice that
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        check_folder(path)
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):  # a folder, or it has come into that place meanwhile
        os.close(handle)  # here: fdopen refuses a folder and leaves it open
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, _NO_FILE, str(path))
    return os.fdopen(handle, "rb")


def read_bytes(path: Path, most: Optional[int] = None) -> bytes:
    """All bytes of a file.

    Args:
        most: bytes that it may have; the memory that there is where that is not said.

    Raises:
        OSError: it cannot be read, is none, is too large, or has other bytes than its size says. ValueError: no path.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        limit, whose = (most, "may be read") if most is not None else (_memory(size), "are free")
        if size > limit:
            raise OSError(errno.EFBIG, f"it has {size} bytes, {limit} {whose}", str(path))
        data = file.read(size + 1)
    if len(data) != size:
        count = f"more than {size}" if len(data) > size else len(data)
        raise OSError(
            errno.EIO,
            f"its size is {size} bytes, but it gave {count}: it is being written, or it is no file on a disk",
            str(path),
        )
    return data


def _memory(size: int) -> int:
    """Bytes that may be read: all, or of a large file as many as are free."""
    if size <= _LARGE:
        return size
    import psutil  # a slow import

    return int(psutil.virtual_memory().available)


def read_text(path: Path) -> str:
    """The UTF-8 text of a file, its lines ended by line feeds. Raises OSError, also for what is none, or ValueError."""
    return io.TextIOWrapper(io.BytesIO(read_bytes(path)), "utf-8").read()


def check_file(path: Path) -> None:
    """Raise OSError for a pipe, a socket or a device."""
    if is_stream(path):
        raise OSError(errno.EINVAL, _NO_FILE, str(path))


def check_folder(path: Path) -> None:
    """Raise FileNotFoundError that names the folder in which a file should be, where there is none."""
    if not path.parent.exists():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {visible(str(path.parent))}", str(path))


def read_yaml(path: Path) -> Any:
    """What a YAML file of our own says: for those of others nothing bounds it. Raises OSError, ValueError, YAMLError."""
    from ruamel.yaml import YAML  # a slow import

    return YAML(typ="safe", pure=True).load(read_text(path))


def descriptor_size(fd: int) -> int:
    """Bytes behind a descriptor: files tell their size, dma-bufs where they end. Raises ParamInvalid."""
    try:
        return os.fstat(fd).st_size or os.lseek(fd, 0, os.SEEK_END)
    except OSError as error:
        raise ParamInvalid(f"file descriptor {fd} cannot be imported: {error.strerror}") from None
