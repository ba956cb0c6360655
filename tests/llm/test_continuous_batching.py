"""Several sessions of one model at the same time: one pass through the weights, each with its own tokens."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.llm.continuous_batching import StepBatcher
from rknnlite_cpu.llm.decoder import Decoder
from rknnlite_cpu.llm.kv_cache import KvCache
from rknnlite_llm import open_llm
from rknnlite_llm.container.description import read_llm
from rknnlite_llm.container.safetensors import SafeTensors

from rknnlite.errors import ContextInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi.llm import (
    InferParams,
    LlmCallbacks,
    LlmContext,
    LlmParams,
    LlmSession,
    SamplingParams,
    TokenInput,
    VocabInfo,
)
from tests.llm.conftest import Maker, Recorder, embed_of

NEVER_ENDS = LlmParams(vocab=VocabInfo(ignore_eos_token=True))


def decoder_of(package: Any) -> tuple[Any, Decoder]:
    model = read_llm(ModelFile(package.model))
    return model, Decoder(model, SafeTensors(ModelFile(package.weight).data))


@pytest.mark.parametrize(("family", "weights"), [("qwen2", "f32"), ("qwen3", "w8"), ("llama", "f16")])
def test_one_pass_gives_each_what_it_gets_alone(package: Maker, family: str, weights: str) -> None:
    made = package(family, weights)
    model, decoder = decoder_of(made)
    random = np.random.default_rng(0)
    prompts = [random.standard_normal((n, model.arch.hidden)).astype(np.float32) for n in (5, 1, 9)]
    new = [random.standard_normal((1, model.arch.hidden)).astype(np.float32) for _ in prompts]

    def caches() -> list[KvCache]:
        made = [KvCache(model.arch, model.kv, 64) for _ in prompts]
        for cache, prompt in zip(made, prompts):
            decoder.forward([(prompt, cache)])
        return made

    together, alone = caches(), caches()
    passed = decoder.forward(list(zip(new, together)))
    single = [decoder.forward([(rows, cache)])[0] for rows, cache in zip(new, alone)]
    assert [cache.total for cache in together] == [6, 2, 10]
    for ours, theirs in zip(passed, single):
        assert np.abs(ours - theirs).max() < 1e-5
    assert np.abs(decoder.logits(passed) - np.concatenate([decoder.logits([s]) for s in single])).max() < 1e-4


def talk(context: LlmContext, package: Maker, seed: int, count: int = 30) -> list[int]:
    recorder = Recorder()
    callbacks = LlmCallbacks(result=recorder, embed=embed_of(package()))
    params = replace(NEVER_ENDS, sampling=SamplingParams(top_k=0, temperature=1.2, seed=seed))
    with context.session(params, callbacks) as session:
        session.run(TokenInput([seed, seed + 1, 7]), InferParams(max_new_tokens=count))
    return recorder.tokens


def test_sessions_side_by_side_say_what_they_say_alone(context: LlmContext, package: Maker) -> None:
    alone = [talk(context, package, seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as threads:
        together = list(threads.map(lambda seed: talk(context, package, seed), range(6)))
    assert together == alone


def test_steps_of_several_sessions_share_passes(
    context: LlmContext, package: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    real = Decoder.forward

    def counted(self: Decoder, parts: Any) -> Any:
        sizes.append(len(parts))
        return real(self, parts)

    monkeypatch.setattr(Decoder, "forward", counted)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda seed: talk(context, package, seed, 60), range(4)))
    assert max(sizes) > 1
    assert len(sizes) < 4 * 60


def test_a_session_joins_and_leaves_while_others_go_on(context: LlmContext, package: Maker) -> None:
    counts = [5, 80, 20, 40, 1]
    with ThreadPoolExecutor(5) as threads:
        said = list(threads.map(lambda n: talk(context, package, n, counts[n]), range(5)))
    assert [len(tokens) for tokens in said] == counts


def test_a_slow_callback_holds_nobody_up(context: LlmContext, package: Maker, session: LlmSession) -> None:
    held, began = threading.Event(), threading.Event()

    def slow(result: Any, state: Any) -> None:
        began.set()
        assert held.wait(60)

    session.set_callbacks(replace(session.callbacks, result=slow))
    run = session.run_async(TokenInput([1]), InferParams(max_new_tokens=2))
    assert began.wait(60)
    assert len(talk(context, package, 3)) == 30
    held.set()
    run.result(60)


def test_an_error_in_a_callback_stays_with_its_session(
    context: LlmContext, package: Maker, session: LlmSession
) -> None:
    def broken(result: Any, state: Any) -> None:
        raise KeyError("mine")

    other = replace(session.callbacks, result=broken)
    with ThreadPoolExecutor(1) as threads:
        well = threads.submit(talk, context, package, 3)
        for _ in range(5):
            session.set_callbacks(other)
            with pytest.raises(KeyError, match="mine"):
                session.run(TokenInput([1]), InferParams(max_new_tokens=2))
        assert well.result(60) == talk(context, package, 3)


def test_a_session_is_not_run_inside_of_another(
    context: LlmContext, package: Maker, session: LlmSession
) -> None:
    inner = context.session(NEVER_ENDS, LlmCallbacks(embed=embed_of(package())))

    def inside(result: Any, state: Any) -> None:
        inner.run(TokenInput([1]), InferParams(max_new_tokens=1))

    session.set_callbacks(replace(session.callbacks, result=inside))
    with pytest.raises(ContextInvalid, match="from inside a callback"):
        session.run(TokenInput([1]), InferParams(max_new_tokens=1))


def test_an_interrupt_leaves_the_cache_as_it_was(package: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    model, decoder = decoder_of(package())
    steps, cache = StepBatcher(decoder), KvCache(model.arch, model.kv, 64)
    rows = np.ones((3, model.arch.hidden), np.float32)
    hidden, logits = steps.forward(rows, cache)
    real = Decoder.logits

    def interrupted(self: Decoder, hidden: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Decoder, "logits", interrupted)
    with pytest.raises(KeyboardInterrupt):
        steps.forward(rows[:1], cache)
    assert cache.total == 3
    monkeypatch.setattr(Decoder, "logits", real)
    again = KvCache(model.arch, model.kv, 64)
    assert np.array_equal(steps.forward(rows, again)[0], hidden)
    assert logits is not None and logits.shape == (model.arch.vocab_size,)


def test_closing_the_model_ends_all_runs(package: Maker) -> None:
    made = package()
    context = open_llm(made.model, backend="cpu")
    callbacks = LlmCallbacks(embed=embed_of(made))
    sessions = [context.session(NEVER_ENDS, callbacks) for _ in range(3)]
    runs = [s.run_async(TokenInput([1]), InferParams(max_new_tokens=10**6)) for s in sessions]
    context.close()
    assert [run.result(60).state.name for run in runs] == ["STOP"] * 3
