"""How fast a language model answers: the time to the first token, and for each one after it."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rknnlite.errors import ParamInvalid
from rknnlite.spi.llm import (
    InferParams,
    LlmCallbacks,
    LlmContext,
    LlmParams,
    RunSummary,
    TokenInput,
    VocabInfo,
)

from .draft_and_adapters import DraftAndAdapters
from .opening import open_llm
from .package import EmbedTable, Package

__all__ = ["Speed", "embeddings", "measure", "open_package"]

_ALONE = DraftAndAdapters()
_FREE_TOKENS = 1000
"""Ids below it are in every vocabulary, where a runtime does not tell its size."""


@dataclass(frozen=True)
class Speed:
    """One prompt length and number of sessions; medians over the runs.

    Attributes:
        prompt_tokens, new_tokens: of one session; fewer new ones than asked for where the model ended before.
        ttft: seconds from the call to the first token, the average of the sessions.
        tpot: seconds for each token after the first, of one session.
        prefill_tps: prompt tokens per second, of all sessions together, by the times that the backend gives.
        decode_tps: tokens after the first per second, of all sessions together.
        guessed_tokens, accepted_tokens: computed ahead, and those of them that were chosen, in all runs together.
    """

    prompt_tokens: int
    sessions: int
    new_tokens: int
    ttft: float
    tpot: float
    prefill_tps: float
    decode_tps: float
    guessed_tokens: int = 0
    accepted_tokens: int = 0


@dataclass(frozen=True)
class _Run:
    """Seconds of ``time.perf_counter``."""

    called: float
    first: float
    summary: RunSummary


def open_package(prefix: str | Path, **options: Any) -> LlmContext:
    """The package ``PREFIX``, or one file that is a whole model; ``options`` as in ``open_llm``."""
    if Path(prefix).suffix == ".rkllm":
        return open_llm(Path(prefix), **options)
    package = Package.of(prefix)
    return open_llm(package.model, package.weight, **options)


def embeddings(prefix: str | Path, context: LlmContext) -> EmbedTable | None:
    """The table of a package; None where the runtime has it."""
    package, config = Package.of(prefix), context.config
    if not package.embed.exists():
        return None
    return EmbedTable(package.embed, config.vocab_size, config.embedding_dim, package.embed_sample())


def measure(
    context: LlmContext,
    embed: EmbedTable | None,
    prompt: int,
    new: int,
    sessions: int = 1,
    runs: int = 3,
    draft_and_adapters: DraftAndAdapters = _ALONE,
) -> Speed:
    """Let so many sessions generate ``new`` tokens behind ``prompt`` made-up ones, at the same time, ``runs`` times.

    ``draft_and_adapters``: what the context was opened with (``DraftAndAdapters.open``). Raises ParamInvalid when the tokens do
    not fit the model's context, or an answer ends at once.
    """
    longest = context.config.max_ctx_len
    if longest and prompt + new > longest:
        raise ParamInvalid(
            f"{prompt} tokens of a prompt and {new} new ones are more than the {longest} of the model's context; use fewer"
        )
    params = LlmParams(
        vocab=VocabInfo(ignore_eos_token=context.traits.endless), speculate=draft_and_adapters.speculate
    )
    opened = [context.session(params, LlmCallbacks(embed=embed)) for _ in range(sessions)]
    try:
        for session in opened:
            draft_and_adapters.enable(session)
        tokens = np.random.default_rng(0).integers(
            0, context.config.vocab_size or _FREE_TOKENS, (sessions, prompt)
        )
        found = [_together(opened, tokens, new) for _ in range(runs)]
        least = min(run.summary.n_decode_tokens for run in itertools.chain(*found))
        if least < 2:
            raise ParamInvalid(
                f"the model ended its answer after {least} tokens, and this runtime cannot have it go on: there is no time "
                "between tokens to be measured"
            )
    finally:
        for session in opened:
            session.close()
    return _speed(prompt, sessions, found)


def _together(sessions: Sequence[Any], tokens: Any, new: int) -> list[_Run]:
    start = threading.Barrier(len(sessions))

    def one(session: Any, row: Any) -> _Run:
        first: list[float] = []

        def result(told: object, state: object) -> None:
            first.append(time.perf_counter())

        session.set_callbacks(LlmCallbacks(result=result, embed=session.callbacks.embed))
        session.clear_kvcache()  # some runtimes spare a beginning that they have computed before
        start.wait()
        called = time.perf_counter()
        summary = session.run(TokenInput(row.tolist()), InferParams(max_new_tokens=new))
        return _Run(called, first[0], summary)

    with ThreadPoolExecutor(len(sessions)) as pool:
        return list(pool.map(one, sessions, tokens))


def _speed(prompt: int, sessions: int, found: Sequence[Sequence[_Run]]) -> Speed:
    rows = [_figures(runs) for runs in found]
    ttft, tpot, prefill, decode = (statistics.median(column) for column in zip(*rows))
    summaries = [run.summary for runs in found for run in runs]
    new = min(summary.n_decode_tokens for summary in summaries)
    guessed, accepted = (
        sum(getattr(summary, name) for summary in summaries)
        for name in ("n_guessed_tokens", "n_accepted_tokens")
    )
    return Speed(prompt, sessions, new, ttft, tpot, prefill, decode, guessed, accepted)


def _figures(runs: Sequence[_Run]) -> tuple[float, float, float, float]:
    """``ttft``, ``tpot``, ``prefill_tps``, ``decode_tps`` of sessions that ran at the same time."""
    later = [run.summary.n_decode_tokens - 1 for run in runs]
    spans = [run.summary.end - run.first for run in runs]
    prefill = max(run.summary.first_token for run in runs) - min(run.summary.start for run in runs)
    decode = max(run.summary.end for run in runs) - min(run.first for run in runs)
    return (
        statistics.fmean(run.first - run.called for run in runs),
        statistics.fmean(span / max(1, count) for span, count in zip(spans, later)),
        sum(run.summary.n_prefill_tokens for run in runs) / max(prefill, 1e-9),
        sum(later) / max(decode, 1e-9),
    )
