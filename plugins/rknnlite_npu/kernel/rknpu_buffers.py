"""Buffers of the vendor's kernels: handles of a DRM device, or, on ``/dev/rknpu``, dma-bufs."""

from __future__ import annotations

import abc
import contextlib
import ctypes as ct
import errno
import mmap
import os
from dataclasses import dataclass

from rknnlite.errors import DeviceUnavailable, ParamInvalid, RknnError, RunTimeout

from .. import rknpu_abi as abi
from .device import DriverVersion, KernelDevice, failure

__all__ = ["Buffer", "DrmBuffers", "HeapBuffers", "RknpuBuffers", "RknpuNode"]


class RknpuNode(KernelDevice):
    """``/dev/rknpu``, of kernels without an address space of the NPU's own (RV1103, RV1106)."""

    def _version(self) -> DriverVersion:
        asked = abi.UserAction(flags=abi.Action.GET_DRV_VERSION)
        self.request(
            abi.request(abi.Command.ACTION, ct.sizeof(asked), drm=False), asked, "ACTION GET_DRV_VERSION"
        )
        number = int(asked.value)
        return DriverVersion("rknpu", number // 10000, number // 100 % 100, number % 100)


@dataclass(eq=False)
class Buffer:
    """One buffer of the kernel's, whoever shares it.

    Attributes:
        users: pieces of memory in it.
        cached: whether it has caches to sync.
    """

    handle: int
    obj_addr: int
    address: int
    size: int
    cached: bool = True
    users: int = 0


class RknpuBuffers(abc.ABC):
    """The requests of one open device."""

    drm = True

    def __init__(self, device: KernelDevice, revision: abi.Revision) -> None:
        self.device, self.revision = device, revision

    def request(self, command: abi.Command, argument: ct.Structure, what: str = "") -> None:
        """Raises what ``KernelDevice.request`` raises."""
        size = ct.sizeof(self.revision.create if command is abi.Command.MEM_CREATE else argument)
        self.device.request(abi.request(command, size, self.drm), argument, what or command.name)

    def create(self, size: int, flags: abi.MemFlag) -> Buffer:
        """A new buffer of whole pages. Raises OutOfMemory."""
        made = abi.MemCreate(
            flags=flags & self.revision.flags, size=-(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        )
        self.request(abi.Command.MEM_CREATE, made, f"MEM_CREATE of {size} bytes")
        if not made.handle:
            raise failure(
                OSError(errno.ENOMEM, "no buffer came back"),
                f"{self.device.path}: MEM_CREATE of {size} bytes",
            )
        return self._made(made, bool(flags & abi.MemFlag.CACHEABLE))

    def _made(self, made: abi.MemCreate, cached: bool = True) -> Buffer:
        return Buffer(made.handle, made.obj_addr, made.dma_addr, made.size, cached)

    @abc.abstractmethod
    def imported(self, fd: int, size: int) -> Buffer:
        """The buffer behind a dma-buf, which holds ``size`` bytes. Raises ParamInvalid."""

    @abc.abstractmethod
    def mapping(self, buffer: Buffer, size: int) -> mmap.mmap:
        """Its first ``size`` bytes."""

    @abc.abstractmethod
    def descriptor(self, buffer: Buffer) -> int:
        """A dma-buf of it for other devices, which is the caller's to close; -1: none."""

    def destroy(self, buffer: Buffer) -> None:
        """Give it back; does nothing where the device is not usable."""
        if self.device.usable:
            asked = abi.MemDestroy(handle=buffer.handle, obj_addr=buffer.obj_addr)
            with contextlib.suppress(RknnError):  # the kernel frees all when the device is closed
                self.request(abi.Command.MEM_DESTROY, asked)


class DrmBuffers(RknpuBuffers):
    """Of ``/dev/dri/*``."""

    def imported(self, fd: int, size: int) -> Buffer:
        made = abi.MemCreate(handle=self.device.handle_of(fd), size=size)
        try:
            self.request(abi.Command.MEM_CREATE, made, f"MEM_CREATE of file descriptor {fd}")
        except RknnError:
            self.device.free(made.handle)
            raise
        return self._made(made, self._has_caches(made))

    def _has_caches(self, made: abi.MemCreate) -> bool:
        """Whether it can be synced: nothing else tells how its maker asked for it."""
        asked = abi.MemSync(flags=abi.SyncFlag.TO_DEVICE, obj_addr=made.obj_addr, size=made.size)
        try:
            self.request(abi.Command.MEM_SYNC, asked)
        except (DeviceUnavailable, RunTimeout):
            raise
        except RknnError:
            return False
        return True

    def mapping(self, buffer: Buffer, size: int) -> mmap.mmap:
        where = abi.MemMap(handle=buffer.handle)
        self.request(abi.Command.MEM_MAP, where)
        return self.device.map(size, where.offset)

    def descriptor(self, buffer: Buffer) -> int:
        return self.device.descriptor_of(buffer.handle)


class HeapBuffers(RknpuBuffers):
    """Of ``/dev/rknpu``: a handle is the descriptor of a dma-buf, which this process closes; memory is in one piece."""

    drm = False

    def create(self, size: int, flags: abi.MemFlag) -> Buffer:
        found = super().create(size, flags & ~abi.MemFlag.NON_CONTIGUOUS)
        found.cached = True
        return found

    def imported(self, fd: int, size: int) -> Buffer:
        copy = os.dup(fd)
        try:
            made = abi.MemCreate(handle=copy, size=size)
            self.request(abi.Command.MEM_CREATE, made, f"MEM_CREATE of file descriptor {fd}")
        except RknnError as error:
            os.close(copy)
            raise ParamInvalid(
                f"file descriptor {fd} is no dma-buf that this driver takes: {error}"
            ) from None
        return self._made(made)

    def mapping(self, buffer: Buffer, size: int) -> mmap.mmap:
        try:
            return mmap.mmap(buffer.handle, size)
        except (OSError, ValueError) as error:
            raise ParamInvalid(
                f"{self.device.path}: {size} bytes of a dma-buf cannot be mapped: {error}"
            ) from None

    def descriptor(self, buffer: Buffer) -> int:
        return os.dup(buffer.handle)

    def destroy(self, buffer: Buffer) -> None:
        super().destroy(buffer)
        with contextlib.suppress(OSError):
            os.close(buffer.handle)
