"""Recurrent nodes of many steps are loops: their tasks write addresses into command words that follow, and count with them.

What they start from lies among the constants, in a tensor of 64-bit elements, as offsets: the runtime makes addresses of it.
The file lists which: graph slot 14 the elements that are of command words (where a loop begins, and where it goes on), slot 15
those that are what a command word holds. Seen in all files of ours with loops; that the machine's results are the
simulator's then is the evidence, no recording has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid
from rknnlite.formats.flatbuffer import Table

from .command_words import Words, values_of

__all__ = ["LoopCounter", "read_counters", "start_values"]

_OF_COMMANDS, _OF_WORDS = 14, 15  # slots of a graph
_ELEMENT, _SOURCE = 0, 1  # of their entries
_BYTES = 8
_STORED = np.dtype("<u4")  # the upper half of an element stays


class LoopCounter(NamedTuple):
    """An address at byte ``place`` of the weight buffer: that of byte ``commands`` of the command words, or what ``word`` holds."""

    place: int
    commands: Optional[int] = None
    word: Optional[int] = None


def read_counters(graph: Table, counters: Optional[tuple[int, int]], words: Words) -> tuple[LoopCounter, ...]:
    """The list of a graph.

    Args:
        counters: (offset, bytes) in the weight buffer of the tensor that loops count in; None where there is none.

    Raises:
        ModelInvalid: elements beyond the tensor, or command words that do not exist.
    """
    found = []
    for slot, most in ((_OF_COMMANDS, _BYTES * len(words)), (_OF_WORDS, len(words))):
        for entry in graph.tables(slot):
            element, source = entry.i32(_ELEMENT), entry.i32(_SOURCE)
            offset, size = counters or (0, 0)
            if not (0 <= element < size // _BYTES and 0 <= source < most):
                raise ModelInvalid(
                    f"damaged file: element {element} of {size // _BYTES} that loops count in starts from {source}, of {most}"
                )
            place = offset + _BYTES * element
            found.append(
                LoopCounter(place, commands=source)
                if slot == _OF_COMMANDS
                else LoopCounter(place, word=source)
            )
    return tuple(found)


def start_values(
    counters: Sequence[LoopCounter], words: Words, commands: int
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """(place in the weight buffer, bytes) of each counter, for relocated words that begin at ``commands``."""
    for counter in counters:
        value = commands + (counter.commands or 0)
        if counter.word is not None:
            value = int(values_of(words[counter.word : counter.word + 1])[0])
        yield counter.place, np.array([value & 0xFFFFFFFF], _STORED).view(np.uint8)
