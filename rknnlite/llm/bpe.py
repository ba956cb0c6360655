"""Byte-level BPE in plain Python, for machines without the package ``tokenizers`` (Debian has none).

It computes the same ids as that package for the tokenizers it takes: a split by regular expression, then merges
of byte-level tokens (GPT-2, Llama 3, Qwen). It is slower, which prompts of a few thousand characters do not show.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

__all__ = ["ByteLevelBpe", "Encoded", "Recipe", "recipe"]

_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space as Unicode defines it; that of ``re`` has four control characters more."""
_CLASS = re.compile(r"\\.(?:\{\w+\})?|[\[\]]", re.S)


@dataclass(frozen=True)
class Recipe:
    """What a tokenizer does. ``added``: tokens that are written out in texts, by text; ``hidden``: special ids.

    ``around``: special tokens before and behind a text that is to have them; None where they are not known here.
    """

    vocabulary: Mapping[str, int]
    merges: Sequence[tuple[str, str]]
    split: str
    added: Mapping[str, int] = field(default_factory=dict)
    hidden: frozenset[int] = frozenset()
    whole_words: bool = False
    nfc: bool = False
    around: Optional[tuple[tuple[int, ...], tuple[int, ...]]] = ((), ())


class Encoded(NamedTuple):
    """The answer of ``encode``; named as in the package."""

    ids: list[int]


class ByteLevelBpe:
    """The two calls of ``tokenizers.Tokenizer`` that are used here."""

    def __init__(self, recipe: Recipe, letters: Mapping[str, int]) -> None:
        """``letters``: what stands for which byte. Raises re.error for a split that is no regular expression."""
        self._recipe = recipe
        self._letters = dict(letters)
        self._letter_of = {byte: letter for letter, byte in letters.items()}
        self._ranks = {pair: rank for rank, pair in enumerate(recipe.merges)}
        self._tokens = {number: token for token, number in itertools.chain(
            recipe.vocabulary.items(), recipe.added.items())}  # fmt: skip
        self._split = re.compile(_translated(recipe.split))
        longest_first = sorted(recipe.added, key=len, reverse=True)
        self._added = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._word = functools.lru_cache(maxsize=1 << 14)(self._merged)

    def encode(self, text: str, add_special_tokens: bool = False) -> Encoded:
        """Token ids; added tokens written in the text count as such. Letters without a token are left out.

        Raises ValueError for special tokens that are not known.
        """
        before, behind = self._around() if add_special_tokens else ((), ())
        ids: list[int] = [*before]
        at = 0
        for match in self._added.finditer(text):
            ids.extend(self._plain(text[at : match.start()]))
            ids.append(self._recipe.added[match.group()])
            at = match.end()
        ids.extend(self._plain(text[at:]))
        return Encoded([*ids, *behind])

    def _around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if self._recipe.around is None:
            raise ValueError("its special tokens need the package tokenizers (pip install 'rknnlite[llm]')")
        return self._recipe.around

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Text of some tokens; what is no UTF-8 becomes U+FFFD."""
        hidden = self._recipe.hidden if skip_special_tokens else frozenset()
        tokens = (self._tokens[number] for number in ids if number in self._tokens and number not in hidden)
        return b"".join(map(self._bytes, tokens)).decode("utf-8", "replace")

    def _bytes(self, token: str) -> bytes:
        if all(letter in self._letters for letter in token):
            return bytes(self._letters[letter] for letter in token)
        return token.encode("utf-8", "replace")

    def _plain(self, text: str) -> Iterable[int]:
        if self._recipe.nfc:
            text = unicodedata.normalize("NFC", text)
        for piece in _pieces(self._split, text):
            yield from self._word("".join(self._letter_of[byte] for byte in piece.encode("utf-8", "replace")))

    def _merged(self, word: str) -> tuple[int, ...]:
        """Ids of one piece: the pair that was learnt first is joined first, everywhere, until no pair is known."""
        vocabulary = self._recipe.vocabulary
        if self._recipe.whole_words and word in vocabulary:
            return (vocabulary[word],)
        parts = list(word)
        while len(parts) > 1:
            known = [self._ranks[pair] for pair in zip(parts, parts[1:]) if pair in self._ranks]
            if not known:
                break
            first, second = self._recipe.merges[min(known)]
            parts = _joined(parts, first, second)
        return tuple(vocabulary[part] for part in parts if part in vocabulary)


def _joined(parts: list[str], first: str, second: str) -> list[str]:
    result: list[str] = []
    at = 0
    while at < len(parts):
        pair = at + 1 < len(parts) and parts[at] == first and parts[at + 1] == second
        result.append(first + second if pair else parts[at])
        at += 2 if pair else 1
    return result


def _pieces(split: re.Pattern[str], text: str) -> Iterable[str]:
    """Matches and what lies between them."""
    at = 0
    for match in split.finditer(text):
        if match.start() > at:
            yield text[at : match.start()]
        if match.group():
            yield match.group()
        at = match.end()
    if at < len(text):
        yield text[at:]


def _translated(pattern: str) -> str:
    r"""``\p{L}``, ``\s`` and their like as lists of characters: ``re`` does not know the former."""
    inside = False

    def replace(match: re.Match[str]) -> str:
        nonlocal inside
        word = match.group()
        if word in "[]":
            inside = word == "["
            return word
        if word.startswith(("\\p{", "\\s")):
            members = _SPACE + word[2:] if word.startswith("\\s") else _members(word[3:-1])
            return members if inside else f"[{members}]"
        return f"[^{_SPACE}]" if word == "\\S" and not inside else word

    return _CLASS.sub(replace, pattern)


@functools.cache
def _members(category: str) -> str:
    """All characters of a Unicode category (``L`` or ``Lu``), as ranges for a character class."""
    ranges: list[list[int]] = []
    for number in range(sys.maxunicode + 1):
        if unicodedata.category(chr(number)).startswith(category):
            if ranges and ranges[-1][1] == number - 1:
                ranges[-1][1] = number
            else:
                ranges.append([number, number])
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)


def recipe(published: Any) -> Optional[Recipe]:
    """The recipe of a parsed ``tokenizer.json``; None when it needs more than is here."""
    model, added = published["model"], published.get("added_tokens") or []
    split = _split_of(published.get("pre_tokenizer"))
    normalizer = (published.get("normalizer") or {"type": None})["type"]
    fancy = any(token.get(key) for token in added for key in ("single_word", "lstrip", "rstrip"))
    extras = ("byte_fallback", "continuing_subword_prefix", "end_of_word_suffix", "unk_token", "dropout")
    if split is None or fancy or normalizer not in (None, "NFC") or any(model.get(key) for key in extras):
        return None
    merges = [tuple(pair.split(" ", 1) if isinstance(pair, str) else pair) for pair in model["merges"]]
    if not all(len(pair) == 2 and all(isinstance(part, str) for part in pair) for pair in merges):
        raise ValueError("merges are pairs of tokens")
    numbers = [*model["vocab"].items(), *((token["content"], token["id"]) for token in added)]
    if not all(isinstance(token, str) and type(number) is int and number >= 0 for token, number in numbers):
        raise ValueError("tokens are text with a number each")
    return Recipe(
        vocabulary=model["vocab"],
        merges=merges,
        split=split,
        added={token["content"]: token["id"] for token in added},
        hidden=frozenset(token["id"] for token in added if token.get("special")),
        whole_words=bool(model.get("ignore_merges")),
        nfc=normalizer == "NFC",
        around=_around(published.get("post_processor")),
    )


def _around(post_processor: Any) -> Optional[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Ids before and behind a text, by the templates of the post-processor; None for one that is not known here."""
    before: list[int] = []
    behind: list[int] = []
    steps = (post_processor or {}).get("processors") or ([post_processor] if post_processor else [])
    for step in steps:
        if step.get("type") == "ByteLevel":
            continue
        if step.get("type") != "TemplateProcessing":
            return None
        pieces = step["single"]
        middle = next(i for i, piece in enumerate(pieces) if "Sequence" in piece)
        before[:0] = _special_ids(step, pieces[:middle])
        behind += _special_ids(step, pieces[middle + 1 :])
    return tuple(before), tuple(behind)


def _special_ids(step: Any, pieces: Sequence[Any]) -> list[int]:
    return [
        number for piece in pieces for number in step["special_tokens"][piece["SpecialToken"]["id"]]["ids"]
    ]


def _split_of(pre_tokenizer: Any) -> Optional[str]:
    """The regular expression of ``Sequence(Split(isolated), ByteLevel)``, the one form that is known here."""
    steps = (pre_tokenizer or {}).get("pretokenizers") or []
    if [step.get("type") for step in steps] != ["Split", "ByteLevel"]:
        return None
    split, level = steps
    plain = split.get("behavior") == "Isolated" and not split.get("invert")
    plain = plain and not level.get("add_prefix_space") and not level.get("use_regex")
    pattern = (split.get("pattern") or {}).get("Regex")
    return pattern if plain and isinstance(pattern, str) else None
