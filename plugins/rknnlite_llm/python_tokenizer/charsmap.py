"""SentencePiece's precompiled table of replacements (``precompiled_charsmap``), as the package ``tokenizers`` uses it.

Four bytes with the size of a trie, the trie (a double array of 32-bit units, Darts), then texts that end in a zero
byte. A character whose bytes begin with a key becomes the text of the shortest such key. A character with the
marks that belong to it counts as one while it has less than six bytes.
"""

from __future__ import annotations

import functools
import unicodedata
from typing import Optional

import numpy as np

__all__ = ["Charsmap"]

_SMALL = 6
_JOINED = frozenset("\u200c\u200d\u0e33\u0eb3\uff9e\uff9f")
"""They go with what is before them and are no marks."""
_ALONE = frozenset(
    map(chr, [0x102B, 0x102C, 0x1038, *range(0x1062, 0x1065), *range(0x1067, 0x106E), 0x1083, *range(0x1087, 0x108D), 0x108F,
              *range(0x109A, 0x109D), 0x1A61, 0x1A63, 0x1A64, 0xAA7B, 0xAA7D, 0x11720, 0x11721])
)  # fmt: skip
"""Marks that do not."""
_BEFORE = frozenset(map(chr, [*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0xD4E]))
"""What goes with the character behind it."""


class Charsmap:
    """Replaces characters by the table."""

    def __init__(self, data: bytes) -> None:
        """Raises ValueError for a damaged table."""
        size = int.from_bytes(data[:4], "little")
        if len(data) < 4 or size % 4 or not 4 <= size <= len(data) - 4:
            raise ValueError(f"precompiled_charsmap: a trie of {size} bytes in {len(data)}")
        self._units = np.frombuffer(data, "<u4", size // 4, 4).tolist()
        self._texts = data[4 + size :]
        self._replacement = functools.lru_cache(maxsize=1 << 14)(self._looked_up)

    def normalise(self, text: str) -> str:
        """The text with all replacements."""
        if text.isascii():
            return "".join(map(self._one, _ascii_clusters(text)))
        return "".join(map(self._one, _clusters(text)))

    def _one(self, cluster: str) -> str:
        if len(cluster) == 1 or len(cluster.encode("utf-8", "replace")) < _SMALL:
            found = self._replacement(cluster)
            if found is not None or len(cluster) == 1:
                return cluster if found is None else found
        parts = ((character, self._replacement(character)) for character in cluster)
        return "".join(character if found is None else found for character, found in parts)

    def _looked_up(self, key: str) -> Optional[str]:
        """The text of the shortest prefix of this key that the trie has."""
        units = self._units
        node = _offset(units[0])
        for byte in key.encode("utf-8", "replace"):
            node ^= byte
            if node >= len(units) or units[node] & 0x800000FF != byte:
                return None
            unit = units[node]
            node ^= _offset(unit)
            if unit >> 8 & 1 and node < len(units):
                return self._text(units[node] & 0x7FFFFFFF)
        return None

    def _text(self, at: int) -> str:
        if at > len(self._texts):
            raise ValueError(f"precompiled_charsmap: a text at byte {at} of {len(self._texts)}")
        return self._texts[at : self._texts.find(b"\0", at) % (len(self._texts) + 1)].decode(
            "utf-8", "replace"
        )


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & (1 << 9)) >> 6)


def _ascii_clusters(text: str) -> list[str]:
    if "\r\n" not in text:
        return list(text)
    return _clusters(text)


def _clusters(text: str) -> list[str]:
    """Characters with the marks that belong to them, as far as those of less than six bytes need it."""
    made: list[str] = []
    for character in text:
        if made and _joins(made[-1][-1], character):
            made[-1] += character
        else:
            made.append(character)
    return made


@functools.lru_cache(maxsize=1 << 14)
def _joins(before: str, character: str) -> bool:
    if before < "\x80" and character < "\x80":
        return before == "\r" and character == "\n"
    if _is_control(before) or _is_control(character):
        return False
    category = unicodedata.category(character)
    attached = category.startswith("M") and character not in _ALONE
    return attached or character in _JOINED or before in _BEFORE


def _is_control(character: str) -> bool:
    if character in _JOINED or character in _BEFORE:
        return False
    return unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs")
