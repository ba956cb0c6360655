"""The command words of a program where the NPU reads them, and how they change from run to run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelUnsupported
from rknnlite.formats.slots import TensorKind

from .command_words import Words, values_of, with_values
from .pixels import reads_bytes, with_elements, with_pixels
from .program import NpuProgram
from .transport import DeviceMemory

__all__ = ["ProgramWords"]


class _Relocated(NamedTuple):
    """The words that hold addresses of one tensor."""

    words: NDArray[np.int64]
    offsets: NDArray[np.uint64]


class ProgramWords:
    """The words of one program, from byte ``at`` of ``memory`` on; ``changed`` is called with the memory when they have changed."""

    def __init__(
        self, program: NpuProgram, memory: DeviceMemory, at: int, changed: Callable[[DeviceMemory], None]
    ) -> None:
        self._program, self._memory, self._changed = program, memory, changed
        self._words: Words = memory.ndarray[at : at + 8 * len(program.words)].view(np.uint64)
        self._pixels: Optional[bool] = None  # as the file has them

    def place(self, number: int, address: int) -> None:
        """Let input or output ``number`` (inputs first) lie at ``address``."""
        where = self._relocated[number]
        self._change(where.words, where.offsets + np.uint64(address))

    @cached_property
    def _relocated(self) -> list[_Relocated]:
        """Per input and output."""
        found = []
        for index in (*self._program.inputs, *self._program.outputs):
            places = [(r.word, r.offset) for r in self._program.relocations if r.tensor == index]
            words, offsets = zip(*places) if places else ((), ())
            found.append(_Relocated(np.array(words, np.int64), np.array(offsets, np.uint64)))
        return found

    @cached_property
    def takes_pixels(self) -> bool:
        """Whether the NPU converts uint8 pixels of this program, and it is known how; in the mini format it always does."""
        _, plain, changed = self._for_pixels
        return self._program.moved or (reads_bytes(self._program) and bool((plain != changed).any()))

    def set_pixels(self, pixels: bool) -> None:
        """Let inputs of few channels hold uint8 pixels, or elements."""
        if pixels != self._pixels:
            at, plain, changed = self._for_pixels
            if len(at):
                self._change(at, changed if pixels else plain)
            self._pixels = pixels

    @cached_property
    def _for_pixels(self) -> tuple[NDArray[np.int64], Words, Words]:
        """Where words differ for uint8 pixels or from those of the file, what they are otherwise, and for pixels."""
        stored = self._program.words
        plain = with_elements(self._program, stored)
        try:
            changed = with_pixels(self._program, stored)
        except ModelUnsupported:  # it is not known how; see ``takes_pixels``
            changed = plain
        at = np.flatnonzero((plain != changed) | (plain != stored))
        return at, values_of(plain[at]), values_of(changed[at])

    @cached_property
    def restored(self) -> Optional[Words]:
        """All words, for a program that writes into its own while it runs (a recurrent node); None: it does not."""
        kinds = {self._program.tensors[r.tensor].kind for r in self._program.relocations}
        return self._words.copy() if TensorKind.REGISTER_COMMANDS in kinds else None

    def restore(self) -> None:
        """Undo what the last run wrote into the words."""
        if self.restored is not None:
            self._words[:] = self.restored
            self._changed(self._memory)

    def _change(self, at: NDArray[np.int64], values: Words) -> None:
        """Give words other values, in memory and where they are kept."""
        for words in (self._words, self.restored):
            if words is not None:
                words[at] = with_values(words[at], values)
        self._changed(self._memory)
