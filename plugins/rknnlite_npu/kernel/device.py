"""A device of the kernel that is open: its driver, its requests, and what goes wrong with them."""

from __future__ import annotations

import contextlib
import ctypes as ct
import errno
import fcntl
import mmap
import os
import weakref
from typing import NamedTuple

from rknnlite.errors import DeviceUnavailable, OutOfMemory, ParamInvalid, RknnError, RunTimeout
from rknnlite.native.forks import Owner

__all__ = ["DriverVersion", "KernelDevice", "drm_request", "failure"]

_DRM = ord("d")
_READ, _WRITE = 2, 1
_TEXT = 64  # bytes of a name
_GONE = (errno.ENODEV, errno.ENXIO, errno.EIO, errno.ESHUTDOWN)
_LATE = (errno.ETIMEDOUT, errno.ETIME, errno.EBUSY)
_DENIED = (errno.EACCES, errno.EPERM)


class _Version(ct.Structure):
    """DRM_IOCTL_VERSION: numbers, and texts with the room that there is for each."""

    _fields_ = [
        ("major", ct.c_int),
        ("minor", ct.c_int),
        ("patch", ct.c_int),
        ("name_length", ct.c_size_t),
        ("name", ct.c_void_p),
        ("date_length", ct.c_size_t),
        ("date", ct.c_void_p),
        ("description_length", ct.c_size_t),
        ("description", ct.c_void_p),
    ]


class _GemClose(ct.Structure):
    _fields_ = [("handle", ct.c_uint32), ("pad", ct.c_uint32)]


class _Prime(ct.Structure):
    _fields_ = [("handle", ct.c_uint32), ("flags", ct.c_uint32), ("fd", ct.c_int32)]


class DriverVersion(NamedTuple):
    """What a driver calls itself, e.g. ``rocket 1.0.0``."""

    name: str
    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.name} {self.major}.{self.minor}.{self.patch}"


def drm_request(number: int, structure: type[ct.Structure], reads: bool = True) -> int:
    """The number that ``ioctl`` takes; ``reads``: the kernel writes an answer into the structure.

    Examples:
        >>> hex(drm_request(0x09, _GemClose, reads=False))
        '0x40086409'
    """
    way = _WRITE | (_READ if reads else 0)
    return way << 30 | ct.sizeof(structure) << 16 | _DRM << 8 | number


_VERSION = drm_request(0x00, _Version)
_GEM_CLOSE = drm_request(0x09, _GemClose, reads=False)
_TO_FD = drm_request(0x2D, _Prime)
_FROM_FD = drm_request(0x2E, _Prime)


def failure(error: OSError, doing: str) -> RknnError:
    """The error of a request, by its ``errno``; ``doing`` says which, e.g. ``/dev/accel/accel0: SUBMIT of 12 tasks``."""
    why = f"{doing}: {error.strerror or error}"
    if error.errno == errno.ENOMEM:
        return OutOfMemory(f"{why}; close other models, or free memory")
    if error.errno in _GONE:
        return DeviceUnavailable(
            f"{why}; the device has gone or its driver has failed: see dmesg, then open the model again"
        )
    if error.errno in _LATE:
        return RunTimeout(f"{why}; see dmesg, then run again")
    if error.errno in _DENIED:
        return DeviceUnavailable(f"{why}; {_remedy(doing.partition(':')[0])}")
    return RknnError(f"{why} (errno {error.errno}); the driver does not take this request: see dmesg")


def _remedy(path: str) -> str:
    """How a user gets at a device."""
    return f"add your user to the group of {path} (usermod -aG render $USER, then log in again), see rknnlite doctor"


class KernelDevice:
    """An open device of one context. Errors of its requests are typed; interrupted ones begin again.

    Attributes:
        path: e.g. ``/dev/accel/accel0``.
        driver: its name and version.
    """

    def __init__(self, path: str) -> None:
        """Raises DeviceUnavailable."""
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise (
                failure(error, path)
                if error.errno in _DENIED
                else DeviceUnavailable(f"{path}: {error.strerror}; see rknnlite doctor")
            ) from None
        self._owner = Owner()
        self._close = weakref.finalize(self, os.close, self._fd)
        try:
            self.driver = self._version()
        except BaseException:
            self.close()
            raise

    def _version(self) -> DriverVersion:
        name = ct.create_string_buffer(_TEXT)
        asked = _Version(name_length=_TEXT - 1, name=ct.addressof(name))
        self.request(_VERSION, asked, "VERSION")
        return DriverVersion(name.value.decode("ascii", "replace"), asked.major, asked.minor, asked.patch)

    def request(self, number: int, argument: ct.Structure, name: str) -> None:
        """Make a request; ``argument`` holds the answer. Raises what ``failure`` returns, ContextInvalid behind a fork."""
        self._owner.check(self.path)
        while True:
            try:
                fcntl.ioctl(self._fd, number, argument)
                return
            except InterruptedError:
                continue
            except OSError as error:
                raise failure(error, f"{self.path}: {name}") from None

    def map(self, size: int, offset: int) -> mmap.mmap:
        """Map a buffer into this process."""
        self._owner.check(self.path)
        try:
            return mmap.mmap(self._fd, size, offset=offset)
        except OSError as error:
            raise failure(error, f"{self.path}: mmap of {size} bytes") from None

    @property
    def usable(self) -> bool:
        """Whether it is open, and this process's."""
        return self._close.alive and self._owner.is_here

    def free(self, handle: int) -> None:
        """Give a buffer back; does nothing where the device is not usable."""
        if self.usable:
            with contextlib.suppress(RknnError):  # the kernel frees all when the device is closed
                self.request(_GEM_CLOSE, _GemClose(handle=handle), "GEM_CLOSE")

    def descriptor_of(self, handle: int) -> int:
        """A buffer as a dma-buf, for other devices and processes; -1 where the driver has none."""
        asked = _Prime(handle=handle, flags=os.O_RDWR | os.O_CLOEXEC, fd=-1)
        try:
            self.request(_TO_FD, asked, "PRIME_HANDLE_TO_FD")
        except RknnError:
            return -1
        return int(asked.fd)

    def handle_of(self, fd: int) -> int:
        """The handle of a dma-buf. Raises ParamInvalid for a descriptor that is none, or that the driver does not take."""
        asked = _Prime(fd=fd)
        try:
            self.request(_FROM_FD, asked, "PRIME_FD_TO_HANDLE")
        except RknnError as error:
            raise ParamInvalid(
                f"file descriptor {fd} is no dma-buf that this driver takes: {error}"
            ) from None
        return int(asked.handle)

    def close(self) -> None:
        """Close it, with all its buffers; may be called again."""
        self._close()
