"""Byte pair encoding: of all neighbours the pair that was learnt first is joined first, until no pair is known."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any, Optional

from .regular_expressions import NotHere

__all__ = ["Bpe", "byte_tokens"]


def byte_tokens(vocabulary: Mapping[str, int]) -> list[Optional[int]]:
    """The ids of ``<0x00>`` to ``<0xFF>``, to fall back on."""
    return [vocabulary.get(f"<0x{byte:02X}>") for byte in range(256)]


class Bpe:
    """The model ``BPE`` of a ``tokenizer.json``. Time grows with n log n."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Raises NotHere or ValueError."""
        if settings.get("dropout"):
            raise NotHere(f"dropout {settings['dropout']}, which is for training,")
        self.vocabulary: Mapping[str, int] = settings["vocab"]
        self._prefix = settings.get("continuing_subword_prefix") or ""
        self._suffix = settings.get("end_of_word_suffix") or ""
        self._fused = bool(settings.get("fuse_unk"))
        self._whole = bool(settings.get("ignore_merges"))
        self._bytes = byte_tokens(self.vocabulary) if settings.get("byte_fallback") else None
        unknown = settings.get("unk_token")
        if unknown is not None and unknown not in self.vocabulary:
            raise ValueError(f"unk_token {unknown!r} is not in the vocabulary")
        self._unknown = None if unknown is None else self.vocabulary[unknown]
        self._merges = self._numbered(settings["merges"])

    def _numbered(self, merges: Any) -> dict[tuple[int, int], tuple[int, int]]:
        """Ids of a pair -> its rank and the id of both together."""
        known, made = self.vocabulary, {}
        for rank, merge in enumerate(merges):
            pair = tuple(merge.split(" ") if isinstance(merge, str) else merge)
            if len(pair) != 2 or not all(isinstance(part, str) for part in pair):
                raise ValueError("merges are pairs of tokens")
            first, second = pair
            joined = first + second[len(self._prefix) :]
            if first not in known or second not in known or joined not in known:
                raise ValueError(f"merge {rank} makes {joined!r} of {first!r} and {second!r}, not all tokens")
            made[known[first], known[second]] = rank, known[joined]
        return made

    def ids(self, word: str) -> list[int]:
        """Tokens of one piece."""
        if self._whole and word in self.vocabulary:
            return [self.vocabulary[word]]
        return self._merged(self._symbols(word))

    def _symbols(self, word: str) -> list[int]:
        """One token a character, or its bytes, or the unknown token; nothing where there is none."""
        made: list[int] = []
        pending: Optional[int] = None  # an unknown token that may take in what follows
        last = len(word) - 1
        for i, character in enumerate(word):
            spelt = (self._prefix if i else "") + character + (self._suffix if i == last else "")
            number = self.vocabulary.get(spelt)
            if number is not None:
                made += [number] if pending is None else [pending, number]
                pending = None
                continue
            fallen = self._fallen(spelt)
            if fallen:
                made += fallen
            elif self._unknown is not None:
                if pending is not None and not self._fused:
                    made.append(pending)
                pending = self._unknown
        return made if pending is None else [*made, pending]

    def _fallen(self, spelt: str) -> list[int]:
        if self._bytes is None:
            return []
        found = [self._bytes[byte] for byte in spelt.encode("utf-8", "replace")]
        return [number for number in found if number is not None] if None not in found else []

    def _merged(self, symbols: list[int]) -> list[int]:
        merges, count = self._merges, len(symbols)
        after, before = list(range(1, count + 1)), list(range(-1, count - 1))
        heap = []
        for i, pair in enumerate(zip(symbols, symbols[1:])):
            if pair in merges:
                heap.append((merges[pair][0], i, merges[pair][1]))
        heapq.heapify(heap)
        gone = -1
        while heap:
            _, at, joined = heapq.heappop(heap)
            right = after[at]
            if symbols[at] == gone or right >= count:
                continue
            found = merges.get((symbols[at], symbols[right]))
            if found is None or found[1] != joined:
                continue  # one of the two has been joined with another since
            symbols[at], symbols[right] = joined, gone
            after[at] = after[right]
            if after[at] < count:
                before[after[at]] = at
            for left, there in ((before[at], at), (at, after[at])):
                if left >= 0 and there < count:
                    pair = symbols[left], symbols[there]
                    if pair in merges:
                        heapq.heappush(heap, (merges[pair][0], left, merges[pair][1]))
        return [number for number in symbols if number != gone]
