"""What a device of the rig does: the contract of a driver, the program that calls it, and misbehaviour on command."""

from __future__ import annotations

import abc
import errno
from dataclasses import dataclass, field
from typing import Optional, Protocol

__all__ = ["Driver", "Fault", "Faults", "Program", "refused"]


def refused(number: int) -> OSError:
    """The error of a call, by its ``errno``."""
    return OSError(number, errno.errorcode.get(number, str(number)))


class Program(Protocol):
    """One open device of a program that is waiting for an answer."""

    def peek(self, address: int, size: int) -> bytes:
        """Read its memory."""

    def poke(self, address: int, data: bytes) -> None:
        """Write its memory."""

    def take_fd(self, number: int) -> int:
        """A copy of one of its descriptors; raises OSError where it has no such."""

    def give_fd(self, fd: int, address: int) -> None:
        """Give it a copy of a descriptor of ours, whose number is written at ``address``."""


class Driver(abc.ABC):
    """A kind of device. Errors are OSError with the ``errno`` that the program gets; calls come one at a time.

    Attributes:
        faults: what goes wrong next.
    """

    def __init__(self) -> None:
        self.faults = Faults()

    @abc.abstractmethod
    def opened(self, program: Program) -> None:
        """A program has opened the device."""

    @abc.abstractmethod
    def ioctl(self, program: Program, number: int, argument: bytearray, address: int) -> None:
        """A request; ``argument`` is the structure at ``address`` and is written back as it is left."""

    @abc.abstractmethod
    def mmap(self, program: Program, offset: int, size: int) -> int:
        """The descriptor of the file that is mapped, from its first byte on."""

    @abc.abstractmethod
    def closed(self, program: Program) -> None:
        """The program has closed the device, or has ended."""


@dataclass
class Fault:
    """Something that goes wrong with one kind of call.

    Attributes:
        call: the driver's name for it, e.g. ``SUBMIT``.
        error: the ``errno`` that is answered; 0: nothing is done, and success is told.
        after: how many calls of this kind go well before.
        times: how many go wrong; -1: all that follow.
    """

    call: str
    error: int = 0
    after: int = 0
    times: int = 1


@dataclass
class Faults:
    """Faults to come."""

    waiting: list[Fault] = field(default_factory=list)

    def add(self, fault: Fault) -> None:
        """Let something go wrong."""
        self.waiting.append(fault)

    def due(self, call: str) -> Optional[Fault]:
        """The fault of a call that is being made; it is used up."""
        for fault in self.waiting:
            if fault.call != call:
                continue
            if fault.after:
                fault.after -= 1
                continue
            if fault.times:
                fault.times -= 1
                return fault
        return None

    def lost(self, call: str) -> bool:
        """Whether the call is to be lost; raises OSError where it is to fail."""
        fault = self.due(call)
        if fault is not None and fault.error:
            raise refused(fault.error)
        return fault is not None
