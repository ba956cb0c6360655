"""SentencePiece's ``tokenizer.model`` (a protobuf message) as the ``tokenizer.json`` that computes the same.

Fields of the message that matter: pieces (text, score, type), the kind of model, whether bytes are fallen back on,
the table of replacements, the blank in front, and whether blanks in a row are one.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Union

from rknnlite.errors import ModelInvalid, ModelUnsupported

__all__ = ["ENDS", "Piece", "SentencePieces", "merges_of", "published", "read_sentencepiece"]

MARK = "\u2581"
ENDS = r"\A +| +\z"
"""Blanks around a text."""
_PLAIN, _UNKNOWN, _CONTROL, _USER, _BYTE = 1, 2, 3, 4, 6
_KINDS = {1: "Unigram", 2: "BPE"}
_WIDTHS = {1: 8, 5: 4}


class Piece(NamedTuple):
    """A token, its score, and its type: 1 text, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class SentencePieces:
    """What a ``tokenizer.model`` says.

    ``prefix``: a blank is put in front of a text, before every part between special tokens if ``prefix_always``; ``tidy``:
    blanks in a row are one, those at the ends none; ``bos``, ``eos``: ids around a text, -1: none.
    """

    pieces: Sequence[Piece]
    model: str = "Unigram"
    byte_fallback: bool = False
    charsmap: bytes = b""
    prefix: bool = True
    prefix_always: bool = True
    tidy: bool = True
    bos: int = -1
    eos: int = -1
    merges: Sequence[tuple[str, str]] = field(default_factory=tuple)


def read_sentencepiece(data: bytes, label: str) -> SentencePieces:
    """Parse a file; raises ModelInvalid for a damaged one, ModelUnsupported for a kind of model that is not computed here."""
    pieces: list[Piece] = []
    trainer: dict[int, Any] = {}
    normal: dict[int, Any] = {}
    try:
        for number, value in _fields(data):
            if number == 1:
                pieces.append(_piece(value))
            elif number == 2:
                trainer = dict(_fields(value))
            elif number == 3:
                normal = dict(_fields(value))
    except (ValueError, TypeError, IndexError, struct.error) as error:
        raise ModelInvalid(f"{label}: not a SentencePiece model, or damaged: {error}") from None
    if not pieces:
        raise ModelInvalid(f"{label}: not a SentencePiece model: it has no pieces")
    kind = trainer.get(3, 1)
    if kind not in _KINDS or trainer.get(24) or normal.get(5, 1) != 1:
        what = f"model type {kind}" if kind not in _KINDS else "white space as a suffix or not escaped"
        raise ModelUnsupported(f"{label}: {what} is not computed here; there are unigram (1) and BPE (2)")
    return SentencePieces(
        pieces=pieces,
        model=_KINDS[kind],
        byte_fallback=bool(trainer.get(35)),
        charsmap=bytes(normal.get(2, b"")),
        prefix=bool(normal.get(3, 1)),
        tidy=bool(normal.get(4, 1)),
        bos=_signed(trainer.get(41, 1)),
        eos=_signed(trainer.get(42, 2)),
    )


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _piece(data: bytes) -> Piece:
    values = dict(_fields(data))
    score = struct.unpack("<f", values[2])[0] if 2 in values else 0.0
    return Piece(values.get(1, b"").decode("utf-8", "replace"), score, values.get(3, _PLAIN))


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of every field: an int, or bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        value: Union[int, bytes]
        if wire == 0:
            value, at = _varint(data, at)
        elif wire == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        elif wire in _WIDTHS:
            value, at = data[at : at + _WIDTHS[wire]], at + _WIDTHS[wire]
        else:
            raise ValueError(f"field {number} of wire type {wire}")
        if at > len(data):
            raise ValueError(f"field {number} ends behind byte {len(data)}")
        yield number, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value & ((1 << 64) - 1), at
    raise ValueError(f"a number of more than ten bytes at byte {at}")


def published(model: SentencePieces) -> dict[str, Any]:
    """The ``tokenizer.json`` that computes the same."""
    marked = any(MARK in piece.text for piece in model.pieces if piece.kind == _USER)
    steps: list[dict[str, Any]] = []
    if model.charsmap:
        packed = base64.b64encode(model.charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": packed})
    if model.tidy:
        steps.append({"type": "Replace", "pattern": {"Regex": ENDS}, "content": ""})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    # in front of a blank, too, as Metaspace does not
    doubled = model.prefix and model.prefix_always and not model.tidy
    if (marked and model.prefix) or doubled:
        steps.append({"type": "Prepend", "prepend": MARK})
    if marked:  # user defined tokens with blanks: they are looked for where blanks are marks already
        steps.append({"type": "Replace", "pattern": {"String": " "}, "content": MARK})
    where = (
        "never" if doubled or not model.prefix else "always" if model.prefix_always or model.tidy else "first"
    )
    space = {
        "type": "Metaspace",
        "replacement": MARK,
        "prepend_scheme": where,
        "split": all(piece.text.rfind(MARK) < 1 for piece in model.pieces),
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(model, marked),
        "normalizer": {"type": "Sequence", "normalizers": steps} if steps else None,
        "pre_tokenizer": None if marked else space,
        "post_processor": _around(model),
        "decoder": _decoder(model.prefix),
        "model": _unigram(model) if model.model == "Unigram" else _bpe(model),
    }


def _added(model: SentencePieces, marked: bool) -> list[dict[str, Any]]:
    shown = {_UNKNOWN: True, _CONTROL: True, _USER: False}
    return [
        {
            "id": number,
            "content": piece.text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": marked and piece.kind == _USER and MARK in piece.text,
            "special": shown[piece.kind],
        }
        for number, piece in enumerate(model.pieces)
        if piece.kind in shown and piece.text
    ]


def _around(model: SentencePieces) -> Any:
    text = {"Sequence": {"id": "A", "type_id": 0}}
    known = [number for number in (model.bos, model.eos) if 0 <= number < len(model.pieces)]
    if not known:
        return None

    def part(number: int) -> list[Any]:
        return [{"SpecialToken": {"id": model.pieces[number].text, "type_id": 0}}] if number in known else []

    special = {
        model.pieces[n].text: {"id": model.pieces[n].text, "ids": [n], "tokens": [model.pieces[n].text]}
        for n in known
    }
    whole = [*part(model.bos), text, *part(model.eos)]
    return {"type": "TemplateProcessing", "single": whole, "pair": whole, "special_tokens": special}


def _decoder(prefix: bool) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": MARK}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if prefix:
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {"type": "Sequence", "decoders": steps}


def _unknown_id(model: SentencePieces) -> Any:
    return next((number for number, piece in enumerate(model.pieces) if piece.kind == _UNKNOWN), None)


def _unigram(model: SentencePieces) -> dict[str, Any]:
    vocab = [[piece.text, piece.score] for piece in model.pieces]
    return {
        "type": "Unigram",
        "unk_id": _unknown_id(model),
        "vocab": vocab,
        "byte_fallback": model.byte_fallback,
    }


def _bpe(model: SentencePieces) -> dict[str, Any]:
    vocab = {piece.text: number for number, piece in enumerate(model.pieces)}
    unknown = _unknown_id(model)
    scores = {piece.text: piece.score for piece in model.pieces if piece.kind == _PLAIN}
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None if unknown is None else model.pieces[unknown].text,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": model.byte_fallback,
        "ignore_merges": False,
        "vocab": vocab,
        "merges": [list(pair) for pair in model.merges or merges_of(vocab, scores)],
    }


def merges_of(vocab: Mapping[str, int], scores: Mapping[str, float]) -> list[tuple[str, str]]:
    """The pairs that make up the tokens, the one of the highest score first."""
    found = []
    for token, score in scores.items():
        for i in range(1, len(token)):
            first, second = token[:i], token[i:]
            if first in vocab and second in vocab:
                found.append((-score, vocab[token], -len(first), (first, second)))
    return [pair for *_, pair in sorted(found)]
