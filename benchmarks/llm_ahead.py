"""What guessed tokens and common passes are worth: ``python benchmarks/llm_ahead.py PREFIX [--draft PREFIX] [--tokens N]``.

Every line is measured in turns with the plain run beside it, three times, and is the median. Texts are chosen by the benchmark, not by the
model: one that repeats itself, one of tokens at random, and one whose pairs of tokens come again and go on otherwise, the worst for
guesses. Sessions of the second table decode at the same time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import numpy as np
from rknnlite_llm import EmbedTable, Package, open_llm

from rknnlite.spi.llm import (
    InferParams,
    LlmCallbacks,
    LlmContext,
    LlmParams,
    RunSummary,
    TokenInput,
    VocabInfo,
)

PROMPT = list(range(100, 116))
NEVER_ENDS = VocabInfo(ignore_eos_token=True)


def repeating() -> Iterator[int]:
    """A text of 24 tokens again and again."""
    return cycle(range(200, 224))


def random() -> Iterator[int]:
    """Nothing comes again in a way that helps."""
    draw = np.random.default_rng(0)
    return (int(draw.integers(0, 600)) for _ in cycle([0]))


def misleading() -> Iterator[int]:
    """Every third token is another one than the two before it led to the last time."""
    number = 0
    while True:
        yield from (300, 301, 310 + number % 300)
        number += 1


def run(
    context: LlmContext, embed: Any, text: Iterator[int], count: int, speculate: int
) -> tuple[RunSummary, float]:
    """The summary, and processor seconds."""
    params = LlmParams(vocab=NEVER_ENDS, speculate=speculate)
    callbacks = LlmCallbacks(embed=embed, sampling=lambda logits, name: next(text))
    with context.session(params, callbacks) as session:
        before = time.process_time()
        return session.run(
            TokenInput(PROMPT), InferParams(max_new_tokens=count)
        ), time.process_time() - before


def guesses(context: LlmContext, embed: Any, count: int) -> None:
    """Plain and guessed, text by text."""
    texts: list[Callable[[], Iterator[int]]] = [repeating, random, misleading]
    for text in texts:
        rates: dict[int, list[float]] = {0: [], 15: []}
        seconds: dict[int, list[float]] = {0: [], 15: []}
        for _ in range(3):
            for speculate in rates:
                summary, used = run(context, embed, text(), count, speculate)
                rates[speculate].append(summary.tokens_per_second)
                seconds[speculate].append(used)
        plain, ahead = (statistics.median(rates[speculate]) for speculate in rates)
        work = statistics.median(seconds[15]) / statistics.median(seconds[0])
        print(
            f"{text.__name__:12}{plain:8.2f} tokens/s plain {ahead:8.2f} guessed  x{ahead / plain:.2f}  processor time x{work:.2f}  "
            f"{summary.n_guessed_tokens} guessed, {summary.acceptance:.0%} accepted"
        )


def together(context: LlmContext, embed: Any, count: int) -> None:
    """Sessions that decode at the same time."""
    for sessions in (1, 2, 4):
        rates, seconds = [], []
        for _ in range(3):
            opened = [
                context.session(LlmParams(vocab=NEVER_ENDS), LlmCallbacks(embed=embed))
                for _ in range(sessions)
            ]
            for session in opened:
                session.run(TokenInput(PROMPT), InferParams(prefill_only=True))
            start, before = time.perf_counter(), time.process_time()
            turn = InferParams(max_new_tokens=count, keep_history=True)
            for future in [session.run_async(TokenInput([7]), turn) for session in opened]:
                future.result()
            rates.append(sessions * count / (time.perf_counter() - start))
            seconds.append((time.process_time() - before) / (sessions * count))
            for session in opened:
                session.close()
        print(
            f"{sessions} sessions {statistics.median(rates):8.2f} tokens/s together, "
            f"{statistics.median(seconds) * 1000:7.1f} ms of processor per token"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prefix")
    parser.add_argument("--draft", help="a package whose model guesses; without it the conversation does")
    parser.add_argument("--tokens", type=int, default=96)
    given = parser.parse_args()
    package = Package.of(given.prefix)
    with open_llm(package.model, backend="cpu", draft=given.draft) as context:
        embed = EmbedTable(package.embed, context.config.vocab_size, context.config.embedding_dim)
        guesses(context, embed, given.tokens)
        together(context, embed, given.tokens // 4)


if __name__ == "__main__":
    main()
