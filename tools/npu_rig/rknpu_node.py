"""``/dev/rknpu`` of kernels for RV1103 and RV1106: no DRM device. Handles are descriptors of dma-bufs, memory is in one piece."""

from __future__ import annotations

import ctypes as ct
import errno

from rknnlite_npu.rknpu_abi import (
    Command,
    MemCreate,
    MemCreateOld,
    MemDestroy,
    MemFlag,
    MemSync,
    Submit,
    UserAction,
    request,
)

from .driver import Program, refused
from .gem import Handles, as_structure
from .rknpu import RknpuDriver

__all__ = ["RknpuNodeDriver"]

_STRUCTURES: dict[Command, type[ct.Structure]] = {
    Command.ACTION: UserAction,
    Command.SUBMIT: Submit,
    Command.MEM_CREATE: MemCreateOld,
    Command.MEM_DESTROY: MemDestroy,
    Command.MEM_SYNC: MemSync,
}


class RknpuNodeDriver(RknpuDriver):
    """See ``GemDriver``. As 0.8.2 it knows exactly its own numbers, and does nothing for any other; newer ones look at the command."""

    version = (0, 8, 2)

    def ioctl(self, program: Program, number: int, argument: bytearray, address: int) -> None:
        command = number & 0xFF
        if number >> 8 & 0xFF != ord("r") or command not in _STRUCTURES:
            return
        wanted = request(Command(command), ct.sizeof(_STRUCTURES[Command(command)]), drm=False)
        if self.version < (0, 9, 7) and number != wanted:
            return
        if self.faults.lost(Command(command).name):
            return
        if command == Command.MEM_CREATE:
            self._create_dmabuf(program, argument, address)
        elif command == Command.MEM_DESTROY:
            asked = as_structure(MemDestroy, argument)
            self._object(program, asked.obj_addr)
            self.drop(program, self._handle_of(program, asked.obj_addr))
        else:
            self.call(program, Command(command), argument)

    def _create_dmabuf(self, program: Program, argument: bytearray, address: int) -> None:
        create = as_structure(MemCreate if len(argument) >= ct.sizeof(MemCreate) else MemCreateOld, argument)
        if create.flags & MemFlag.NON_CONTIGUOUS:
            raise refused(errno.EINVAL)
        handles: Handles = self.handles_of(program)
        if create.handle:
            buffer = self.imported(program, program.take_fd(create.handle))
            handles.add(buffer)
        else:
            _, buffer = self.new_buffer(program, create.size)
            program.give_fd(buffer.memory.fd, address)
            create.handle = int.from_bytes(program.peek(address, 4), "little")
        create.size, create.obj_addr, create.dma_addr = (
            buffer.memory.size,
            buffer.obj_addr,
            buffer.memory.address,
        )

    def _handle_of(self, program: Program, obj_addr: int) -> int:
        found = self.handles_of(program).by_number.items()
        return next(number for number, buffer in found if buffer.obj_addr == obj_addr)
