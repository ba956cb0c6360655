"""The peers' chain of sampling, step by step over all logits: what ``rknnlite_llm.sampling`` must draw from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rknnlite.spi.llm import SamplingParams

__all__ = ["SETTINGS", "paired", "total_variation", "wanted"]

SETTINGS: Mapping[str, object] = {
    "logit_bias": ((2, 1.5), (7, -2.0)),
    "repeat_penalty": 1.6,
    "frequency_penalty": 0.4,
    "presence_penalty": 0.5,
    "temperature": 0.6,
    "top_k": 7,
    "top_p": 0.8,
    "min_p": 0.1,
}


def paired(one: str, other: str) -> SamplingParams:
    """Both settings of ``SETTINGS``, everything else without effect."""
    return SamplingParams(**{"top_k": 0, "seed": 11, one: SETTINGS[one], other: SETTINGS[other]})  # type: ignore[arg-type]


def wanted(
    params: SamplingParams, logits: NDArray[np.float32], seen: list[int], counts: Mapping[int, int]
) -> NDArray[np.float64]:
    """float64 (vocab,), the probability of each token."""
    scores = logits.astype(np.float64)
    for token, bias in params.logit_bias:
        scores[token] += bias
    for token in seen:
        scores[token] = (
            scores[token] / params.repeat_penalty
            if scores[token] > 0
            else scores[token] * params.repeat_penalty
        )
    for token, times in counts.items():
        scores[token] -= times * params.frequency_penalty + params.presence_penalty
    scores /= params.temperature
    if params.top_k > 0:
        scores[scores < np.sort(scores)[-params.top_k]] = -np.inf
    likeliest = np.argsort(-scores)
    before = np.cumsum(_softmax(scores)[likeliest]) - _softmax(scores)[likeliest]
    scores[likeliest[before >= params.top_p]] = -np.inf
    chances = _softmax(scores)
    scores[chances < params.min_p * chances.max()] = -np.inf
    return _softmax(scores)


def total_variation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Half of the sum of the differences: 0 the same, 1 nothing in common."""
    return float(np.abs(one - other).sum() / 2)


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    raised = np.exp(scores - scores.max())
    return np.asarray(raised / raised.sum())
