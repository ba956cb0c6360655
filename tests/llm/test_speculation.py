"""Guessed tokens change nothing but the time: greedy and drawn answers, rules, caches and stops are those without guesses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count, cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.llm import speculation
from rknnlite_cpu.llm.continuous_batching import StepBatcher
from rknnlite_cpu.llm.speculation import Lookup, Pace
from rknnlite_llm import Package, export_llm, open_llm
from rknnlite_llm.host_sampling import HostSampling

from rknnlite.errors import ModelInvalid, ParamInvalid
from rknnlite.spi.llm import (
    CallState,
    InferParams,
    KvPolicy,
    LlmCallbacks,
    LlmContext,
    LlmParams,
    RunSummary,
    SamplingParams,
    TokenInput,
    VocabInfo,
)
from tests.llm.conftest import Maker, Recorder, embed_of
from tests.llm.family_goldens import CASES
from tests.llm.test_families import exported, table_of
from tests.support.llm_models import VOCAB, write_model

pytestmark = pytest.mark.slow

PLAIN = LlmParams(vocab=VocabInfo(ignore_eos_token=True))
ALONE = replace(PLAIN, speculate=0)
GUESSING = replace(PLAIN, speculate=7)
DECODERS = [case.name for case in CASES if not (case.embeds or case.scores)]
PROMPT = [5, 9, 9, 3, 40, 7, 5, 9, 9]


@pytest.fixture(autouse=True)
def even_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pass takes as long as any other, so that guessing always pays."""
    ticks = count()
    monkeypatch.setattr(speculation, "time", SimpleNamespace(perf_counter=lambda: float(next(ticks))))


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tokens of every pass through the weights."""
    sizes: list[int] = []
    before = StepBatcher._through

    def counted(self: Any, entry: Any) -> Any:
        sizes.append(len(entry.rows))
        return before(self, entry)

    monkeypatch.setattr(StepBatcher, "_through", counted)
    return sizes


def prefix(package: Package) -> str:
    return str(package.model)[: -len(".rknn")]


def said(
    context: LlmContext,
    embed: Any,
    params: LlmParams,
    limit: int = 128,
    prompt: list[int] = PROMPT,
    **calls: Any,
) -> tuple[list[int], RunSummary]:
    heard = Recorder()
    with context.session(params, LlmCallbacks(result=heard, embed=embed, **calls)) as session:
        summary = session.run(TokenInput(prompt), InferParams(max_new_tokens=limit))
    assert heard.states[-1] == summary.state
    return heard.tokens, summary


@pytest.mark.parametrize("name", DECODERS)
def test_every_family_says_the_same(name: str, tmp_path: Path) -> None:
    _, package = exported(name, tmp_path)
    for options in ({}, {"draft": prefix(package)}):
        with open_llm(package.model, **options) as context:
            embed = table_of(context, package)
            plain, _ = said(context, embed, ALONE, prompt=[4, 7] * 9)
            guessed, summary = said(context, embed, GUESSING, prompt=[4, 7] * 9)
            assert guessed == plain
            assert summary.n_decode_tokens == len(plain) == 128
            assert summary.acceptance > 0.5 or not options


@pytest.mark.parametrize("kvcache", ["f32", "f16", "int8", "int4"])
@pytest.mark.parametrize("weights", ["f32", "w8", "w4"])
def test_weights_and_caches_of_every_type(package: Maker, weights: str, kvcache: str) -> None:
    made = package("qwen3", weights, kvcache)
    with open_llm(made.model, draft=prefix(made)) as context:
        plain, _ = said(context, embed_of(made), ALONE)
        guessed, summary = said(context, embed_of(made), GUESSING)
        assert guessed == plain and summary.n_accepted_tokens > 60


def test_a_draft_guesses(package: Maker, tmp_path: Path, passes: list[int]) -> None:
    """The model itself guesses everything right, another one hardly anything; both change no token."""
    made = package("qwen2")
    write_model(tmp_path / "hf", "qwen2", seed=3)
    other = export_llm(tmp_path / "hf", tmp_path / "other", "f32")
    with open_llm(made.model) as context:
        plain, _ = said(context, embed_of(made), PLAIN)
    with open_llm(made.model, draft=prefix(made)) as context:
        guessed, summary = said(context, embed_of(made), PLAIN)
        assert guessed == plain and summary.acceptance == 1
        assert summary.n_accepted_tokens > 90 and summary.tokens_per_second > 0
        never, summary = said(context, embed_of(made), ALONE)
        assert never == plain and summary.n_guessed_tokens == 0 == summary.acceptance
    with open_llm(made.model, draft=Package.of(tmp_path / "other").model) as context:
        guessed, summary = said(context, embed_of(made), PLAIN)
        assert guessed == plain and summary.acceptance < 0.9
    assert other.model.exists()


def test_a_draft_follows_several_turns(package: Maker) -> None:
    made = package("qwen2")
    heard: list[list[int]] = []
    for options in ({}, {"draft": prefix(made)}):
        recorder = Recorder()
        with open_llm(made.model, **options) as context:
            session = context.session(PLAIN, LlmCallbacks(result=recorder, embed=embed_of(made)))
            for turn in ([1, 2, 3], [4, 5], [6]):
                session.run(TokenInput(turn), InferParams(max_new_tokens=30, keep_history=True))
            session.clear_kvcache()
            session.run(TokenInput([1, 2, 9]), InferParams(max_new_tokens=30))
        heard.append(recorder.tokens)
    assert heard[0] == heard[1] and len(heard[0]) == 120


def test_fewer_passes(package: Maker, passes: list[int]) -> None:
    """Text that repeats itself, whoever chooses it."""
    made, text = package("qwen2"), [11, 12, 13, 14, 15, 16, 17, 18]
    with open_llm(made.model) as context:
        words = cycle(text)
        guessed, summary = said(context, embed_of(made), GUESSING, sampling=lambda logits, name: next(words))
    assert guessed == text * 16
    assert len(passes) < 40 and summary.acceptance > 0.9
    assert sum(passes[1:]) == len(passes) - 1 + summary.n_guessed_tokens


@pytest.mark.parametrize("policy", [KvPolicy.RECURRENT, KvPolicy.NORMAL])
@pytest.mark.parametrize("kvcache", ["f32", "int4"])
def test_a_cache_that_gets_full(package: Maker, policy: KvPolicy, kvcache: str) -> None:
    made = package("qwen3", "f32", kvcache)
    answers = []
    for params in (PLAIN, GUESSING):
        heard = Recorder()
        with open_llm(made.model) as context:
            session = context.session(
                replace(params, max_context_len=64), LlmCallbacks(heard, embed=embed_of(made))
            )
            session.set_kvcache_policy(policy, 4 if policy == KvPolicy.RECURRENT else 0)
            summary = session.run(TokenInput(PROMPT), InferParams(max_new_tokens=100))
            answers.append((heard.tokens, summary.state, session.state().n_total_tokens))
    assert answers[0] == answers[1]


def test_the_same_seed_draws_the_same(package: Maker) -> None:
    made = package("qwen2")
    drawing = SamplingParams(top_k=0, temperature=0.3, repeat_penalty=1.1, seed=11)
    with open_llm(made.model, draft=prefix(made)) as context:
        for sampling in (drawing, replace(drawing, top_k=5, top_p=0.8, frequency_penalty=0.3)):
            plain, _ = said(context, embed_of(made), replace(ALONE, sampling=sampling))
            guessed, summary = said(context, embed_of(made), replace(GUESSING, sampling=sampling))
            assert guessed == plain and 0 < summary.acceptance < 1


def test_drawn_tokens_have_the_models_distribution(package: Maker) -> None:
    """Chi-squared of the last two of four drawn tokens, against the chances that the model's own logits give them."""
    made = package("qwen2")
    sampling = SamplingParams(top_k=3, temperature=2.0)
    pairs: Counter[tuple[int, ...]] = Counter()
    chances: dict[tuple[int, ...], float] = {}
    rows: list[np.ndarray] = []

    def see(outputs: Any, state: Any) -> None:
        rows.append(outputs[0].data[0].astype(np.float64))

    def share(logits: np.ndarray, token: int) -> float:
        best = np.sort(logits)[-3:]
        return float(np.exp((logits[token] - best[-1]) / 2) / np.exp((best - best[-1]) / 2).sum())

    with open_llm(made.model, draft=prefix(made)) as context:
        params = replace(PLAIN, sampling=replace(sampling, seed=5), speculate=3)
        heard = Recorder()
        calls = LlmCallbacks(heard, embed=embed_of(made), output=see, outputs=(0,))
        session = context.session(params, calls)
        guessed = 0
        for _ in range(800):
            heard.calls.clear()
            rows.clear()
            guessed += session.run(TokenInput([3, 1]), InferParams(max_new_tokens=4)).n_accepted_tokens
            tokens = tuple(heard.tokens)
            pairs[tokens[2:]] += 1
            chances[tokens] = float(np.prod([share(row, token) for row, token in zip(rows, tokens)]))
    assert guessed > 250
    expected: Counter[tuple[int, ...]] = Counter()
    for tokens, chance in chances.items():
        expected[tokens[2:]] += chance * 800
    known = sum(expected.values())
    assert known > 770  # nearly all that can be drawn was drawn
    often = [pair for pair, number in expected.items() if number > 5]
    chi = sum((pairs[pair] - expected[pair]) ** 2 / expected[pair] for pair in often)
    assert chi < len(often) + 4 * np.sqrt(2 * len(often))


class EvenOnly:
    """A rule that follows the answer."""

    def __init__(self) -> None:
        self.accepted: list[int] = []

    def restrict(self, logits: np.ndarray) -> None:
        logits[len(self.accepted) % 2 :: 2] = -np.inf

    def accept(self, token: int) -> None:
        self.accepted.append(token)


def test_rules_hold(package: Maker) -> None:
    made = package("qwen2")
    answers = []
    with open_llm(made.model) as context:
        for params in (PLAIN, GUESSING):
            rule = EvenOnly()
            sampling = HostSampling(SamplingParams(), constraint=rule, top=2)
            tokens, summary = said(context, embed_of(made), params, sampling=sampling)
            assert rule.accepted == tokens == [chance.token for chance in sampling.chances]
            assert all(token % 2 != number % 2 for number, token in enumerate(tokens))
            answers.append(tokens)
    assert answers[0] == answers[1] and summary.n_accepted_tokens > 0


@pytest.mark.parametrize("kvcache", ["f32", "int8"])
def test_a_run_stopped_in_the_middle_leaves_what_was_chosen(
    package: Maker, kvcache: str, tmp_path: Path
) -> None:
    """Stopped between guesses: the cache has the tokens that were told, and the next turn and a saved cache go on from them."""
    made = package("qwen3", "f32", kvcache)
    results, opened = [], []
    for number, params in enumerate((PLAIN, GUESSING)):
        with open_llm(made.model) as context:
            heard = Recorder()

            def result(tokens: Any, state: CallState, heard: Recorder = heard) -> None:
                heard(tokens, state)
                if len(heard.tokens) == 57:
                    opened[-1].stop()

            session = context.session(params, LlmCallbacks(result, embed=embed_of(made)))
            opened.append(session)
            summary = session.run(TokenInput(PROMPT), InferParams(max_new_tokens=128))
            assert summary.state == CallState.STOP and session.state().n_total_tokens == len(PROMPT) + 56
            session.save_kvcache(str(tmp_path / f"kv{number}"))
            session.run(TokenInput([8]), InferParams(max_new_tokens=9, keep_history=True))
            other = context.session(PLAIN, LlmCallbacks(heard, embed=embed_of(made)))
            other.load_kvcache(str(tmp_path / f"kv{number}"))
            other.run(TokenInput([8]), InferParams(max_new_tokens=9, keep_history=True))
            assert heard.tokens[57:66] == heard.tokens[66:]
            results.append((heard.tokens, summary.n_decode_tokens))
    assert results[0] == results[1]


def test_sessions_guess_together(package: Maker) -> None:
    """Guesses of several sessions go through the weights together; each says what it says alone."""
    made = package("qwen2")
    prompts = [[1, 2, 3], [4] * 7, [9, 8], PROMPT]
    with open_llm(made.model) as context:
        alone = [said(context, embed_of(made), PLAIN, prompt=prompt)[0] for prompt in prompts]
        heard = [Recorder() for _ in prompts]
        sessions = [context.session(GUESSING, LlmCallbacks(one, embed=embed_of(made))) for one in heard]
        runs = [
            session.run_async(TokenInput(prompt), InferParams(max_new_tokens=128))
            for session, prompt in zip(sessions, prompts)
        ]
        for run in runs:
            run.result(60)
    assert [one.tokens for one in heard] == alone


def test_what_does_not_fit_is_refused(package: Maker, tmp_path: Path) -> None:
    made = package("qwen2")
    with (
        open_llm(made.model) as context,
        pytest.raises(ParamInvalid, match="speculate is 16, must be 0 to 15"),
    ):
        context.session(LlmParams(speculate=16))
    with pytest.raises(ModelInvalid, match="is not there"):
        open_llm(made.model, draft=str(tmp_path / "none"))
    write_model(tmp_path / "hf", "qwen2", vocab_size=VOCAB + 8)
    export_llm(tmp_path / "hf", tmp_path / "wider", "f32")
    with pytest.raises(ParamInvalid, match=f"has {VOCAB + 8} tokens, model .* {VOCAB}"):
        open_llm(made.model, draft=str(tmp_path / "wider"))


def test_lookup_goes_on_as_before() -> None:
    assert Lookup().guess([1, 2, 3], 4) == []
    assert Lookup().guess([1, 2, 3, 4, 5, 9, 1, 2, 3], 3) == [4, 5, 9]
    assert Lookup().guess([7, 1, 2, 1, 2], 5) == [1, 2, 1, 2, 1]
    assert Lookup().guess([1, 2, -5, 1, 2], 5) == []
    lookup, text = Lookup(), [1, 2, 3, 1, 2]
    assert lookup.guess(text, 2) == [3, 1]
    assert lookup.guess([*text, 5, 1, 2], 2) == [5, 1]  # the latest


def test_pace_rests_when_guesses_do_not_pay() -> None:
    """A pause is twice as long as the one before; guesses that come true make more of them."""
    pace = Pace(15)
    assert pace.count == 0  # before it is known how long a token takes
    pace.single(1.0)
    assert pace.count == 4
    pace.guessed(4, 4, 1.5)
    assert pace.count == 8
    tries, passes = 0, 0
    while passes < 1000:
        if pace.count:
            tries += 1
            pace.guessed(pace.count, 0, 2.0)
        else:
            pace.single(1.0)
        passes += 1
    assert tries < 20
