"""Buffers and handles of a DRM driver, and the requests that all such drivers answer."""

from __future__ import annotations

import abc
import ctypes as ct
import enum
import errno
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray
from rknnlite_npu.machine_transport import MachineTransport
from rknnlite_npu.transport import DeviceMemory

from rknnlite.errors import RknnError

from .driver import Driver, Program, refused

__all__ = ["COMMAND_BASE", "PAGE", "Buffer", "GemDriver", "Handles", "as_structure"]

PAGE = 4096
COMMAND_BASE = 0x40
_DRM = ord("d")
_VERSION, _UNIQUE, _SET_VERSION, _GEM_CLOSE, _FLINK, _TO_FD, _FROM_FD = (
    0x00,
    0x01,
    0x07,
    0x09,
    0x0A,
    0x2D,
    0x2E,
)
_OBJECTS = 0xFFFF_FF80_0000_0000  # addresses of the kernel's own, which programs hand back

Structure = TypeVar("Structure", bound=ct.Structure)


@dataclass
class Buffer:
    """One buffer, however many handles lead to it."""

    number: int
    memory: DeviceMemory

    @property
    def obj_addr(self) -> int:
        """The kernel's own name for it."""
        return _OBJECTS + self.number * PAGE

    @property
    def file(self) -> tuple[int, int]:
        """Which file it is."""
        status = os.fstat(self.memory.fd)
        return status.st_dev, status.st_ino


@dataclass
class Handles:
    """The buffers of one open device."""

    by_number: dict[int, Buffer] = field(default_factory=dict)
    last: int = 0

    def add(self, buffer: Buffer) -> int:
        """The handle of a buffer, which may be known."""
        for handle, known in self.by_number.items():
            if known is buffer:
                return handle
        self.last += 1
        self.by_number[self.last] = buffer
        return self.last

    def of(self, handle: int) -> Buffer:
        """Raises OSError for a number that is none."""
        if handle not in self.by_number:
            raise refused(errno.EINVAL)
        return self.by_number[handle]


def as_structure(kind: type[Structure], argument: bytearray) -> Structure:
    """An argument as a structure, in place."""
    if len(argument) < ct.sizeof(kind):
        raise refused(errno.EINVAL)
    return kind.from_buffer(argument)


class GemDriver(Driver):
    """Attributes:
    driver, version: what it calls itself.
    jobs: how many were done; ``refusals``: what the machine said of those that it did not do.
    """

    driver: ClassVar[str]
    version: tuple[int, int, int]
    requests: ClassVar[type[enum.IntEnum]]
    """Numbers of its own requests, counted from ``COMMAND_BASE``."""

    def __init__(self, say: Callable[[str], object] = lambda line: None) -> None:
        super().__init__()
        self._programs: dict[Program, Handles] = {}
        self._buffers = 0
        self._say = say
        self.jobs = 0
        self.refusals: list[str] = []

    @abc.abstractmethod
    def transport_of(self, program: Program) -> MachineTransport:
        """Where the buffers of an open device lie."""

    @abc.abstractmethod
    def call(self, program: Program, request: enum.IntEnum, argument: bytearray) -> None:
        """One of ``requests``."""

    # -- devices ------------------------------------------------------------------------------------------

    def opened(self, program: Program) -> None:
        self._programs[program] = Handles()

    def closed(self, program: Program) -> None:
        handles = self._programs.pop(program, Handles())
        for buffer in handles.by_number.values():
            self._let_go(buffer)

    def mmap(self, program: Program, offset: int, size: int) -> int:
        buffer = self._programs[program].of(offset // PAGE)
        if size > -(-buffer.memory.size // PAGE) * PAGE:
            raise refused(errno.EINVAL)
        return buffer.memory.fd

    def ioctl(self, program: Program, number: int, argument: bytearray, address: int) -> None:
        kind, command = number >> 8 & 0xFF, number & 0xFF
        if kind != _DRM:
            raise refused(errno.ENOTTY)
        if command < COMMAND_BASE:
            self._drm(program, command, argument, address)
            return
        try:
            request = self.requests(command - COMMAND_BASE)
        except ValueError:
            raise refused(errno.EINVAL) from None
        if not self.faults.lost(request.name):
            self.call(program, request, argument)

    # -- buffers ------------------------------------------------------------------------------------------

    def new_buffer(self, program: Program, size: int) -> tuple[int, Buffer]:
        """Whole pages of zeros, and their handle."""
        if not 0 < size < 1 << 32:
            raise refused(errno.EINVAL)
        try:
            memory = self.transport_of(program).allocate(-(-size // PAGE) * PAGE)
        except RknnError:
            raise refused(errno.ENOMEM) from None
        buffer = self._buffer(memory)
        return self._programs[program].add(buffer), buffer

    def _buffer(self, memory: DeviceMemory) -> Buffer:
        self._buffers += 1
        return Buffer(self._buffers, memory)

    def memory_now(self, program: Program) -> list[tuple[DeviceMemory, NDArray[np.uint8]]]:
        """What lies in the buffers of an open device."""
        found = self._programs[program].by_number.values()
        return [(buffer.memory, buffer.memory.mapped.copy()) for buffer in found]

    @property
    def held(self) -> int:
        """Handles of all open devices."""
        return sum(len(handles.by_number) for handles in self._programs.values())

    def handles_of(self, program: Program) -> Handles:
        """Those of an open device."""
        return self._programs[program]

    def drop(self, program: Program, handle: int) -> None:
        """A handle that is not needed any more."""
        handles = self._programs[program]
        buffer = handles.of(handle)
        del handles.by_number[handle]
        self._let_go(buffer)

    def _let_go(self, buffer: Buffer) -> None:
        """Free a buffer that no handle leads to any more."""
        if not any(buffer in handles.by_number.values() for handles in self._programs.values()):
            buffer.memory.close()

    def imported(self, program: Program, fd: int) -> Buffer:
        """The buffer behind a descriptor, which may be known."""
        status = os.fstat(fd)
        for handles in self._programs.values():
            for buffer in handles.by_number.values():
                if buffer.file == (status.st_dev, status.st_ino):
                    os.close(fd)
                    return buffer
        try:
            memory = self.transport_of(program).import_fd(fd, status.st_size)
        except RknnError:
            os.close(fd)
            raise refused(errno.EINVAL) from None
        return self._buffer(memory)

    # -- DRM ----------------------------------------------------------------------------------------------

    def _drm(self, program: Program, command: int, argument: bytearray, address: int) -> None:
        handles = self._programs[program]
        numbers = memoryview(argument).cast("I") if len(argument) % 4 == 0 else memoryview(b"")
        if command == _VERSION:
            self._version(program, argument)
        elif command == _UNIQUE:
            argument[: len(argument) // 2] = bytes(len(argument) // 2)
        elif command == _GEM_CLOSE:
            self.drop(program, numbers[0])
        elif command == _FLINK:
            numbers[1] = handles.of(numbers[0]).number
        elif command == _TO_FD:
            program.give_fd(handles.of(numbers[0]).memory.fd, address + 8)
            argument[8:12] = program.peek(address + 8, 4)
        elif command == _FROM_FD:
            numbers[0] = handles.add(self.imported(program, program.take_fd(numbers[2])))
        elif command != _SET_VERSION:
            raise refused(errno.EINVAL)

    def _version(self, program: Program, argument: bytearray) -> None:
        """Three numbers, then three texts, each with the room that the program has for it."""
        words = memoryview(argument).cast("Q" if len(argument) == 64 else "I")
        first = 2 if len(argument) == 64 else 3
        memoryview(argument)[:12].cast("I")[:] = memoryview(struct.pack("3I", *self.version)).cast("I")
        name = self.driver.encode()
        for place, text in enumerate((name, b"20240828", name.upper() + b" driver")):
            room, where = words[first + 2 * place], words[first + 2 * place + 1]
            if where and room:
                program.poke(where, text[:room])
            words[first + 2 * place] = len(text)

    # -- jobs ---------------------------------------------------------------------------------------------

    def refuse(self, line: str, error: int) -> NoReturn:
        """Keep why a job is not done."""
        self.refusals.append(line)
        self._say(f"refused: {line}")
        raise refused(error) from None
