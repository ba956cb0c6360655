"""Whether the tasks of a job were done: kernels tell a job that they gave up as a success.

Where a task writes its first bytes a stamp is put before the job; one that is still there behind it tells that the task wrote
nothing. Memory is used again and again: a stamp must not lie where the job reads before, and tells nothing where it writes before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import RunTimeout

from .command_words import DESTINATIONS, CommandWord
from .program import NpuProgram
from .transport import DeviceMemory

__all__ = ["PlacedStamps", "Stamps", "divided"]

Array = NDArray[Any]
_ATOM = 16  # bytes that are written together
_STAMP = 8  # bytes of its beginning that are looked at


class _Place(NamedTuple):
    """Where a task writes first: ``output`` is the number of an output, None the internal buffer."""

    output: Optional[int]
    offset: int
    node: int


class _Group(NamedTuple):
    """The places of one buffer."""

    output: Optional[int]
    nodes: tuple[int, ...]
    element: np.dtype[Any]
    """The largest that all places are multiples of: few elements are written at once."""
    elements: NDArray[np.intp]
    """Places in the buffer, those of one stamp behind each other."""


class _Span(NamedTuple):
    """The bytes of a tensor: in an output, or in the internal buffer; ``_NOWHERE`` is what no task writes."""

    output: Optional[int]
    start: int
    end: int

    def holds(self, place: _Place) -> bool:
        """Whether a stamp would change them."""
        return self.output == place.output and self.start < place.offset + _ATOM and place.offset < self.end


_NOWHERE = _Span(-1, 0, 0)


def divided(program: NpuProgram, tasks: Iterable[int], divide: bool = True) -> list[tuple[set[int], Stamps]]:
    """The nodes of each job, and its stamps.

    Args:
        tasks: indices of the records of one job.
        divide: make several of it, so that every task has a stamp, but those that write onto what they read; else those
            that cannot have one have none.
    """
    places = _places(program, tasks)
    found: list[tuple[set[int], list[_Place]]] = []
    touched: list[_Span] = []
    for number in sorted(places):
        node = program.nodes[number]
        read = [_span(program, t) for t in node.inputs]
        own = [place for place in places[number] if not any(span.holds(place) for span in read)]
        free = [place for place in own if not any(span.holds(place) for span in touched)]
        if not found or (divide and len(free) < len(own)):
            found.append((set(), []))
            touched, free = [], own
        found[-1][0].add(number)
        found[-1][1].extend(free)
        touched += [*read, *(_span(program, t) for t in node.outputs)]
    return [(nodes, Stamps(program, rows)) for nodes, rows in found]


class Stamps:
    """Of the tasks of one job. ``len`` is how many of them have one."""

    def __init__(self, program: NpuProgram, places: Iterable[_Place]) -> None:
        by_output: dict[Optional[int], list[_Place]] = {}
        for place in places:
            by_output.setdefault(place.output, []).append(place)
        self._program = program
        self._groups = [_grouped(output, rows) for output, rows in by_output.items()]

    def __len__(self) -> int:
        return sum(len(group.nodes) for group in self._groups)

    def placed(self, memory: Callable[[Optional[int]], DeviceMemory]) -> PlacedStamps:
        """For the memory of each output, and (None) of the activations, as it is now."""
        return PlacedStamps(self._program, [(memory(group.output), group) for group in self._groups])


class PlacedStamps:
    """Stamps in memory, put and looked at in every frame. ``memories`` are those that have some."""

    def __init__(self, program: NpuProgram, groups: Sequence[tuple[DeviceMemory, _Group]]) -> None:
        stamp = np.frombuffer(os.urandom(_STAMP), np.uint8)
        self._program = program
        self._rows = [
            (
                _elements(memory.mapped, group.element),
                group.elements,
                np.tile(stamp.view(group.element), len(group.nodes)),
                group.nodes,
            )
            for memory, group in groups
        ]
        self.memories = [memory for memory, _ in groups]

    def put(self) -> None:
        """Before the job."""
        for elements, at, stamps, _ in self._rows:
            elements[at] = stamps

    def check(self) -> None:
        """Behind it. Raises RunTimeout for a task that wrote nothing."""
        for elements, at, stamps, nodes in self._rows:
            same = elements[at] == stamps
            if not np.count_nonzero(same):  # as in every frame that goes well
                continue
            found = same.reshape(len(nodes), -1).all(axis=1)
            if found.any():
                node = self._program.nodes[nodes[int(found.argmax())]]
                raise RunTimeout(
                    f"{node} wrote nothing, though the kernel told success; it gives up what takes too long: see "
                    "dmesg, then run again"
                )


def _grouped(output: Optional[int], places: Sequence[_Place]) -> _Group:
    starts = np.array([place.offset for place in places], np.intp)
    element = next(
        kind for kind in map(np.dtype, (np.uint64, np.uint32, np.uint8)) if not (starts % kind.itemsize).any()
    )
    elements = (starts // element.itemsize)[:, None] + np.arange(_STAMP // element.itemsize)
    return _Group(output, tuple(place.node for place in places), element, elements.ravel())


def _elements(memory: Array, element: np.dtype[Any]) -> Array:
    """Memory as elements; what is left at its end is out of reach of stamps."""
    return memory[: len(memory) // element.itemsize * element.itemsize].view(element)


def _places(program: NpuProgram, tasks: Iterable[int]) -> dict[int, list[_Place]]:
    """Per node where its tasks write first."""
    records = [program.tasks[i] for i in tasks]
    node_of = {task.first + i: task.node for task in records for i in range(task.amount)}
    found: dict[int, list[_Place]] = {task.node: [] for task in records}
    for tensor, offset, word in program.relocations:
        if word not in node_of or CommandWord.of(int(program.words[word])).register not in DESTINATIONS:
            continue
        span = _span(program, tensor)
        if span is not _NOWHERE:
            found[node_of[word]].append(_Place(span.output, span.start + offset, node_of[word]))
    return found


def _span(program: NpuProgram, number: int) -> _Span:
    tensor = program.tensors[number]
    if number in program.outputs:
        return _Span(program.outputs.index(number), 0, tensor.size)
    if tensor.constant or tensor.offset is None or number in program.inputs:
        return _NOWHERE
    return _Span(None, tensor.offset, tensor.offset + tensor.size)
