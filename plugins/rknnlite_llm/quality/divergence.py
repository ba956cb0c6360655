"""How far two models that read the same text diverge in what they expect behind every token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Agreement", "Compared", "compared", "surprise"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Compared:
    """One text: arrays (positions,) float64, in nats.

    Attributes:
        kl: Kullback-Leibler divergence of the candidate from the source, over the whole vocabulary.
        same: both hold the same token for the likeliest, bool.
        source: the source's surprise (minus the logarithm of the probability) at the token that follows.
        candidate: the candidate's.
    """

    kl: Array
    same: Array
    source: Array
    candidate: Array


@dataclass(frozen=True)
class Agreement:
    """Figures over all positions of some texts.

    Attributes:
        tokens: positions that were compared.
        kl_mean, kl_p99, kl_max: Kullback-Leibler divergence from the source, nats per token: mean, 99th percentile, largest.
        top1: share of positions where both hold the same token for the likeliest, 0 to 1.
        perplexity, source_perplexity: of the candidate and of the source on the text.

    Examples:
        >>> from rknnlite_llm.quality import Agreement
        >>> Agreement(10, 0.01, 0.2, 0.3, 0.9, 11.0, 10.0).perplexity_ratio
        1.1
    """

    tokens: int
    kl_mean: float
    kl_p99: float
    kl_max: float
    top1: float
    perplexity: float
    source_perplexity: float

    @property
    def perplexity_ratio(self) -> float:
        """Perplexity over the source's."""
        return self.perplexity / self.source_perplexity

    @classmethod
    def of(cls, texts: Sequence[Compared]) -> Agreement:
        """All positions of all texts count alike. At least one text has a position."""
        kl, same = np.concatenate([text.kl for text in texts]), np.concatenate([text.same for text in texts])
        return cls(
            len(kl),
            float(kl.mean()),
            float(np.percentile(kl, 99)),
            float(kl.max()),
            float(same.mean()),
            _perplexity([text.candidate for text in texts]),
            _perplexity([text.source for text in texts]),
        )


def _perplexity(surprises: Sequence[Array]) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(np.concatenate(surprises).mean()))


def surprise(logits: Array, following: int) -> tuple[Array, float]:
    """Logarithms of the probabilities, float64 (vocab,), and minus that of the token that follows."""
    logs = logits.astype(np.float64)
    logs -= logs.max()
    logs -= np.log(np.exp(logs).sum())
    return logs, -float(logs[following])


def compared(source: Array, candidate: Array, following: int) -> tuple[float, bool, float, float]:
    """``kl``, ``same``, ``source``, ``candidate`` of one position, see ``Compared``; logits (vocab,)."""
    ours, ours_surprise = surprise(source, following)
    theirs, theirs_surprise = surprise(candidate, following)
    kl = float(np.dot(np.exp(ours), ours - theirs))
    return max(kl, 0.0), int(ours.argmax()) == int(theirs.argmax()), ours_surprise, theirs_surprise
