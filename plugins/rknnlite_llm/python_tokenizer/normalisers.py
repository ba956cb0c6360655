"""The normalizers of a ``tokenizer.json``: text -> text. What is not known is refused by name."""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Optional

from .characters import byte_letters, is_chinese, is_space
from .charsmap import Charsmap
from .regular_expressions import NotHere, finder

__all__ = ["Normaliser", "normaliser", "replacing"]

Normaliser = Callable[[str], str]
_LETTER_OF = {byte: letter for letter, byte in byte_letters().items()}
_NMT_DROPS = frozenset(map(chr, [*range(1, 9), 0x0B, *range(0x0E, 0x20), 0x7F, 0x8F, 0x9F]))
_NMT_BLANKS = frozenset(
    map(chr, [9, 10, 12, 13, 0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD])
)


def normaliser(settings: Optional[Mapping[str, Any]]) -> Normaliser:
    """What a text goes through first; raises NotHere, and KeyError, TypeError or ValueError for damaged settings."""
    if settings is None:
        return _same
    kind = settings["type"]
    if kind in _MAKERS:
        return _MAKERS[kind](settings)
    raise NotHere(f"normalizer {kind!r}")


def _same(text: str) -> str:
    return text


def replacing(settings: Mapping[str, Any]) -> Normaliser:
    """Every match of ``pattern`` becomes ``content``."""
    find, content = finder(settings["pattern"]), str(settings["content"])
    return lambda text: "".join(content if matched else text[start:end] for start, end, matched in find(text))


def _sequence(settings: Mapping[str, Any]) -> Normaliser:
    steps = [normaliser(step) for step in settings["normalizers"]]

    def all_steps(text: str) -> str:
        for step in steps:
            text = step(text)
        return text

    return all_steps


def _unicode(settings: Mapping[str, Any]) -> Normaliser:
    form = settings["type"]
    return lambda text: unicodedata.normalize(form, text)


def _lowercase(text: str) -> str:
    """Character by character: no rule looks at its neighbours."""
    return "".join(map(str.lower, text))


def _prepend(settings: Mapping[str, Any]) -> Normaliser:
    before = str(settings["prepend"])
    return lambda text: before + text if text else text


def _strip(settings: Mapping[str, Any]) -> Normaliser:
    left, right = bool(settings["strip_left"]), bool(settings["strip_right"])

    def strip(text: str) -> str:
        start, end = 0, len(text)
        while left and start < end and is_space(text[start]):
            start += 1
        while right and end > start and is_space(text[end - 1]):
            end -= 1
        return text[start:end]

    return strip


def _strip_accents(text: str) -> str:
    return "".join(c for c in text if not unicodedata.category(c).startswith("M"))


def _nmt(text: str) -> str:
    return "".join(" " if c in _NMT_BLANKS else c for c in text if c not in _NMT_DROPS)


def _byte_level(text: str) -> str:
    return "".join(_LETTER_OF[byte] for byte in text.encode("utf-8", "replace"))


def _precompiled(settings: Mapping[str, Any]) -> Normaliser:
    packed = settings.get("precompiled_charsmap")
    return Charsmap(base64.b64decode(packed, validate=True)).normalise if packed else _same


def _bert(settings: Mapping[str, Any]) -> Normaliser:
    """BERT's basic tokenizer up to the split: clean, ideographs apart, without accents, in small letters."""
    lower = bool(settings["lowercase"])
    accents = settings.get("strip_accents")
    accents = lower if accents is None else bool(accents)
    steps: list[Normaliser] = []
    if settings["clean_text"]:
        steps.append(_cleaned)
    if settings["handle_chinese_chars"]:
        steps.append(lambda text: "".join(f" {c} " if is_chinese(c) else c for c in text))
    if accents:
        steps.append(_without_accents)
    if lower:
        steps.append(_lowercase)

    def all_steps(text: str) -> str:
        for step in steps:
            text = step(text)
        return text

    return all_steps


def _cleaned(text: str) -> str:
    return "".join(" " if is_space(c) else c for c in text if not _is_control(c))


def _is_control(character: str) -> bool:
    if character in "\t\n\r":
        return False
    return character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Co")


def _without_accents(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


_MAKERS: dict[str, Callable[[Mapping[str, Any]], Normaliser]] = {
    "BertNormalizer": _bert,
    "ByteLevel": lambda settings: _byte_level,
    "Lowercase": lambda settings: _lowercase,
    "NFC": _unicode,
    "NFD": _unicode,
    "NFKC": _unicode,
    "NFKD": _unicode,
    "Nmt": lambda settings: _nmt,
    "Precompiled": _precompiled,
    "Prepend": _prepend,
    "Replace": replacing,
    "Sequence": _sequence,
    "Strip": _strip,
    "StripAccents": lambda settings: _strip_accents,
}
