"""Programs on the rig, from tests: a kernel with the vendor's device, and the shell that uses it as librknnrt does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import TracebackType

import numpy as np
import pytest

from tools.npu_rig.build import PROCESSORS, Processor, built
from tools.npu_rig.kernel import Kernel

__all__ = ["DEVICE", "Shell", "needs_processor", "on_rig"]

DEVICE = "/dev/dri/card0"


def needs_processor(name: str) -> Processor:
    """Skip where its programs cannot be compiled or run."""
    processor = PROCESSORS[name]
    try:
        if processor.compiler is None:
            raise FileNotFoundError(f"no C compiler for {name}")
        processor.running([], {})
    except FileNotFoundError as error:
        pytest.skip(str(error))
    return processor


def on_rig(kernel: Kernel, processor: Processor) -> dict[str, str]:
    """The environment of a program on the rig."""
    return {"LD_PRELOAD": str(built("preload.c", processor)), "RIG_ROOT": str(kernel.root)}


class Shell:
    """``rknpu_shell.c``, told line by line."""

    def __init__(self, kernel: Kernel, processor: Processor, folder: Path) -> None:
        self._folder = folder
        command, environment = processor.running(
            [str(built("rknpu_shell.c", processor))], on_rig(kernel, processor)
        )
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str) -> list[str]:
        """The words of an answer, ``error`` and the reason where it is one."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().split()

    def numbers(self, line: str) -> list[int]:
        """The numbers of an answer that is no error."""
        first, *others = self.ask(line)
        assert first == "ok", (line, others)
        return [int(word) for word in others]

    def create(self, size: int, flags: int = 0x403) -> tuple[int, int]:
        """(handle, address) of a new buffer."""
        handle, address, _, _ = self.numbers(f"create {size} {flags}")
        return handle, address

    def write(self, handle: int, data: np.ndarray, offset: int = 0) -> None:
        """Bytes into a buffer."""
        place = self._folder / "bytes"
        place.write_bytes(np.ascontiguousarray(data).tobytes())
        assert self.numbers(f"write {handle} {offset} {place}") == [data.nbytes]

    def read(self, handle: int, size: int) -> np.ndarray:
        """Bytes of a buffer."""
        place = self._folder / "bytes"
        assert self.numbers(f"read {handle} 0 {size} {place}") == [size]
        return np.fromfile(place, np.uint8)

    def __enter__(self) -> Shell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()
