"""Items of a batch on several cores at once, where a kernel gives a core to each open device and divides no job among cores.

Every lane is a device of its own with the whole program in its memory; the first is the context's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from rknnlite.spi import CustomOp

from .loaded_program import LoadedProgram, SharedWeights
from .transport import Transport

__all__ = ["Lanes"]


class Lanes:
    """Lanes of one program. ``count`` is how many there are."""

    def __init__(
        self, first: LoadedProgram, count: int, opened: Callable[[], Transport], ops: Mapping[str, CustomOp]
    ) -> None:
        """``opened`` opens a further device. Raises what it raises, OutOfMemory."""
        self.first, self.count = first, count
        self._programs, self._transports = [first], list[Transport]()
        try:
            for _ in range(count - 1):
                transport = opened()
                self._transports.append(transport)
                weights = SharedWeights(transport, first.program)
                self._programs.append(LoadedProgram(first.program, weights, first.cpu.twin(ops)))
        except BaseException:
            self.close()
            raise
        self._pool = ThreadPoolExecutor(count - 1, "rknnlite npu")

    def run(self, batch: int, item: Callable[[LoadedProgram, int], None]) -> None:
        """Call ``item`` for each of a batch, in as many threads as there are lanes.

        Raises what one of them raises, when all have ended.
        """

        def lane(number: int) -> None:
            for at in range(number, batch, self.count):
                item(self._programs[number], at)

        others = [self._pool.submit(lane, number) for number in range(1, self.count)]
        try:
            lane(0)
        finally:
            errors = [error for error in (other.exception() for other in others) if error is not None]
        if errors:
            raise errors[0]

    def close(self) -> None:
        """Free all but the first; may be called again."""
        if hasattr(self, "_pool"):
            self._pool.shutdown()
        for program in self._programs[1:]:
            program.close()
        for transport in self._transports:
            transport.close()
