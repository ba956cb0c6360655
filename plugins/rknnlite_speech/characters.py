"""Text into the ids that an MMS-TTS encoder takes: one per character, with a blank around each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rknnlite.errors import ModelInvalid, shown
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_text

__all__ = ["BLANK", "Characters", "parts", "read_characters"]

BLANK = 0
_ENDS = re.compile(r"(?<=[.!?;:。！？\n])\s+")


@dataclass(frozen=True)
class Characters:
    """``ids`` by character."""

    ids: Mapping[str, int]

    def known(self, text: str) -> str:
        """What of a text is said: capitals are as small letters unless the vocabulary has them, the unknown is left out."""
        chars = (char if char in self.ids else char.lower() for char in text)
        return "".join(char for char in "".join(chars) if char in self.ids).strip()

    def encoded(self, text: str) -> list[int]:
        """Ids of ``known`` text: 2 n + 1 of n characters."""
        return [BLANK, *(number for char in text for number in (self.ids[char], BLANK))]


def read_characters(path: Path) -> Characters:
    """``vocab.json`` of a published model. Raises ModelInvalid."""
    try:
        value = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise ModelInvalid(f"{path}: {shown(error)}") from None
    if not isinstance(value, dict) or not value or not all(type(n) is int and n >= 0 for n in value.values()):
        raise ModelInvalid(f"{path}: it maps no characters to ids")
    return Characters({char: number for char, number in value.items() if len(char) == 1})


def parts(text: str, most: int) -> list[str]:
    """The text in sentences, and those longer than ``most`` characters between words, or where there are none anywhere."""
    found = []
    for sentence in _ENDS.split(text):
        rest = sentence.strip()
        while len(rest) > most:
            cut = rest.rfind(" ", 1, most + 1)
            cut = cut if cut > 0 else most
            found.append(rest[:cut].rstrip())
            rest = rest[cut:].lstrip()
        found.append(rest)
    return [part for part in found if part]
