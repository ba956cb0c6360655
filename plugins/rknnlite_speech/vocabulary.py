"""Whisper's tokens: pieces of text as bytes, and those that steer."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rknnlite.errors import ModelInvalid, shown
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_text

__all__ = ["LANGUAGES", "SpecialTokens", "Vocabulary", "read_vocabulary"]

LANGUAGES = [
    "en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt", "tr", "pl", "ca", "nl", "ar", "sv", "it", "id",
    "hi", "fi", "vi", "he", "uk", "el", "ms", "cs", "ro", "da", "hu", "ta", "no", "th", "ur", "hr", "bg",
    "lt", "la", "mi", "ml", "cy", "sk", "te", "fa", "lv", "bn", "sr", "az", "sl", "kn", "et", "mk", "br",
    "eu", "is", "hy", "ne", "mn", "bs", "kk", "sq", "sw", "gl", "mr", "pa", "si", "km", "sn", "yo", "so",
    "af", "oc", "ka", "be", "tg", "sd", "gu", "am", "yi", "lo", "uz", "fo", "ht", "ps", "tk", "nn", "mt",
    "sa", "lb", "my", "bo", "tl", "mg", "as", "tt", "haw", "ln", "ha", "ba", "jw", "su", "yue",
]  # fmt: skip
"""In the order of their tokens; models before the third large one end before yue."""
_MULTILINGUAL = 51_865
"""Tokens of a model of many languages: 50257 of text, 99 languages, 8 that steer, 1501 of time."""
_TIMES = 1501
_TEXT_ONLY_ENGLISH = 50_256
_STEP = 0.02


@dataclass(frozen=True)
class SpecialTokens:
    """Ids of the tokens that steer; ``languages`` is empty, and there is no task, where a model knows English only."""

    end: int
    start: int
    languages: Mapping[str, int]
    translate: int
    transcribe: int
    no_speech: int
    no_times: int
    first_time: int

    @classmethod
    def of_count(cls, count: int) -> SpecialTokens:
        """Those of a published model with so many tokens. Raises ModelInvalid."""
        many = count >= _MULTILINGUAL
        end = _TEXT_ONLY_ENGLISH + many
        languages = count - end - 8 - _TIMES
        if not 0 < languages <= len(LANGUAGES):
            raise ModelInvalid(
                f"the decoder knows {count} tokens, as no published Whisper does; a vocabulary that names "
                "<|startoftranscript|> and the other tokens that steer is needed (tokenizer.json)"
            )
        task = end + 2 + languages
        known = {name: end + 2 + index for index, name in enumerate(LANGUAGES[:languages])} if many else {}
        return cls(end, end + 1, known, task, task + 1, task + 4, task + 5, task + 6)

    @classmethod
    def of_names(cls, names: Mapping[str, int]) -> SpecialTokens:
        """Those that a vocabulary names. Raises ModelInvalid for one that lacks some."""
        try:
            return cls(
                names["<|endoftext|>"],
                names["<|startoftranscript|>"],
                _languages(names),
                names["<|translate|>"],
                names["<|transcribe|>"],
                names["<|nospeech|>"] if "<|nospeech|>" in names else names["<|nocaptions|>"],
                names["<|notimestamps|>"],
                names["<|notimestamps|>"] + 1,
            )
        except KeyError as error:
            raise ModelInvalid(f"the vocabulary has no token {error.args[0]}") from None

    def seconds(self, token: int) -> float:
        """What a token of time says, counted from the beginning of the window."""
        return (token - self.first_time) * _STEP

    def prompt(self, language: str, translate: bool, times: bool) -> list[int]:
        """The tokens before an answer."""
        steer = (
            [self.languages[language], self.translate if translate else self.transcribe]
            if self.languages
            else []
        )
        return [self.start, *steer, *([] if times else [self.no_times])]


def _languages(names: Mapping[str, int]) -> dict[str, int]:
    """None where only English is known, though such a vocabulary names the others, too."""
    if names["<|endoftext|>"] == _TEXT_ONLY_ENGLISH:
        return {}
    return {name: names[f"<|{name}|>"] for name in LANGUAGES if f"<|{name}|>" in names}


@dataclass(frozen=True)
class Vocabulary:
    """``pieces``: the bytes of every token of text by id; ``special``: those of others."""

    pieces: Mapping[int, bytes]
    special: SpecialTokens

    def text(self, tokens: Iterable[int]) -> str:
        """What tokens say; those that steer, and of time, say nothing."""
        end = self.special.end
        return b"".join(self.pieces.get(token, b"") for token in tokens if token < end).decode(
            "utf-8", "replace"
        )

    def unspoken(self) -> list[int]:
        """Tokens of brackets, notes and other signs, which the published decoders never choose."""
        ids = {piece: token for token, piece in self.pieces.items() if token < self.special.end}
        found = {ids.get(b" -"), ids.get(b" '")}  # at the beginning of a word
        for sign in _SIGNS:
            for spelled in (sign.encode(), f" {sign}".encode()):
                found.add(ids.get(spelled))
                if sign in _NOTES and spelled not in ids:
                    found.add(ids.get(spelled[:-1]))  # its beginning, which notes share
        return sorted(token for token in found if token is not None)


def read_vocabulary(path: Path, count: int) -> Vocabulary:
    """The vocabulary of a decoder with ``count`` tokens.

    ``tokenizer.json`` or ``vocab.json`` of Hugging Face, or ``vocab_en.txt`` or ``vocab_zh.txt`` of the model zoo: a line
    ``ID PIECE`` each, whose pieces the second has in Base64. Raises ModelInvalid.
    """
    try:
        text = read_text(path)
        named = _of_json(text) if path.suffix == ".json" else None
        pieces = _of_lines(text) if named is None else {i: _bytes_of(name) for name, i in named.items()}
    except (OSError, ValueError, binascii.Error) as error:
        raise ModelInvalid(f"{path}: {shown(error)}") from None
    try:
        special = (
            SpecialTokens.of_names(named)
            if named and "<|startoftranscript|>" in named
            else SpecialTokens.of_count(count)
        )
    except ModelInvalid as error:
        raise ModelInvalid(f"{path}: {error}") from None
    if not 0 <= min(special.start, special.end) < special.first_time <= count:
        raise ModelInvalid(f"{path}: its tokens do not fit the decoder, which knows {count}")
    return Vocabulary(pieces, special)


def _of_json(text: str) -> dict[str, int]:
    value = parse_json(text)
    added: list[dict[str, Any]] = []
    if isinstance(value, dict) and isinstance(value.get("model"), dict):  # tokenizer.json
        added = value.get("added_tokens") or []
        value = value["model"].get("vocab")
    if not isinstance(value, dict) or not all(type(number) is int for number in value.values()):
        raise ValueError("it maps no pieces to ids")
    return {**value, **{entry["content"]: entry["id"] for entry in added}}


def _of_lines(text: str) -> dict[int, bytes]:
    rows = [line.partition(" ") for line in text.split("\n") if line]
    if not rows or not all(number.isdigit() for number, _, _ in rows):
        raise ValueError("it has no lines ID PIECE")
    named = {int(number): piece.strip() for number, _, piece in rows}
    if named.get(0) == "IQ==":
        return {number: base64.b64decode(piece) for number, piece in named.items()}
    return {number: _bytes_of(piece) for number, piece in named.items()}


def _bytes_of(piece: str) -> bytes:
    """GPT-2's spelling: every byte has a character that can be seen."""
    try:
        return bytes(_BYTES[char] for char in piece)
    except KeyError:
        return piece.encode()


def _spelling() -> dict[str, int]:
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{chr(byte): byte for byte in plain}, **{chr(256 + i): byte for i, byte in enumerate(others)}}


_BYTES = _spelling()
_NOTES = "♩♪♫♬♭♮♯"
_SIGNS = [
    *'"#()*+/:;<=>@[\\]^_`{|}~「」『』',
    *[
        "<<",
        ">>",
        "<<<",
        ">>>",
        "--",
        "---",
        "-(",
        "-[",
        "('",
        '("',
        "((",
        "))",
        "(((",
        ")))",
        "[[",
        "]]",
        "{{",
        "}}",
        "♪♪",
        "♪♪♪",
    ],
    *_NOTES,
]
"""What Whisper's authors keep from an answer: names of speakers and of noises stand in them."""
