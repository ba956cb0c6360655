"""The logits behind every token of a text, as evaluation needs them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray
from rknnlite_llm.callbacks import CheckedCallbacks

from rknnlite.errors import InputInvalid

from .engine import CpuEngine
from .kv_cache import KvCache

__all__ = ["prompt_logits"]

Array = NDArray[Any]
_ROWS = 32
"""Logits at a time: of a vocabulary of 150,000 these are 19 MB."""


def prompt_logits(engine: CpuEngine, tokens: Array, calls: CheckedCallbacks) -> Iterator[Array]:
    """Pieces of float32 (n, vocab) for token ids (n,).

    A pass sees what it adds to the KV cache in float16, as a prefill does. Where the cache is quantised, in groups, a pass
    is a group: all before it is quantised, as for a session that generates. Raises InputInvalid for a text that is too long.
    """
    model, _ = engine.model, engine.steps  # a model that generates nothing is refused here
    if len(tokens) > model.max_context:
        raise InputInvalid(
            f"the text is {len(tokens)} tokens long, model {model.name} takes 1 to {model.max_context}; cut it"
        )
    return _passes(engine, tokens, calls, KvCache(model.arch, model.kv, _slots(len(tokens), model.kv.group)))


def _passes(engine: CpuEngine, tokens: Array, calls: CheckedCallbacks, cache: KvCache) -> Iterator[Array]:
    step = engine.model.kv.group or engine.chunk
    if not engine.model.arch.causal:
        step = len(tokens)
    cache.reach = len(tokens)
    for start in range(0, len(tokens), step):
        embeds = calls.embeddings(tokens[start : start + step])
        hidden, _ = engine.steps.forward(embeds, cache, wants_logits=False)
        for row in range(0, len(hidden), _ROWS):
            yield engine.steps.logits(hidden[row : row + _ROWS])


def _slots(count: int, group: int) -> int:
    group = max(1, group)
    return -(-count // group) * group
