"""The other side of ``preload.c``: a folder with devices in it, and a thread for each open one."""

from __future__ import annotations

import array
import contextlib
import errno
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from .driver import Driver, refused

__all__ = ["Kernel"]

_QUESTION = struct.Struct("<IIQQ")
_ANSWER = struct.Struct("<IiQQ")
_OPEN, _IOCTL, _MMAP = 1, 2, 3
_DONE, _PEEK, _POKE, _TAKE_FD, _GIVE_FD = 1, 2, 3, 4, 5
_READ = 1 << 31  # of a request: the program reads the answer


class Kernel:
    """Serves programs as long as it is open. Use it as a context manager.

    Attributes:
        root: RIG_ROOT of the programs.
        errors: what broke in here, which a program only knows as EIO.
    """

    def __init__(self, devices: Mapping[str, Driver], files: Mapping[str, bytes] | None = None) -> None:
        """Args:
        devices: by path, e.g. ``/dev/dri/card0``.
        files: further files that programs are to see, e.g. ``/proc/device-tree/compatible``.
        """
        self.devices = dict(devices)
        self.errors: list[str] = []
        self.root = Path(tempfile.mkdtemp(prefix="rig"))
        for path, content in {**dict.fromkeys(devices, b""), **(files or {})}.items():
            place = self.root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        self._turn = threading.Lock()  # one call at a time, whoever makes it
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(self.root / "npu-rig"))
        self._door.listen(16)
        self._open: set[_Program] = set()
        threading.Thread(target=self._accept, name="rig", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._door.accept()
            except OSError:  # closed
                return
            program = _Program(connection)
            self._open.add(program)
            threading.Thread(target=self._serve, args=(program,), name="rig device", daemon=True).start()

    def _serve(self, program: _Program) -> None:
        """Answer one open device until it is closed."""
        driver: Driver | None = None
        try:
            while True:
                kind, size, number, argument = _QUESTION.unpack(program.receive(_QUESTION.size))
                data = program.receive(size)
                try:
                    with self._turn:
                        if kind == _OPEN:
                            driver = self._opened(program, data.decode())
                        elif driver is not None:
                            self._call(driver, program, kind, number, argument, bytearray(data))
                    program.answer(_DONE)
                except OSError as error:
                    program.answer(_DONE, error.errno or errno.EIO)
        except (EOFError, ConnectionError, OSError):
            pass
        finally:
            self._open.discard(program)
            if driver is not None:
                with self._turn:
                    driver.closed(program)
            program.connection.close()

    def _opened(self, program: _Program, path: str) -> Driver:
        driver = self.devices.get(path)
        if driver is None:
            raise refused(errno.ENOENT)
        if driver.faults.lost("OPEN"):
            raise refused(errno.ENODEV)
        driver.opened(program)
        return driver

    def _call(
        self, driver: Driver, program: _Program, kind: int, number: int, argument: int, data: bytearray
    ) -> None:
        try:
            if kind == _MMAP:
                program.give_fd(driver.mmap(program, number, argument), 0)
                return
            before = bytes(data)
            driver.ioctl(program, number, data, argument)
            if number & _READ and data != before:
                program.poke(argument, bytes(data))
        except (OSError, EOFError):
            raise
        except Exception as error:  # a mistake of ours
            self.errors.append(f"{type(error).__name__}: {error}")
            raise refused(errno.EIO) from error

    def die(self) -> None:
        """Close all open devices at once, as a kernel that has lost its device."""
        for program in list(self._open):
            with contextlib.suppress(OSError):
                program.connection.shutdown(socket.SHUT_RDWR)

    def idle(self, seconds: float = 5.0) -> None:
        """Wait until no program has a device open; for tests of what programs leave behind."""
        end = time.monotonic() + seconds
        while self._open and time.monotonic() < end:
            time.sleep(0.01)

    def close(self) -> None:
        """Stop; programs that have a device open get ENODEV."""
        self.devices.clear()
        with contextlib.suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self.die()
        shutil.rmtree(self.root, ignore_errors=True)

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Program:
    """See ``driver.Program``."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def receive(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            part = self.connection.recv(min(size - len(found), 1 << 20))
            if not part:
                raise EOFError
            found += part
        return bytes(found)

    def answer(self, kind: int, error: int = 0, address: int = 0, size: int = 0) -> None:
        self.connection.sendall(_ANSWER.pack(kind, error, address, size))

    def peek(self, address: int, size: int) -> bytes:
        self.answer(_PEEK, 0, address, size)
        return self.receive(size)

    def poke(self, address: int, data: bytes) -> None:
        self.answer(_POKE, 0, address, len(data))
        self.connection.sendall(data)

    def take_fd(self, number: int) -> int:
        self.answer(_TAKE_FD, 0, number)
        byte, ancillary, _, _ = self.connection.recvmsg(1, socket.CMSG_SPACE(4))
        if not byte:
            raise EOFError
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                return array.array("i", data)[0]
        raise refused(errno.EBADF)

    def give_fd(self, fd: int, address: int) -> None:
        self.answer(_GIVE_FD, 0, address)
        self.connection.sendmsg(
            [b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]).tobytes())]
        )
