"""The draft model: a smaller one of the same vocabulary, which guesses what the larger one will say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
from rknnlite_llm.container.description import LlmModel, read_llm
from rknnlite_llm.package import EmbedTable, Package

from rknnlite.errors import ModelInvalid, ParamInvalid
from rknnlite.formats import ModelFile

from .attention import AttentionFunction
from .engine import CpuEngine
from .kv_cache import KvCache
from .linear import Maker, make_linear

__all__ = ["Draft", "DraftGuesser"]


class Draft:
    """The model and its embeddings, shared by all sessions."""

    def __init__(
        self,
        prefix: Any,
        model: LlmModel,
        chunk: int,
        make: Maker = make_linear,
        attention: Optional[AttentionFunction] = None,
    ) -> None:
        """Open the package ``prefix`` to guess for ``model``. Raises ModelInvalid, ModelUnsupported or ParamInvalid."""
        package = Package.of(prefix)
        for path in (package.model, package.weight, package.embed):
            if not Path(path).exists():
                raise ModelInvalid(f"draft {prefix}: {path} is not there; export the model again")
        draft = read_llm(ModelFile(package.model))
        _check_vocabulary(draft, model)
        self.engine = CpuEngine(draft, ModelFile(package.weight), chunk, make, attention)
        _ = self.engine.steps  # of a model that generates text
        self.embed = EmbedTable(
            package.embed, draft.arch.vocab_size, draft.arch.row_size, package.embed_sample()
        )

    def guesser(self, size: int) -> DraftGuesser:
        """For one session with a cache of ``size`` tokens."""
        return DraftGuesser(self, size)


class DraftGuesser:
    """The draft's likeliest tokens; it remembers what it has read, in a KV cache of its own."""

    def __init__(self, draft: Draft, size: int) -> None:
        self._draft, model = draft, draft.engine.model
        group = max(1, model.kv.group)
        self._cache = KvCache(model.arch, model.kv, max(group, min(size, model.max_context) // group * group))
        self._read: list[int] = []

    def guess(self, tokens: Sequence[int], count: int) -> list[int]:
        """See ``Guesser``; pictures are not seen."""
        text = [token for token in tokens if token >= 0]
        count = min(count, self._cache.size - len(text) + 1)
        if count <= 0:
            return []
        longest = min(len(self._read), len(text) - 1)
        same = next((i for i in range(longest) if self._read[i] != text[i]), longest)
        if self._cache.states is not None:
            same = self._cache.nearest(same)
            self._cache.states.wanted = {len(text)}
        self._cache.truncate(same)
        guessed = [self._likeliest(text[same:])]
        while len(guessed) < count:
            guessed.append(self._likeliest(guessed[-1:]))
        self._read = text + guessed[:-1]
        return guessed

    def _likeliest(self, tokens: list[int]) -> int:
        """The token behind these."""
        engine, logits = self._draft.engine, None
        for start in range(0, len(tokens), engine.chunk):
            ids = np.array(tokens[start : start + engine.chunk], np.int32)
            rows = np.asarray(self._draft.embed(ids), np.float32)
            _, logits = engine.steps.forward(rows, self._cache, start + len(ids) == len(tokens))
        assert logits is not None
        return int(logits.argmax())


def _check_vocabulary(draft: LlmModel, model: LlmModel) -> None:
    sizes = draft.arch.vocab_size, model.arch.vocab_size
    if sizes[0] != sizes[1]:
        raise ParamInvalid(
            f"draft {draft.name} has {sizes[0]} tokens, model {model.name} {sizes[1]}; a draft needs the same vocabulary"
        )
    ours, theirs = draft.tokens, model.tokens
    if ours is None or theirs is None:
        return
    wrong = next((i for i in range(sizes[0]) if ours[i] != theirs[i]), None)
    if wrong is not None:
        raise ParamInvalid(
            f"token {wrong} of draft {draft.name} is {ours[wrong]!r}, of model {model.name} {theirs[wrong]!r}; a draft needs "
            "the same vocabulary"
        )
