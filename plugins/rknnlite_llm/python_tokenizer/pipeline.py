"""A ``tokenizer.json`` computed in Python: added tokens, normalizer, pre-tokenizer, model, post-processor, decoder.

It gives the same ids and texts as the package ``tokenizers``, which is faster. What is not known is refused by name.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

from .added_tokens import Added, AddedTokens, added_tokens
from .decoders import decoder
from .models import model_of
from .normalisers import normaliser
from .pre_tokenisers import pre_tokeniser
from .regular_expressions import Piece

__all__ = ["MARK_ID", "Encoded", "PlainTokenizer"]

MARK_ID = -1
"""The id of marks, at which texts are cut; no token has it."""

_REMEMBERED, _LONGEST_REMEMBERED = 1 << 14, 64


class Encoded(NamedTuple):
    """The answer of ``encode``; named as in the package."""

    ids: list[int]


class PlainTokenizer:
    """The two calls of ``tokenizers.Tokenizer`` that are used here."""

    def __init__(self, published: Mapping[str, Any], marks: Sequence[str] = ()) -> None:
        """``published``: a parsed ``tokenizer.json``; ``marks``: texts that get the id ``MARK_ID``.

        Raises NotHere for a part that is not computed here, and KeyError, TypeError or ValueError for a damaged one.
        """
        self._normalise = normaliser(published.get("normalizer"))
        self._cut = pre_tokeniser(published.get("pre_tokenizer"))
        self._decode = decoder(published.get("decoder"))
        self._model = model_of(published["model"])
        added = added_tokens(published.get("added_tokens") or [], self._model.vocabulary)
        cuts = [Added(mark, MARK_ID, False, False, False, False, False) for mark in marks]
        self._raw = AddedTokens([*cuts, *(token for token in added if not token.normalised)], str)
        self._normalised = AddedTokens([token for token in added if token.normalised], self._normalise)
        self._tokens = {number: token for token, number in self._model.vocabulary.items()}
        for token in added:  # answers have them as texts are searched for them
            self._tokens[token.number] = self._normalise(token.text) if token.normalised else token.text
        hidden = {token.text for token in added if token.special}
        self._hidden = frozenset(number for number, token in self._tokens.items() if token in hidden)
        self._post = published.get("post_processor")
        self._word = functools.lru_cache(maxsize=_REMEMBERED)(lambda word: tuple(self._model.ids(word)))

    def encode(self, text: str, add_special_tokens: bool = False) -> Encoded:
        """Token ids; added tokens written in the text count as such.

        Raises ValueError for special tokens that are not known here, and a character without any token.
        """
        before, behind = _around(self._post) if add_special_tokens else ((), ())
        ids: list[int] = [*before]
        first = True
        for part in self._raw.split(text):
            if isinstance(part, int):
                ids.append(part)
            else:
                self._plain(part, first, ids)
            first = False
        return Encoded([*ids, *behind])

    def _plain(self, text: str, first: bool, ids: list[int]) -> None:
        first = first and self._normalise(text[:1]) != ""  # what is left begins behind the begin of the text
        for part in self._normalised.split(self._normalise(text)):
            if isinstance(part, int):
                ids.append(part)
            else:
                for piece in self._cut(Piece(part, first)):
                    ids += self._pieces_ids(piece.text)
            first = False

    def _pieces_ids(self, word: str) -> Sequence[int]:
        return self._word(word) if len(word) <= _LONGEST_REMEMBERED else self._model.ids(word)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Text of some tokens; what is no UTF-8 becomes U+FFFD."""
        hidden = self._hidden if skip_special_tokens else frozenset()
        tokens = [self._tokens[number] for number in ids if number in self._tokens and number not in hidden]
        return "".join(self._decode(tokens))


def _around(post: Optional[Mapping[str, Any]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids before and behind a text; raises ValueError for a post-processor that is not known here."""
    before: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    if not post:
        return before, behind
    for step in post["processors"] if post["type"] == "Sequence" else [post]:
        kind = step["type"]
        if kind == "Sequence":
            more = _around(step)
        elif kind == "TemplateProcessing":
            more = _template(step)
        elif kind in ("BertProcessing", "RobertaProcessing"):
            more = (int(step["cls"][1]),), (int(step["sep"][1]),)
        elif kind == "ByteLevel":  # places in the text only
            continue
        else:
            raise ValueError(
                f"its special tokens (post_processor {kind!r}) need the package tokenizers (pip install tokenizers)"
            )
        before, behind = more[0] + before, behind + more[1]
    return before, behind


def _template(step: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    pieces = step["single"]
    places = [i for i, piece in enumerate(pieces) if "Sequence" in piece]
    if len(places) != 1:
        raise ValueError(f"a template for one text has the text {len(places)} times")

    def numbers(part: Sequence[Any]) -> tuple[int, ...]:
        return tuple(
            int(number)
            for piece in part
            for number in step["special_tokens"][piece["SpecialToken"]["id"]]["ids"]
        )

    return numbers(pieces[: places[0]]), numbers(pieces[places[0] + 1 :])
