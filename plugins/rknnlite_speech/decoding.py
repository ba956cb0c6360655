"""One window of sound into tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid

from .time_rules import bind_times, log_softmax
from .vocabulary import SpecialTokens

__all__ = ["MOST_TOKENS", "Answer", "Rules", "decode", "fitted", "language_of", "no_speech"]

Array = NDArray[Any]
Step = Callable[[Sequence[int]], Array]
"""Tokens to the logits, float32 (tokens,), of the one behind them."""
MOST_TOKENS = 224
"""Of a window, as Whisper's authors bound it."""


@dataclass(frozen=True)
class Answer:
    """Tokens without the prompt and the end, and the mean of the logarithms of their probabilities."""

    tokens: tuple[int, ...]
    avg_logprob: float


@dataclass(frozen=True)
class Rules:
    """Which tokens may be chosen.

    ``never``: not these; ``not_first``: no answer begins with them, nor is one empty; ``times`` are told, in pairs.
    """

    special: SpecialTokens
    times: bool = False
    never: Sequence[int] = ()
    not_first: Sequence[int] = ()


def fitted(tokens: Sequence[int], prompt: int, size: int, filler: int) -> tuple[list[int], int]:
    """``size`` tokens for a decoder that takes just so many, and which of them is the last.

    While they fit, each is where Whisper was trained to have it, and what follows is filled: no token sees those behind it.
    Then the first ``prompt`` stay, and of the others the latest that fit, as in the model zoo's program.
    """
    if len(tokens) <= size:
        return [*tokens, *[filler] * (size - len(tokens))], len(tokens) - 1
    return [*tokens[:prompt], *tokens[len(tokens) - (size - prompt) :]], size - 1


def decode(
    step: Step, prompt: Sequence[int], rules: Rules, temperature: float, rng: np.random.Generator
) -> Answer:
    """The likeliest tokens behind ``prompt`` one by one, or above ``temperature`` 0 drawn ones."""
    special = rules.special
    made: list[int] = []
    total = 0.0
    while len(made) < MOST_TOKENS:
        logits = np.array(step([*prompt, *made]), np.float32)
        if not np.isfinite(logits).all():
            raise ModelInvalid("the decoder computed logits that are no finite numbers")
        logits[special.end + 1 : special.first_time] = -np.inf  # what steers
        logits[list(rules.never)] = -np.inf
        if not rules.times:
            logits[special.first_time :] = -np.inf
        if not made:
            logits[[special.end, *rules.not_first]] = -np.inf
        if rules.times:
            bind_times(logits, made, special)
        chances = log_softmax(logits)
        token = _chosen(chances, temperature, rng)
        total += float(chances[token])
        if token == special.end:
            break
        made.append(token)
    return Answer(tuple(made), total / (len(made) + 1))


def _chosen(chances: Array, temperature: float, rng: np.random.Generator) -> int:
    if temperature <= 0:
        return int(chances.argmax())
    shares = np.exp(log_softmax(chances.astype(np.float64) / temperature))
    return int(rng.choice(len(shares), p=shares / shares.sum()))


def language_of(step: Step, special: SpecialTokens) -> str:
    """The likeliest language of a window."""
    logits = step([special.start])
    return max(special.languages, key=lambda name: float(logits[special.languages[name]]))


def no_speech(step: Step, special: SpecialTokens) -> float:
    """How likely nobody speaks in a window."""
    return float(np.exp(log_softmax(np.asarray(step([special.start]), np.float64))[special.no_speech]))
