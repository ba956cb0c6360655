"""Choosing tokens on the host: a sampling callback that works on every backend.

It does what a backend's own sampling does, and what the C API has no words for: a seed, ``min_p``, biases, constraints,
and the probabilities of what was chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rknnlite.spi.llm import SamplingParams

from .sampling import Sampler

__all__ = ["Constraint", "HostSampling", "TokenChance"]

Array = NDArray[Any]


class Constraint(Protocol):
    """What an answer may look like; it follows the answer token by token."""

    def restrict(self, logits: Array) -> None:
        """Make the logits of all tokens that may not come next -inf, in place; float32 (vocab,)."""

    def accept(self, token: int) -> None:
        """This token was chosen."""


@dataclass(frozen=True)
class TokenChance:
    """A token that was chosen, the logarithm of its probability before any sampling, and the likeliest ones."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class HostSampling:
    """For one run: ``replace(session.callbacks, sampling=HostSampling(params, prompt))``.

    ``chances`` gets an entry per token when ``top`` is a number, with as many of the likeliest tokens.
    """

    def __init__(
        self,
        params: SamplingParams,
        prompt: Sequence[int] = (),
        constraint: Constraint | None = None,
        top: int | None = None,
    ) -> None:
        """``prompt``: the tokens of the context, which ``repeat_penalty`` counts. Raises ParamInvalid."""
        self._sampler, self._constraint, self._top = Sampler(params), constraint, top
        self._seen = dict.fromkeys(prompt)
        self._counts: Counter[int] = Counter()
        self._repeat = params.repeat_penalty != 1
        self.chances: list[TokenChance] = []

    def saw(self, tokens: Iterable[int]) -> None:
        """More tokens of the context."""
        self._seen.update(dict.fromkeys(tokens))

    def __call__(self, logits: Array, name: str = "") -> int:
        """The next token."""
        values = np.asarray(logits, np.float32).reshape(-1)
        restrict = self._constraint.restrict if self._constraint is not None else None
        seen = np.fromiter(self._seen, np.int64, len(self._seen)) if self._repeat else np.empty(0, np.int64)
        token = self._sampler.choose(values, seen, self._counts, restrict)
        if self._constraint is not None:
            self._constraint.accept(token)
        if self._top is not None:
            self.chances.append(_chance(values, token, self._top))
        self._counts[token] += 1
        self._seen[token] = None
        return token


def _chance(logits: Array, token: int, count: int) -> TokenChance:
    largest = logits.max()
    total = np.log(np.exp(logits - largest, dtype=np.float64).sum()) + np.float64(largest)
    if not count:
        return TokenChance(token, float(logits[token] - total))
    likeliest = np.argpartition(logits, -count)[-count:] if count < len(logits) else np.arange(len(logits))
    likeliest = likeliest[np.argsort(-logits[likeliest], kind="stable")]
    top = tuple((int(i), float(logits[i] - total)) for i in likeliest)
    return TokenChance(token, float(logits[token] - total), top)
