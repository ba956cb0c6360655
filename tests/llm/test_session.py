"""Sessions: order of calls and states, history, stopping, saving."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rknnlite_llm import open_llm

from rknnlite.errors import ContextInvalid, ModelInvalid, ParamInvalid
from rknnlite.spi.llm import (
    CallState,
    EmbedInput,
    InferParams,
    KvClear,
    KvPolicy,
    LlmCallbacks,
    LlmContext,
    LlmParams,
    LlmSession,
    OutputState,
    PromptInput,
    SamplingParams,
    TokenInput,
    VocabInfo,
)
from tests.llm.conftest import Maker, Recorder, embed_of
from tests.support.brothers import slow_unless
from tests.support.llm_models import FAMILIES, VOCAB, SlowDecoder
from tests.support.sessions import ends_silently

DATA = Path(__file__).parent / "data"
NEVER_ENDS = LlmParams(vocab=VocabInfo(ignore_eos_token=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_run_is_that_of_transformers(package: Maker, family: str, recorder: Recorder) -> None:
    golden = np.load(DATA / f"{family}.npz")
    made = package(family)
    with open_llm(made.model, prefill_chunk=16) as context:
        session = context.session(NEVER_ENDS, LlmCallbacks(result=recorder, embed=embed_of(made)))
        summary = session.run(TokenInput(golden["ids"]), InferParams(max_new_tokens=256))
    assert recorder.tokens == golden["greedy"].tolist()
    assert recorder.states[-1] == summary.state == CallState.MAX_NEW_TOKEN_REACHED
    assert recorder.states.count(CallState.NORMAL) == 256
    assert (summary.n_prefill_tokens, summary.n_decode_tokens) == (40, 256)
    assert summary.start <= summary.first_token <= summary.end


def test_callbacks_come_in_the_documented_order(context: LlmContext, package: Maker) -> None:
    order: list[str] = []
    embed = embed_of(package())

    def noted(name: str, answer):
        def call(*args):
            order.append(f"{name} {args[-1].name}" if name in ("output", "result") else name)
            return answer(*args)

        return call

    callbacks = LlmCallbacks(
        tokenizer=noted("tokenizer", lambda text: [1, 2, 3]),
        embed=noted("embed", embed),
        output=noted("output", lambda outputs, state: None),
        sampling=noted("sampling", lambda logits, name: 7),
        result=noted("result", lambda result, state: 0),
        outputs=(0, 1),
    )
    context.session(NEVER_ENDS, callbacks).run(PromptInput("abc"), InferParams(max_new_tokens=2))
    assert order == [
        "tokenizer", "embed", "output PREFILL_FINISHED", "sampling", "result NORMAL",
        "embed", "output DECODE_PROCESSING", "sampling", "result NORMAL",
        "output DECODE_FINISHED", "result MAX_NEW_TOKEN_REACHED",
    ]  # fmt: skip


def test_outputs_are_logits_and_hidden_states_of_each_chunk(package: Maker) -> None:
    seen: list[tuple[OutputState, list[tuple[int, ...]]]] = []
    made = package()
    callbacks = LlmCallbacks(
        embed=embed_of(made),
        outputs=(1, 0),
        output=lambda outputs, state: seen.append((state, [o.data.shape for o in outputs])),
    )
    with open_llm(made.model, prefill_chunk=4) as context:
        context.session(NEVER_ENDS, callbacks).run(TokenInput(range(6)), InferParams(prefill_only=True))
    assert seen == [
        (OutputState.PREFILL_PROCESSING, [(4, 32), (1, VOCAB)]),
        (OutputState.PREFILL_FINISHED, [(2, 32), (1, VOCAB)]),
    ]


def test_end_mark_finishes_and_is_not_reported(
    context: LlmContext, package: Maker, recorder: Recorder
) -> None:
    answers = iter([5, 6, VOCAB - 1])
    callbacks = LlmCallbacks(recorder, embed=embed_of(package()), sampling=lambda logits, name: next(answers))
    summary = context.session(callbacks=callbacks).run(TokenInput([1]))
    assert recorder.tokens == [5, 6]
    assert recorder.states[-1] == summary.state == CallState.FINISH
    assert summary.n_decode_tokens == 3


def test_end_marks_of_the_caller_replace_those_of_the_model(context: LlmContext, package: Maker) -> None:
    answers = iter([VOCAB - 1, 4])
    callbacks = LlmCallbacks(embed=embed_of(package()), sampling=lambda logits, name: next(answers))
    session = context.session(LlmParams(vocab=VocabInfo(special_eos_ids=(4, -1))), callbacks)
    assert session.run(TokenInput([1])).n_decode_tokens == 2


def test_history_goes_on_where_the_last_run_ended(session: LlmSession, recorder: Recorder) -> None:
    session.run(TokenInput([1, 2, 3]), InferParams(max_new_tokens=4))
    first = recorder.tokens
    session.run(TokenInput([9]), InferParams(keep_history=True, max_new_tokens=5))
    together = recorder.tokens[4:]
    session.clear_kvcache()
    recorder.calls.clear()
    session.run(TokenInput([1, 2, 3, *first, 9]), InferParams(max_new_tokens=5))
    assert recorder.tokens == together


def test_without_history_every_run_starts_anew(session: LlmSession, recorder: Recorder) -> None:
    for _ in range(2):
        session.run(TokenInput([1, 2, 3]), InferParams(max_new_tokens=4))
    assert recorder.tokens[:4] == recorder.tokens[4:]
    assert session.state().n_total_tokens == 6


def test_embeddings_equal_their_tokens(session: LlmSession, package: Maker, recorder: Recorder) -> None:
    ids = np.array([3, 1, 4, 1, 5])
    session.run(TokenInput(ids), InferParams(max_new_tokens=8))
    session.run(EmbedInput(embed_of(package())(ids)[None]), InferParams(max_new_tokens=8))
    assert recorder.tokens[:8] == recorder.tokens[8:]


def test_literal_template_surrounds_the_prompt_and_keeps_the_system_prompt(
    context: LlmContext, package: Maker, recorder: Recorder
) -> None:
    texts: list[str] = []

    def tokenizer(text: str) -> list[int]:
        texts.append(text)
        return [ord(c) % VOCAB for c in text]

    session = context.session(NEVER_ENDS, LlmCallbacks(recorder, tokenizer, embed_of(package())))
    session.set_chat_template("[system]", "<u>", "</u>")
    short = InferParams(max_new_tokens=1)
    assert session.run(PromptInput("hi"), short).n_prefill_tokens == len("[system]<u>hi</u>")
    assert texts[0] == "[system]<u>hi</u>"
    # the system prompt is there already
    assert session.run(PromptInput("you"), short).n_prefill_tokens == len("<u>you</u>")
    session.run(PromptInput("!"), replace(short, keep_history=True))
    assert texts[-1] == "<u>!</u>"
    session.clear_kvcache(KvClear.KEEP_SYSTEM_PROMPT)
    assert session.state().n_total_tokens == len("[system]")
    session.clear_kvcache()
    assert session.state().n_total_tokens == 0


def test_tokens_without_history_come_behind_nothing(
    context: LlmContext, package: Maker, recorder: Recorder
) -> None:
    def tokenizer(text: str) -> list[int]:
        return [ord(c) % VOCAB for c in text]

    session = context.session(NEVER_ENDS, LlmCallbacks(recorder, tokenizer, embed_of(package())))
    short = InferParams(max_new_tokens=4)
    session.run(TokenInput([1, 2, 3]), short)
    session.set_chat_template("[system]", "", "")
    session.run(PromptInput("hi"), short)
    session.run(TokenInput([1, 2, 3]), short)
    assert recorder.tokens[:4] == recorder.tokens[8:]


def test_a_tool_result_continues_without_history_flag(session: LlmSession) -> None:
    session.run(PromptInput("weather?"), InferParams(max_new_tokens=2))
    before = session.state().n_total_tokens
    session.run(PromptInput("sunny", role="tool"), InferParams(max_new_tokens=2))
    assert session.state().n_total_tokens > before


def test_ring_generates_beyond_the_context(context: LlmContext, package: Maker, recorder: Recorder) -> None:
    params = replace(NEVER_ENDS, max_context_len=32)
    session = context.session(params, LlmCallbacks(recorder, embed=embed_of(package())))
    summary = session.run(TokenInput(range(20)), InferParams(max_new_tokens=100))
    assert (summary.state, summary.n_decode_tokens) == (CallState.MAX_NEW_TOKEN_REACHED, 100)
    assert session.state().n_total_tokens == session.state().n_max_tokens == 32


def _slow_greedy(slow: SlowDecoder, tokens: list[int], count: int) -> list[int]:
    """What a decoder says that recomputes everything from the tokens that are kept."""
    logits = [slow.feed(token) for token in tokens][-1]
    said = [int(logits.argmax())]
    while len(said) < count:
        said.append(int(slow.feed(said[-1]).argmax()))
    return said


@pytest.mark.parametrize(("n_keep", "system"), [(0, ""), (5, ""), (3, "[system]")])
def test_a_full_ring_keeps_the_first_tokens_or_the_system_prompt(
    context: LlmContext, package: Maker, recorder: Recorder, n_keep: int, system: str
) -> None:
    def tokenizer(text: str) -> list[int]:
        return [ord(c) % VOCAB for c in text]

    params = replace(NEVER_ENDS, max_context_len=32)
    session = context.session(params, LlmCallbacks(recorder, tokenizer, embed_of(package())))
    session.set_chat_template(system, "<", ">")
    session.set_kvcache_policy(KvPolicy.RECURRENT, n_keep=n_keep)
    session.run(PromptInput("how are you?"), InferParams(max_new_tokens=80))
    slow = SlowDecoder("qwen2", 32, len(system) or n_keep)
    assert recorder.tokens == _slow_greedy(slow, tokenizer(f"{system}<how are you?>"), 80)


def test_normal_policy_stops_at_the_context(context: LlmContext, package: Maker, recorder: Recorder) -> None:
    params = replace(NEVER_ENDS, max_context_len=32)
    session = context.session(params, LlmCallbacks(recorder, embed=embed_of(package())))
    session.set_kvcache_policy(KvPolicy.NORMAL)
    summary = session.run(TokenInput(range(20)), InferParams(max_new_tokens=100))
    assert (summary.state, summary.n_decode_tokens) == (CallState.MAX_NEW_TOKEN_REACHED, 13)
    assert session.state().n_total_tokens == 32
    assert session.state().kvcache_policy == KvPolicy.NORMAL


def test_same_seed_same_text(context: LlmContext, package: Maker) -> None:
    def said(seed: int) -> list[int]:
        recorder = Recorder()
        params = replace(NEVER_ENDS, sampling=SamplingParams(top_k=20, temperature=1.5, seed=seed))
        with context.session(params, LlmCallbacks(recorder, embed=embed_of(package()))) as session:
            session.run(TokenInput([1, 2]), InferParams(max_new_tokens=20))
        return recorder.tokens

    assert said(1) == said(1) != said(2)


def test_stop_from_a_callback(context: LlmContext, package: Maker, recorder: Recorder) -> None:
    def result(tokens, state) -> None:
        recorder(tokens, state)
        if len(recorder.tokens) == 3:
            session.stop()

    session = context.session(NEVER_ENDS, LlmCallbacks(result, embed=embed_of(package())))
    assert session.run(TokenInput([1])).state == CallState.STOP
    assert recorder.states == [CallState.NORMAL] * 3 + [CallState.STOP]
    assert (
        session.run(TokenInput([1]), InferParams(max_new_tokens=2)).state == CallState.MAX_NEW_TOKEN_REACHED
    )


def test_stop_from_another_thread(session: LlmSession, recorder: Recorder) -> None:
    run = session.run_async(TokenInput([1]), InferParams(max_new_tokens=10**9))
    while len(recorder.calls) < 5:
        time.sleep(0.001)
    session.stop()
    assert run.result(30).state == CallState.STOP
    assert recorder.states[-1] == CallState.STOP


def test_stop_before_a_run_means_nothing(session: LlmSession) -> None:
    session.stop()
    assert session.run(TokenInput([1]), InferParams(max_new_tokens=3)).n_decode_tokens == 3


def test_a_second_session_goes_on_while_another_one_is_held_and_can_be_stopped(
    context: LlmContext, package: Maker
) -> None:
    embed, began, go_on = embed_of(package()), threading.Event(), threading.Event()

    def hold(tokens, state) -> None:
        began.set()
        go_on.wait(30)

    first = context.session(NEVER_ENDS, LlmCallbacks(hold, embed=embed))
    others = [context.session(NEVER_ENDS, LlmCallbacks(embed=embed)) for _ in range(2)]
    running = first.run_async(TokenInput([1]), InferParams(max_new_tokens=2))
    began.wait(30)
    second, stopped = (
        s.run_async(TokenInput([1]), InferParams(max_new_tokens=n)) for s, n in zip(others, (2, 100_000))
    )
    others[1].stop()
    assert stopped.result(30).state == CallState.STOP
    assert second.result(30).n_decode_tokens == 2
    assert not running.done()
    go_on.set()
    assert running.result(30).n_decode_tokens == 2


@pytest.mark.parametrize("family", slow_unless(lambda family: family == "qwen3", FAMILIES))
def test_saved_cache_goes_on_as_transformers_would_in_a_new_process(
    package: Maker, family: str, tmp_path: Path
) -> None:
    golden, made = np.load(DATA / f"{family}.npz"), package(family)
    with (
        open_llm(made.model) as context,
        context.session(callbacks=LlmCallbacks(embed=embed_of(made))) as session,
    ):
        session.run(TokenInput(golden["ids"]), InferParams(prefill_only=True))
        session.save_kvcache(str(tmp_path / "kv"))
    script = (
        "import sys; from rknnlite_llm import open_llm, EmbedTable\n"
        "from rknnlite.spi.llm import *\n"
        "said = []\n"
        "calls = LlmCallbacks(lambda r, s: said.extend(r.token_ids), embed=EmbedTable(sys.argv[2], 160, 32))\n"
        "session = open_llm(sys.argv[1]).session(LlmParams(vocab=VocabInfo(ignore_eos_token=True)), calls)\n"
        "session.load_kvcache(sys.argv[3])\n"
        "session.run(TokenInput([int(sys.argv[4])]), InferParams(keep_history=True, max_new_tokens=255))\n"
        "print(*said)"
    )
    given = [str(made.model), str(made.embed), str(tmp_path / "kv"), str(golden["greedy"][0])]
    done = subprocess.run([sys.executable, "-c", script, *given], capture_output=True, text=True, check=True)
    assert [int(token) for token in done.stdout.split()] == golden["greedy"][1:].tolist()


@pytest.mark.parametrize("kvcache", ["f32", "f16", "int8", "int4"])
def test_every_cache_format_can_be_saved_behind_a_full_ring(
    package: Maker, kvcache: str, tmp_path: Path
) -> None:
    made = package("qwen3", "f32", kvcache)
    with open_llm(made.model) as context:
        said = [Recorder(), Recorder()]
        sessions = [
            context.session(replace(NEVER_ENDS, max_context_len=32), LlmCallbacks(r, embed=embed_of(made)))
            for r in said
        ]
        sessions[0].set_kvcache_policy(KvPolicy.RECURRENT, n_keep=4)
        sessions[0].run(TokenInput(range(20)), InferParams(max_new_tokens=41))
        sessions[0].save_kvcache(str(tmp_path / "kv"))
        sessions[1].load_kvcache(str(tmp_path / "kv"))
        said[0].calls.clear()
        for session in sessions:
            session.run(TokenInput([3]), InferParams(keep_history=True, max_new_tokens=30))
        assert said[0].tokens == said[1].tokens


def test_cache_files_of_others_are_refused(session: LlmSession, package: Maker, tmp_path: Path) -> None:
    session.run(TokenInput([1, 2]), InferParams(max_new_tokens=2))
    path = tmp_path / "kv"
    session.save_kvcache(str(path))
    with open_llm(package("qwen3").model) as other, pytest.raises(ModelInvalid, match="model"):
        other.session().load_kvcache(str(path))
    data = path.read_bytes()
    for damaged in (data[:-1], data[:40], b"", data[:30] + b"\xff" + data[31:], b"x" * 100):
        path.write_bytes(damaged)
        with pytest.raises(ModelInvalid):
            session.load_kvcache(str(path))
    with pytest.raises(ParamInvalid, match="cannot be read"):
        session.load_kvcache(str(tmp_path / "missing"))
    with pytest.raises(ParamInvalid, match="cannot be written"):
        session.save_kvcache(str(tmp_path / "no" / "folder"))


def test_a_saved_cache_follows_no_planted_link(session: LlmSession, tmp_path: Path) -> None:
    session.run(TokenInput([1, 2, 3]))
    victim, target = tmp_path / "victim", tmp_path / "kv"
    victim.write_bytes(b"precious")
    (tmp_path / f".kv.{os.getpid()}").symlink_to(victim)
    target.symlink_to(victim)
    session.save_kvcache(str(target))
    assert victim.read_bytes() == b"precious"
    assert not target.is_symlink()
    session.load_kvcache(str(target))


def test_a_pipe_is_no_saved_cache(session: LlmSession, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kv")
    with pytest.raises(ParamInvalid, match="it is a pipe"):
        session.load_kvcache(str(tmp_path / "kv"))
    with pytest.raises(ParamInvalid, match="cannot be written: No such device"):
        session.save_kvcache(str(tmp_path / "kv"))


def test_cache_file_of_another_version_is_refused(
    session: LlmSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rknnlite_cpu.llm import kv_cache_file

    session.save_kvcache(str(tmp_path / "kv"))
    monkeypatch.setattr(kv_cache_file, "__version__", "99.0")
    with pytest.raises(ModelInvalid, match=r"version.*99\.0"):
        session.load_kvcache(str(tmp_path / "kv"))


def test_closed_sessions_say_so_and_close_again(session: LlmSession, context: LlmContext) -> None:
    session.run_async(TokenInput([1]), InferParams(max_new_tokens=10**9))
    session.close()
    session.close()
    with pytest.raises(ContextInvalid, match="closed"):
        session.run(TokenInput([1]))
    context.close()
    with pytest.raises(ContextInvalid, match="closed"):
        context.session()


def test_no_callback_after_close(context: LlmContext, package: Maker, recorder: Recorder) -> None:
    session = context.session(NEVER_ENDS, LlmCallbacks(recorder, embed=embed_of(package())))
    ends_silently(session, recorder, [1], InferParams(max_new_tokens=10**9))


def test_options_that_mean_nothing_are_refused(package: Maker) -> None:
    made = package("qwen3")
    for options, text in (
        ({"prefil_chunk": 4}, "did you mean prefill_chunk"),
        ({"priority": "bogus"}, "'bogus' is no legal"),
    ):
        with pytest.raises(ParamInvalid, match=text):
            open_llm(made.model, backend="cpu", **options)
