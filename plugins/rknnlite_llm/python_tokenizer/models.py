"""The models of a ``tokenizer.json`` besides BPE: Unigram, WordPiece and WordLevel. A piece of text -> token ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional, Protocol, Union

from .bpe import Bpe, byte_tokens
from .regular_expressions import NotHere

__all__ = ["Model", "model_of"]

_UNKNOWN_PENALTY = 10.0


class Model(Protocol):
    """A vocabulary, and how a piece of text becomes tokens of it."""

    @property
    def vocabulary(self) -> Mapping[str, int]:
        """Tokens and their ids."""

    def ids(self, word: str) -> list[int]:
        """Tokens of one piece."""


def model_of(settings: Mapping[str, Any]) -> Model:
    """The model; raises NotHere, and KeyError, TypeError or ValueError for damaged settings."""
    kind = settings.get("type", "BPE")
    if kind == "Unigram":
        return Unigram(settings)
    if not isinstance(settings["vocab"], dict) or not all(
        isinstance(token, str) and type(number) is int and number >= 0
        for token, number in settings["vocab"].items()
    ):
        raise ValueError("tokens are text with a number each")
    if kind == "BPE":
        return Bpe(settings)
    if kind == "WordPiece":
        return WordPiece(settings)
    if kind == "WordLevel":
        return WordLevel(settings)
    raise NotHere(f"model {kind!r}")


class Unigram:
    """SentencePiece's unigram model: the cut whose tokens have the highest sum of scores (Viterbi)."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        entries = [(str(token), float(score)) for token, score in settings["vocab"]]
        self.vocabulary = {token: number for number, (token, _) in enumerate(entries)}
        self._scores = dict(entries)
        lengths: dict[str, set[int]] = {}
        for token in self.vocabulary:
            lengths.setdefault(token[:1], set()).add(len(token))
        self._lengths = {first: sorted(found) for first, found in lengths.items()}
        self._floor = min((score for _, score in entries), default=0.0) - _UNKNOWN_PENALTY
        self._unknown: Optional[int] = settings.get("unk_id")
        if self._unknown is not None and not 0 <= self._unknown < len(entries):
            raise ValueError(f"unk_id is {self._unknown} of {len(entries)} tokens")
        self._bytes = byte_tokens(self.vocabulary) if settings.get("byte_fallback") else None

    def ids(self, word: str) -> list[int]:
        """Tokens of one piece; raises ValueError where only an unknown token would do and there is none."""
        made: list[int] = []
        for token in self._best(word):
            number = self.vocabulary.get(token)
            made += [number] if number is not None else self._fallen(token)
        return made

    def _fallen(self, token: str) -> list[int]:
        if self._bytes is not None:
            found = [self._bytes[byte] for byte in token.encode("utf-8", "replace")]
            if None not in found:
                return [number for number in found if number is not None]
        if self._unknown is None:
            raise ValueError(f"{token!r} is no token and there is no unknown one")
        return [self._unknown]

    def _best(self, word: str) -> list[str]:
        size, scores = len(word), self._scores
        best: list[Optional[float]] = [0.0, *[None] * size]
        starts, unknown = [0] * (size + 1), [False] * (size + 1)
        for start in range(size):
            so_far, single = best[start], False
            assert so_far is not None
            for length in self._lengths.get(word[start], ()):
                end = start + length
                if end > size:
                    break
                score = scores.get(word[start:end])
                if score is None:
                    continue
                single = single or length == 1
                known = best[end]
                if known is None or so_far + score > known:
                    best[end], starts[end], unknown[end] = so_far + score, start, False
            if not single:
                known, candidate = best[start + 1], so_far + self._floor
                if known is None or candidate > known:
                    best[start + 1], starts[start + 1], unknown[start + 1] = candidate, start, True
        return self._walked(word, starts, unknown)

    def _walked(self, word: str, starts: list[int], unknown: list[bool]) -> list[str]:
        """The tokens of the best way, unknown characters in a row as one."""
        made: list[str] = []
        end = len(word)
        while end:
            start = starts[end]
            if self._unknown is not None and self._is_unknown(word[start:end], unknown[end]):
                while start and self._is_unknown(word[starts[start] : start], unknown[start]):
                    start = starts[start]
            made.append(word[start:end])
            end = start
        return made[::-1]

    def _is_unknown(self, token: str, marked: bool) -> bool:
        return marked or self.vocabulary.get(token) == self._unknown


class WordPiece:
    """BERT's model: the longest token at the begin of what is left of a word, again and again."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.vocabulary: Mapping[str, int] = settings["vocab"]
        self._prefix = str(settings["continuing_subword_prefix"])
        self._longest = int(settings["max_input_chars_per_word"])
        if settings["unk_token"] not in self.vocabulary:
            raise ValueError(f"unk_token {settings['unk_token']!r} is not in the vocabulary")
        self._unknown = self.vocabulary[settings["unk_token"]]

    def ids(self, word: str) -> list[int]:
        """Tokens of one word, the unknown one when no tokens make it up."""
        if len(word) > self._longest:
            return [self._unknown]
        made, start = [], 0
        while start < len(word):
            found = self._longest_at(word, start)
            if found is None:
                return [self._unknown]
            number, start = found
            made.append(number)
        return made

    def _longest_at(self, word: str, start: int) -> Optional[tuple[int, int]]:
        before = self._prefix if start else ""
        for end in range(len(word), start, -1):
            number = self.vocabulary.get(before + word[start:end])
            if number is not None:
                return number, end
        return None


class WordLevel:
    """A token a word."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.vocabulary: Mapping[str, int] = settings["vocab"]
        self._unknown = self.vocabulary.get(settings["unk_token"])

    def ids(self, word: str) -> list[int]:
        """Its token; raises ValueError where only an unknown token would do and there is none."""
        number: Union[int, None] = self.vocabulary.get(word, self._unknown)
        if number is None:
            raise ValueError(f"{word!r} is no token and there is no unknown one")
        return [number]
