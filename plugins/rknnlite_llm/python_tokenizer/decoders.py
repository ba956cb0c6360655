"""The decoders of a ``tokenizer.json``: tokens -> their parts of the text. What is not known is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

from .characters import byte_letters
from .normalisers import replacing
from .pre_tokenisers import scheme
from .regular_expressions import NotHere

__all__ = ["Decoder", "decoder"]

Decoder = Callable[[list[str]], list[str]]
_LETTERS = byte_letters()
_CLEANED = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)


def decoder(settings: Optional[Mapping[str, Any]]) -> Decoder:
    """What makes text of tokens, joined by nothing; without one they are joined by blanks.

    Raises NotHere, and KeyError, TypeError or ValueError for damaged settings.
    """
    if settings is None:
        return lambda tokens: [" ".join(tokens)]
    kind = settings["type"]
    if kind in _MAKERS:
        return _MAKERS[kind](settings)
    raise NotHere(f"decoder {kind!r}")


def _sequence(settings: Mapping[str, Any]) -> Decoder:
    steps = [decoder(step) for step in settings["decoders"]]

    def all_steps(tokens: list[str]) -> list[str]:
        for step in steps:
            tokens = step(tokens)
        return tokens

    return all_steps


def _replace(settings: Mapping[str, Any]) -> Decoder:
    change = replacing(settings)
    return lambda tokens: list(map(change, tokens))


def _strip(settings: Mapping[str, Any]) -> Decoder:
    """Take up to ``start`` times ``content`` from the begin of every token, and up to ``stop`` times from its end."""
    content, start, stop = str(settings["content"]), int(settings["start"]), int(settings["stop"])

    def stripped(token: str) -> str:
        low, high = 0, len(token)
        while low < min(start, len(token)) and token[low] == content:
            low += 1
        while high > low and len(token) - high < stop and token[high - 1] == content:
            high -= 1
        return token[low:high]

    return lambda tokens: list(map(stripped, tokens))


def _metaspace(settings: Mapping[str, Any]) -> Decoder:
    mark = str(settings["replacement"])
    prefix = scheme(settings) != "never"

    def decode(tokens: list[str]) -> list[str]:
        return [
            token.replace(mark, "" if prefix and number == 0 else " ") for number, token in enumerate(tokens)
        ]

    return decode


def _byte_level(tokens: list[str]) -> list[str]:
    """The text of all bytes; a token with another letter stands for itself."""
    raw = bytearray()
    for token in tokens:
        if all(letter in _LETTERS for letter in token):
            raw += bytes([_LETTERS[letter] for letter in token])
        else:
            raw += token.encode("utf-8", "replace")
    return [raw.decode("utf-8", "replace")]


def _byte_fallback(tokens: list[str]) -> list[str]:
    """Tokens like ``<0x0A>`` in a row are UTF-8, or as many U+FFFD."""
    made: list[str] = []
    row = bytearray()
    for token in [*tokens, ""]:
        byte = _byte(token)
        if byte is not None:
            row.append(byte)
            continue
        if row:
            try:
                made.append(row.decode())
            except UnicodeDecodeError:
                made.append("\ufffd" * len(row))
            row.clear()
        made.append(token)
    return made[:-1]


def _byte(token: str) -> Optional[int]:
    if len(token.encode("utf-8", "replace")) != 6 or not (token.startswith("<0x") and token.endswith(">")):
        return None
    try:
        return int(token[3:5], 16) if token[3:5].isalnum() else None
    except ValueError:
        return None


def _word_piece(settings: Mapping[str, Any]) -> Decoder:
    prefix, clean = str(settings["prefix"]), bool(settings["cleanup"])

    def part(number: int, token: str) -> str:
        if number:
            token = token[len(prefix) :] if token.startswith(prefix) else f" {token}"
        if clean:
            for dirty, tidy in _CLEANED:
                token = token.replace(dirty, tidy)
        return token

    return lambda tokens: [part(number, token) for number, token in enumerate(tokens)]


def _bpe(settings: Mapping[str, Any]) -> Decoder:
    suffix = str(settings["suffix"])

    def decode(tokens: list[str]) -> list[str]:
        last = len(tokens) - 1
        return [token.replace(suffix, "" if i == last else " ") for i, token in enumerate(tokens)]

    return decode


_MAKERS: dict[str, Callable[[Mapping[str, Any]], Decoder]] = {
    "BPEDecoder": _bpe,
    "ByteFallback": lambda settings: _byte_fallback,
    "ByteLevel": lambda settings: _byte_level,
    "Fuse": lambda settings: lambda tokens: ["".join(tokens)],
    "Metaspace": _metaspace,
    "Replace": _replace,
    "Sequence": _sequence,
    "Strip": _strip,
    "WordPiece": _word_piece,
}
