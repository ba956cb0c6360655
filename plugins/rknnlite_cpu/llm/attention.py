"""Attention: what rows of queries see of keys and values.

This is the definition; ``compiled_attention.py`` computes some of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ..kernels.parallel import matmul
from .kv_cache_storage import Store
from .norms_and_activations import capped

__all__ = ["AttentionFunction", "Queries", "attend"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Queries:
    """Scaled queries of some tokens, and what they may see.

    ``turned``: float32 (kv heads, heads per kv head * tokens, head_dim), tokens next to each other;
    ``kept``: the same as the first ``keep`` keys are to be multiplied with, None where nothing is kept;
    ``cap``: of the scores, 0: none; ``mask``: float32 (tokens, keys), which is added to them;
    ``sinks``: float32 (kv heads, rows), a further score of each row, which gives nothing.
    """

    turned: Array
    tokens: int
    kept: Optional[Array] = None
    keep: int = 0
    cap: float = 0.0
    mask: Optional[Array] = None
    sinks: Optional[Array] = None


AttentionFunction = Callable[[Queries, Store, slice], Array]
"""As ``attend``, of keys and values in some slots of a store."""


def attend(queries: Queries, keys: Array, values: Array) -> Array:
    """Softmax over float32 (kv heads, keys, head_dim), weighted sum of values: (kv heads, rows of queries, head_dim)."""
    scores = _scores(queries, keys)
    peak = scores.max(axis=-1, keepdims=True)
    if queries.sinks is not None:
        np.maximum(peak, queries.sinks[..., None], out=peak)
    scores -= peak
    np.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    if queries.sinks is not None:
        total += np.exp(queries.sinks[..., None] - peak)
    out = matmul(scores, values)
    out /= total
    return out


def _scores(queries: Queries, keys: Array) -> Array:
    """(kv heads, rows, keys)."""
    transposed, keep = keys.transpose(0, 2, 1), queries.keep
    if queries.kept is None:
        scores = matmul(queries.turned, transposed)
    else:
        near = queries.turned @ transposed[:, :, keep:]
        scores = np.concatenate([queries.kept @ transposed[:, :, :keep], near], axis=2)
    if queries.cap:
        scores = capped(scores, queries.cap)
    if queries.mask is not None:
        by_token = scores.reshape(len(scores), -1, queries.tokens, scores.shape[2])
        by_token += queries.mask
    return scores
