"""Embeddings of texts: passes through the model, and what becomes of the hidden states."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.callbacks import CheckedCallbacks
from rknnlite_llm.container.description import Embedding, LlmModel
from rknnlite_llm.container.family import Pooling
from rknnlite_llm.container.safetensors import SafeTensors
from rknnlite_llm.embedding import length_one

from rknnlite.errors import InputInvalid, ModelUnsupported

from .decoder import Decoder
from .encoder import Encoder
from .kv_cache import KvCache
from .score_head import Scoring
from .weight_reader import WeightReader

__all__ = ["EmbeddingPass"]

Array = NDArray[Any]
_TOKENS = 2048
"""Tokens of several texts that go through the weights together."""
_PLAIN = Embedding(Pooling.LAST, True)
"""What a model that generates text does when it is asked for embeddings."""


class EmbeddingPass:
    """Texts to embeddings, one caller at a time. ``chunk``: tokens of a text that a decoder takes at a time."""

    def __init__(
        self, model: LlmModel, network: Union[Decoder, Encoder], weights: SafeTensors, chunk: int
    ) -> None:
        self._model, self._network, self._chunk = model, network, chunk
        self._form = model.embedding or _PLAIN
        self._turn = threading.Lock()
        found = WeightReader(model, weights)
        self._scoring = Scoring(model.arch, found) if model.arch.scorer else None
        self._second = found.table("second_type") if model.arch.second_type else None

    def __call__(self, texts: Sequence[Array], calls: CheckedCallbacks) -> Array:
        """Token ids of each text -> float32 (texts, hidden). Raises InputInvalid."""
        found = self._all(texts, [len(text) for text in texts], calls, self._form.pooling)
        return length_one(found) if self._form.normalise else found

    def score(self, texts: Sequence[Array], seconds: Sequence[int], calls: CheckedCallbacks) -> Array:
        """Token ids of each text, and where its second part begins -> float32 (texts, labels). Raises InputInvalid."""
        if self._scoring is None:
            raise ModelUnsupported(
                f"model {self._model.name} gives no scores; it was not made for sequence classification"
            )
        return self._scoring(self._all(texts, seconds, calls, self._scoring.form.pooling))

    def _all(
        self, texts: Sequence[Array], seconds: Sequence[int], calls: CheckedCallbacks, pooling: Pooling
    ) -> Array:
        """One hidden state of each text."""
        for number, tokens in enumerate(texts):
            self._check_length(number, len(tokens))
        found = np.empty((len(texts), self._model.arch.hidden), np.float32)
        with self._turn:
            for group in _groups([len(tokens) for tokens in texts]):
                embeds = [calls.embeddings(texts[number]) for number in group]
                if self._second is not None:
                    embeds = [
                        _marked(rows, seconds[number], self._second) for rows, number in zip(embeds, group)
                    ]
                found[group] = [_pooled(rows, pooling) for rows in self._hidden(embeds)]
        return found

    def _check_length(self, number: int, count: int) -> None:
        if not 0 < count <= self._model.max_context:
            raise InputInvalid(
                f"text {number} is {count} tokens long, model {self._model.name} takes 1 to {self._model.max_context}; cut it, or "
                "split it into several texts"
            )

    def _hidden(self, embeds: list[Array]) -> list[Array]:
        if isinstance(self._network, Encoder):
            return self._network.forward(embeds)
        caches = [KvCache(self._model.arch, self._model.kv, self._slots(len(rows))) for rows in embeds]
        for cache, rows in zip(caches, embeds):
            cache.reach = len(rows)
        parts: list[list[Array]] = [[] for _ in embeds]
        longest = max(map(len, embeds))
        chunk = self._chunk if self._model.arch.causal else longest
        for start in range(0, longest, chunk):
            left = [i for i, rows in enumerate(embeds) if start < len(rows)]
            pieces = [(embeds[i][start : start + chunk], caches[i]) for i in left]
            for i, hidden in zip(left, self._network.forward(pieces)):
                parts[i].append(hidden)
        return [np.concatenate(rows) for rows in parts]

    def _slots(self, count: int) -> int:
        group = max(1, self._model.kv.group)
        return -(-count // group) * group

    def forget(self) -> None:
        """After a fork, in the child: whoever computed is not here."""
        self._turn = threading.Lock()


def _marked(rows: Array, second: int, mark: Array) -> Array:
    """Embeddings of a text whose rows from ``second`` on are marked."""
    return np.concatenate([rows[:second], rows[second:] + mark])


def _pooled(rows: Array, pooling: Pooling) -> Array:
    if pooling is Pooling.MEAN:
        return np.asarray(rows.mean(axis=0, dtype=np.float32))
    return np.asarray(rows[0 if pooling is Pooling.CLS else -1])


def _groups(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Numbers of texts that go together, short ones first; a text that is long goes alone."""
    group: list[int] = []
    total = 0
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and total + lengths[number] > _TOKENS:
            yield group
            group, total = [], 0
        group.append(number)
        total += lengths[number]
    if group:
        yield group
