"""Where addresses stand in the command words: every graph lists them, tensor by tensor.

The list names a tensor and, for each word that holds an address in it, the index of the word and the offset in the tensor.
In container 6 the file's words hold the offsets alone; the mini format's hold addresses in a memory that begins with the
words themselves. Measured: in all files of toolkits 2.x, of all families, every word agrees with its entry. An entry without a name
is for words that the NPU itself changes: recurrent nodes step through a sequence like that, and their words say where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np

from rknnlite.errors import ModelInvalid
from rknnlite.formats.flatbuffer import Table
from rknnlite.formats.slots import RelocationSlot

from .command_words import CNA, DPU, DPU_RDMA, PPU, PPU_RDMA, CommandWord, Words, values_of

__all__ = ["Relocation", "read_relocations", "strangers"]

_WITH_ADDRESSES = {CNA, DPU, DPU_RDMA, PPU, PPU_RDMA}


class Relocation(NamedTuple):
    """Word ``word`` holds the address of byte ``offset`` of tensor ``tensor``."""

    tensor: int
    offset: int
    word: int


def read_relocations(
    tables: Iterator[Table], tensors: Mapping[str, int], words: Words
) -> tuple[Relocation, ...]:
    """The list of a graph.

    Args:
        tables: its entries.
        tensors: index of each tensor by name; that without one are the command words themselves.
        words: the command words.

    Raises:
        ModelInvalid: an unknown tensor, a word that does not exist, is named twice, or is of no unit that uses addresses.
    """
    found: list[Relocation] = []
    count = len(words)
    for table in tables:
        name = table.string(RelocationSlot.TENSOR)
        if name not in tensors:
            raise ModelInvalid(f'damaged file: its command words use the tensor "{name}", which is not there')
        places = table.u64s(RelocationSlot.PLACES)
        if len(found) + len(places) > count:
            raise ModelInvalid(
                f"damaged file: {len(found) + len(places)} addresses and more in {count} command words"
            )
        found += [Relocation(tensors[name], place & 0xFFFFFFFF, place >> 32) for place in places.tolist()]
    seen = set()
    for _, _, word in found:
        if word >= count or word in seen:
            what = "two addresses are for" if word in seen else f"there are {count}, it names"
            raise ModelInvalid(f"damaged file: its list of addresses is wrong: {what} command word {word}")
        if int(words[word]) >> 48 not in _WITH_ADDRESSES:
            raise ModelInvalid(
                f"damaged file: command word {word} ({CommandWord.of(words[word])}) takes no address"
            )
        seen.add(word)
    return tuple(_within_words(relocation, tensors.get(""), words) for relocation in found)


def _within_words(relocation: Relocation, commands: Optional[int], words: Words) -> Relocation:
    """Where the NPU changes command words: the word that is to be filled in holds the offset, its entry does not."""
    if relocation.tensor != commands:
        return relocation
    offset = CommandWord.of(words[relocation.word]).value
    if offset >= 8 * len(words):
        raise ModelInvalid(
            f"damaged file: command word {relocation.word} lets the NPU write at byte {offset} of {8 * len(words)} bytes of "
            "command words"
        )
    return relocation._replace(offset=offset)


def strangers(
    relocations: Sequence[Relocation], words: Words, stored_at: Sequence[int]
) -> list[tuple[int, int]]:
    """(word, value by the list) of each word that holds something else; the list counts.

    Seen in files for RK3576 of toolkit 1.6.2 alone, at 0x4018 for the second core: sixteen times the offset.

    Args:
        stored_at: the address of each tensor that the file assumes.
    """
    if not relocations:
        return []
    tensors, offsets, places = np.array(relocations, np.int64).T
    right = np.array(stored_at, np.int64)[tensors] + offsets
    wrong = np.flatnonzero(values_of(words[places]).astype(np.int64) != right)
    return [(int(places[at]), int(right[at])) for at in wrong]
