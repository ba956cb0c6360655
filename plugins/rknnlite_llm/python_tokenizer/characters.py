"""Kinds of characters as the package ``tokenizers`` tells them apart: white space, punctuation, words, categories."""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Callable

__all__ = ["byte_letters", "is_chinese", "is_punctuation", "is_space", "is_word", "members", "space_ranges"]

_SPACE = frozenset(
    map(
        chr,
        [
            *range(9, 14),
            32,
            0x85,
            0xA0,
            0x1680,
            *range(0x2000, 0x200B),
            0x2028,
            0x2029,
            0x202F,
            0x205F,
            0x3000,
        ],
    )
)
"""White space as Unicode defines it; that of ``re`` has four control characters more."""
_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
"""What BERT takes for one; 2B820 to 2B91F are left out by the package too."""
_SIGNS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_MORE_LETTERS = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
"""Symbols that Unicode calls alphabetic."""


def is_space(character: str) -> bool:
    """White space (Unicode's ``White_Space``)."""
    return character in _SPACE


def is_punctuation(character: str) -> bool:
    """Punctuation of any script, and all ASCII signs."""
    return character in _SIGNS or unicodedata.category(character).startswith("P")


def is_chinese(character: str) -> bool:
    """An ideograph that BERT sets apart."""
    number = ord(character)
    return number >= 0x3400 and any(low <= number <= high for low, high in _CHINESE)


def is_word(character: str) -> bool:
    r"""``\w`` of Unicode: letters, marks, decimal digits, numbers that are letters, connectors, joiners."""
    category = unicodedata.category(character)
    if category[0] in "LM" or category in ("Nd", "Nl", "Pc") or character in "\u200c\u200d":
        return True
    return any(low <= ord(character) <= high for low, high in _MORE_LETTERS)


def _ranges(wanted: Callable[[str], bool]) -> str:
    """All characters that are wanted, as ranges for a character class of ``re``."""
    ranges: list[list[int]] = []
    for number in range(sys.maxunicode + 1):
        if wanted(chr(number)):
            if ranges and ranges[-1][1] == number - 1:
                ranges[-1][1] = number
            else:
                ranges.append([number, number])
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)


@functools.cache
def members(category: str, without: bool = False) -> str:
    """The characters of a Unicode category (``L`` or ``Lu``), or all others, for a character class of ``re``."""
    return _ranges(lambda character: unicodedata.category(character).startswith(category) is not without)


@functools.cache
def space_ranges(without: bool = False) -> str:
    """White space, or all other characters, for a character class of ``re``."""
    return _ranges(lambda character: is_space(character) is not without)


def byte_letters() -> dict[str, int]:
    """The letters of byte-level BPE -> the byte each stands for: printable ones for themselves, others from 256 up."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(byte): byte for byte in printable}
    others = sorted(set(range(256)).difference(printable))
    letters.update({chr(256 + n): byte for n, byte in enumerate(others)})
    return letters
