"""A program that measures calls of the library, driven line by line; for the tests and the benchmark."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Optional

import psutil

from tests.librknnrt.clients import environment, program

__all__ = ["Measured"]


class Measured:
    """``programs/measured.c`` on a model, running.

    >>> with Measured(Path("model.rknn")) as program:
    ...     program("frame", 100)  # microseconds of one
    """

    def __init__(self, model: Path, before: tuple[str, ...] = ()) -> None:
        self._mark = f"measured-{os.getpid()}-{id(self)}"
        self._process = subprocess.Popen(
            [*before, str(program("measured.c")), str(model)],
            env=environment(RKNN_CLIENT=self._mark),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, what: str, count: int) -> float:
        """Do it so many times; microseconds of one."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{what} {count}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def __enter__(self) -> Measured:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)

    @property
    def resident(self) -> dict[str, int]:
        """Resident bytes of the program, and of the process that computes for it."""
        server = next(p for p in psutil.process_iter() if p.pid != self._process.pid and self._serves(p))
        client = psutil.Process(self._process.pid)
        return {name: p.memory_info().rss for name, p in (("client", client), ("server", server))}

    def _serves(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get("RKNN_CLIENT") == self._mark
        except psutil.Error:
            return False
