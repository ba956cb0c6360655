"""Segments on the project's own C files, built for this machine."""

from __future__ import annotations

from collections.abc import Sequence

from rknnlite_graph.lowering import Form

from rknnlite.native.processors import instructions

from .engine import Engine, Program, Writes
from .native.library import NativeProgram, library
from .native.lowering import NativeLowering

__all__ = ["Native"]


class Native(Engine):
    """Networks of 8 bits and of float16 by ``native/*.c``.

    Raises BackendUnavailable without a compiler, ParamInvalid when it fails.
    """

    name = "native"

    def __init__(self) -> None:
        self._library = library()
        self._lowering = NativeLowering(self._library.layout)

    @property
    def lowering(self) -> Writes:
        return self._lowering

    @property
    def version(self) -> str:
        return f"{self.name} {self._library.build} {instructions()}"

    @property
    def form(self) -> Form:
        return Form.EXACT_INT8

    def compile(self, model: bytes, outputs: Sequence[str], threads: int) -> Program:
        return NativeProgram(self._library, model, threads)
