"""The pre-tokenizers of a ``tokenizer.json``: a text -> its pieces. What is not known is refused by name."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Optional

from .characters import byte_letters, is_punctuation, is_space, is_word
from .regular_expressions import Finder, NotHere, Piece, Span, cut, finder

__all__ = ["PreTokeniser", "pre_tokeniser", "prefixed", "scheme"]

PreTokeniser = Callable[[Piece], list[Piece]]
_LETTER_OF = {byte: letter for letter, byte in byte_letters().items()}
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def pre_tokeniser(settings: Optional[Mapping[str, Any]]) -> PreTokeniser:
    """What cuts a text; raises NotHere, and KeyError, TypeError or ValueError for damaged settings."""
    if settings is None:
        return lambda piece: [piece]
    kind = settings["type"]
    if kind in _MAKERS:
        return _MAKERS[kind](settings)
    raise NotHere(f"pre_tokenizer {kind!r}")


def _sequence(settings: Mapping[str, Any]) -> PreTokeniser:
    steps = [pre_tokeniser(step) for step in settings["pretokenizers"]]

    def all_steps(piece: Piece) -> list[Piece]:
        pieces = [piece]
        for step in steps:
            pieces = [part for one in pieces for part in step(one)]
        return pieces

    return all_steps


def _inverted(find: Finder) -> Finder:
    return lambda text: [Span(start, end, not matched) for start, end, matched in find(text)]


def _split(settings: Mapping[str, Any]) -> PreTokeniser:
    behaviour = settings["behavior"]
    find = finder(settings["pattern"])
    find = _inverted(find) if settings.get("invert") else find
    return lambda piece: cut(piece, find(piece.text), behaviour)


def _byte_level(settings: Mapping[str, Any]) -> PreTokeniser:
    prefix = bool(settings["add_prefix_space"])
    find = finder({"Regex": _GPT2}) if settings.get("use_regex", True) else None

    def pieces(piece: Piece) -> list[Piece]:
        text = piece.text
        if prefix and not text.startswith(" "):
            text = " " + text
        whole = Piece(text, piece.first)
        parts = [whole] if find is None else cut(whole, find(text), "Isolated")
        return [Piece(_as_letters(part.text), part.first) for part in parts]

    return pieces


def _as_letters(text: str) -> str:
    return "".join([_LETTER_OF[byte] for byte in text.encode("utf-8", "replace")])


def scheme(settings: Mapping[str, Any]) -> str:
    """Where Metaspace puts a mark in front: always, first (of a text) or never."""
    old = "always" if settings.get("add_prefix_space", True) else "never"
    chosen = settings.get("prepend_scheme", old)
    if chosen not in ("always", "first", "never"):
        raise ValueError(f"prepend_scheme {chosen!r}")
    return str(chosen)


def prefixed(piece: Piece, mark: str, where: str) -> str:
    """The text with the mark in front of it if it belongs there."""
    wanted = where == "always" or (where == "first" and piece.first)
    return mark + piece.text if wanted and not piece.text.startswith(mark) else piece.text


def _metaspace(settings: Mapping[str, Any]) -> PreTokeniser:
    mark, where, splits = settings["replacement"], scheme(settings), settings.get("split", True)
    find = finder({"String": mark})

    def pieces(piece: Piece) -> list[Piece]:
        marked = Piece(piece.text.replace(" ", mark), piece.first)
        whole = Piece(prefixed(marked, mark, where), piece.first)
        return cut(whole, find(whole.text), "MergedWithNext") if splits else [whole]

    return pieces


def _characters(wanted: Callable[[str], bool], behaviour: str) -> PreTokeniser:
    """Cut at every character that is wanted."""

    def pieces(piece: Piece) -> list[Piece]:
        spans, at = [], 0
        for i, character in enumerate(piece.text):
            if wanted(character):
                spans += [Span(at, i, False), Span(i, i + 1, True)] if i > at else [Span(i, i + 1, True)]
                at = i + 1
        if at < len(piece.text):
            spans.append(Span(at, len(piece.text), False))
        return cut(piece, spans, behaviour)

    return pieces


def _is_number(character: str) -> bool:
    return unicodedata.category(character).startswith("N")


def _bert(settings: Mapping[str, Any]) -> PreTokeniser:
    words, signs = _characters(is_space, "Removed"), _characters(is_punctuation, "Isolated")
    return lambda piece: [part for word in words(piece) for part in signs(word)]


def _words(settings: Mapping[str, Any]) -> PreTokeniser:
    """Runs of word characters, and runs of what is neither those nor white space."""

    def kind(character: str) -> int:
        return 0 if is_space(character) else 1 if is_word(character) else 2

    def pieces(piece: Piece) -> list[Piece]:
        made, start = [], 0
        kinds = [*map(kind, piece.text), 3]
        for i in range(1, len(kinds)):
            if kinds[i] != kinds[start]:
                if kinds[start]:
                    made.append(Piece(piece.text[start:i], piece.first and start == 0))
                start = i
        return made

    return pieces


def _fixed(settings: Mapping[str, Any]) -> PreTokeniser:
    length = settings["length"]
    if type(length) is not int or length < 1:
        raise ValueError(f"pieces of {length!r} characters")
    return lambda piece: [
        Piece(piece.text[i : i + length], piece.first and i == 0) for i in range(0, len(piece.text), length)
    ]


def _delimiter(settings: Mapping[str, Any]) -> PreTokeniser:
    delimiter = str(settings["delimiter"])
    return _characters(lambda character: character == delimiter, "Removed")


_MAKERS: dict[str, Callable[[Mapping[str, Any]], PreTokeniser]] = {
    "BertPreTokenizer": _bert,
    "ByteLevel": _byte_level,
    "CharDelimiterSplit": _delimiter,
    "Digits": lambda settings: _characters(
        _is_number, "Isolated" if settings.get("individual_digits") else "Contiguous"
    ),
    "FixedLength": _fixed,
    "Metaspace": _metaspace,
    "Punctuation": lambda settings: _characters(is_punctuation, settings.get("behavior", "Isolated")),
    "Sequence": _sequence,
    "Split": _split,
    "Whitespace": _words,
    "WhitespaceSplit": lambda settings: _characters(is_space, "Removed"),
}
