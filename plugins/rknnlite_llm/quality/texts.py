"""Texts to read: those that come along, in several languages and as code, or a file of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rknnlite.errors import ParamInvalid
from rknnlite.files.reading import read_text

from ..tokenizer import Tokenizer

__all__ = ["Piece", "Text", "packaged_texts", "pieces", "text_file"]

_FOLDER = Path(__file__).parent / "samples"
_FEWEST = 8
"""Tokens of a piece that is worth reading."""


@dataclass(frozen=True)
class Text:
    """A text and what it is called.

    Examples:
        >>> from rknnlite_llm.quality import packaged_texts
        >>> sum(len(text.words.encode()) for text in packaged_texts()) < 30_000
        True
    """

    name: str
    words: str


@dataclass(frozen=True)
class Piece:
    """Consecutive tokens of a text, which a model reads without those before."""

    name: str
    tokens: tuple[int, ...]


def packaged_texts() -> list[Text]:
    """The texts that come along: written for this purpose, or in the public domain."""
    return [Text(path.stem, path.read_text("utf-8")) for path in sorted(_FOLDER.glob("*.txt"))]


def text_file(path: str | Path) -> Text:
    """A file of the user's; raises ParamInvalid."""
    try:
        return Text(Path(path).stem, read_text(Path(path)))
    except (OSError, ValueError) as error:
        raise ParamInvalid(f"{path}: {error}; needed is text in UTF-8") from None


def pieces(texts: Sequence[Text], tokenizer: Tokenizer, length: int, most: int) -> list[Piece]:
    """Pieces of up to ``length`` tokens, together about ``most``: of every text the beginning. Raises ParamInvalid."""
    made: list[Piece] = []
    share = max(_FEWEST, most // max(1, len(texts)))
    for text in texts:
        tokens = tokenizer.encode(text.words, special=True)[:share]
        parts = [tokens[start : start + length] for start in range(0, len(tokens), length)]
        made += [Piece(text.name, tuple(part)) for part in parts if len(part) >= _FEWEST]
    if not made:
        raise ParamInvalid(f"no text has {_FEWEST} tokens; give a longer one")
    return made
