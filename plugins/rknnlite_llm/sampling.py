"""Choosing the next token.

The order is that of transformers' processors; what a step leaves is what the next one sees:

| step | transformers | llama.cpp |
|---|---|---|
| ``logit_bias`` is added | first | first |
| ``repeat_penalty``, then ``frequency_penalty`` and ``presence_penalty`` | the first one alone | all of them |
| the constraint of an answer | then | before all, or on what was drawn |
| ``temperature`` | then | behind ``min_p`` |
| ``top_k`` | then | then |
| ``top_p``, of the probability that is left | then | then |
| ``min_p``, of the likeliest token's | last | then |

With a temperature of 1 the two are the same. docs/llm.md tells what follows for other temperatures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ParamInvalid
from rknnlite.spi.llm import SamplingParams

__all__ = ["Sampler", "check_sampling"]

Array = NDArray[Any]
_INTEGERS = (int, np.integer)
_NUMBERS = (int, float, np.integer, np.floating)


def check_sampling(params: SamplingParams) -> None:
    """Raise ParamInvalid for values that mean nothing."""
    values = {
        "temperature": (params.temperature, 0.0, 1e4),
        "top_p": (params.top_p, 0.0, 1.0),
        "repeat_penalty": (params.repeat_penalty, 1e-6, 1e4),
        "frequency_penalty": (params.frequency_penalty, -1e4, 1e4),
        "presence_penalty": (params.presence_penalty, -1e4, 1e4),
        "min_p": (params.min_p, 0.0, 1.0),
        **{f"logit_bias[{token}]": (bias, -1e4, 1e4) for token, bias in params.logit_bias},
    }
    for name, (value, low, high) in values.items():
        if not isinstance(value, _NUMBERS) or not low <= value <= high:
            raise ParamInvalid(f"{name} is {value!r}, must be in {low}..{high}")
    if not isinstance(params.top_k, _INTEGERS):
        raise ParamInvalid(f"top_k is {params.top_k!r}, must be a whole number; 0 means all tokens")
    if params.seed is not None and not (isinstance(params.seed, _INTEGERS) and params.seed >= 0):
        raise ParamInvalid(f"seed is {params.seed!r}, must be a whole number from 0 up, or None")
    wrong = [token for token, _ in params.logit_bias if not isinstance(token, _INTEGERS) or token < 0]
    if wrong:
        raise ParamInvalid(f"logit_bias names token {wrong[0]!r}, must be a token id")


class Sampler:
    """Draws tokens; the same seed and the same logits give the same tokens."""

    def __init__(self, params: SamplingParams) -> None:
        """Raises ParamInvalid."""
        check_sampling(params)
        self._params = params
        self._random = np.random.default_rng(params.seed)

    def choose(
        self,
        logits: Array,
        seen: Array,
        counts: Mapping[int, int],
        restrict: Callable[[Array], None] | None = None,
    ) -> int:
        """One token id.

        Args:
            logits: float32 (vocab,); not changed.
            seen: ids of all tokens of the context, once each.
            counts: how often each id was generated in this run.
            restrict: makes the logits of tokens that are not allowed -inf, in place.
        """
        adjusted = self._penalised(logits, seen, counts)
        if restrict is not None:
            adjusted = adjusted.copy() if adjusted is logits else adjusted
            restrict(adjusted)
        p = self._params
        if p.top_k == 1 or p.temperature == 0:
            return int(adjusted.argmax())
        ids = self._candidates(adjusted)
        scores = adjusted[ids].astype(np.float64) / p.temperature
        weights = np.exp(scores - scores[0])
        sums = np.cumsum(weights[: self._nucleus(weights)])
        drawn = int(np.searchsorted(sums, self._random.random() * sums[-1], "right"))
        return int(ids[min(drawn, len(sums) - 1)])

    def _penalised(self, logits: Array, seen: Array, counts: Mapping[int, int]) -> Array:
        """Biases are added; repeat penalty divides positive logits and multiplies negative ones; the other two subtract."""
        p = self._params
        repeat = p.repeat_penalty != 1 and len(seen) > 0
        subtract = bool(counts) and (p.frequency_penalty != 0 or p.presence_penalty != 0)
        if not (repeat or subtract or p.logit_bias):
            return logits
        logits = logits.copy()
        for token, bias in p.logit_bias:
            if token < len(logits):
                logits[token] += np.float32(bias)
        if repeat:
            old = logits[seen]
            logits[seen] = np.where(old > 0, old / p.repeat_penalty, old * p.repeat_penalty)
        if subtract:
            ids = np.fromiter(counts.keys(), np.int64, len(counts))
            times = np.fromiter(counts.values(), np.float32, len(counts))
            logits[ids] -= times * np.float32(p.frequency_penalty) + np.float32(p.presence_penalty)
        return logits

    def _candidates(self, logits: Array) -> Array:
        """Ids that top-k leaves, most likely first."""
        k = self._params.top_k
        if 0 < k < len(logits):
            ids = np.argpartition(logits, -k)[-k:]
            return ids[np.argsort(-logits[ids], kind="stable")]
        return np.argsort(-logits, kind="stable")

    def _nucleus(self, weights: Array) -> int:
        """How many of the candidates ``top_p`` leaves, and of those ``min_p``; at least one.

        Args:
            weights: float64, the likeliest first, which is 1.
        """
        count, p = len(weights), self._params
        if p.top_p < 1:
            sums = np.cumsum(weights)
            count = min(count, int(np.searchsorted(sums, p.top_p * sums[-1])) + 1)
        if p.min_p > 0:
            count = min(count, max(1, int(np.count_nonzero(weights >= p.min_p))))
        return count
