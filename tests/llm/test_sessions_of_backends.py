"""What every session does, whoever computes it: the CPU reference, and librkllmrt's double in both of its places.

Exceptions of backend rkllm, which docs/rkllm.md names: one session per context unless ``sessions`` says more, no saved
conversations, no sampling callback, the system prompt is rendered with every turn, and before 1.3.0 the cache may hold more
than was said when a run ended at its limit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rknnlite.errors import ContextInvalid, InputInvalid, ParamInvalid
from rknnlite.llm import open_llm, stream
from rknnlite.llm.beside import Beside
from rknnlite.spi.llm import (
    CallState,
    InferParams,
    KvClear,
    LlmCallbacks,
    LlmContext,
    LlmParams,
    LlmSession,
    MessagesInput,
    PromptInput,
    TokenInput,
    VocabInfo,
)
from tests.doubles.double import compiler
from tests.doubles.rkllm.standin import build, model
from tests.llm.conftest import Maker, Recorder, embed_of
from tests.support.llm_models import VOCAB

pytestmark = pytest.mark.slow

ENDLESS = InferParams(max_new_tokens=10**6)
NEVER_ENDS = LlmParams(vocab=VocabInfo(ignore_eos_token=True))
NATIVE = ("rkllm 1.2.3", "rkllm 1.3.0", "rkllm 1.3.0 in process")


@dataclass
class Talker:
    """A context whose sessions answer without end, and what else their callbacks need."""

    context: LlmContext
    callbacks: LlmCallbacks
    native: bool
    exact: bool = True
    """Whether the cache holds what was said and no more; before 1.3.0 a limit ends runs by an abort, which comes late."""

    def session(self, result: Any = None) -> LlmSession:
        params = LlmParams() if self.native else NEVER_ENDS
        return self.context.session(params, replace(self.callbacks, result=result))


@pytest.fixture(params=["cpu", *NATIVE])
def talker(request: pytest.FixtureRequest, tmp_path: Path, package: Maker) -> Iterator[Talker]:
    kind = request.param.split()
    if kind[0] == "cpu":
        made = package()
        calls = LlmCallbacks(embed=embed_of(made), tokenizer=lambda text: [ord(c) % VOCAB for c in text])
        with open_llm(made.model, backend="cpu") as context:
            yield Talker(context, calls, False)
        return
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    path = tmp_path / "model.rkllm"
    path.write_bytes(model("op count", "token_us 200"))
    options = {"library": str(build(kind[1])), "in_process": "process" in kind, "sessions": 2}
    with open_llm(path, backend="rkllm", **options) as context:
        yield Talker(context, LlmCallbacks(), True, kind[1] >= "1.3.0")


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_a_run_says_tokens_and_its_end(talker: Talker, recorder: Recorder) -> None:
    with talker.session(recorder) as session:
        summary = session.run(PromptInput("hello"), InferParams(max_new_tokens=12))
    assert summary.state is recorder.states[-1] is CallState.MAX_NEW_TOKEN_REACHED
    assert (len(recorder.tokens), summary.n_decode_tokens) == (12, 12)
    assert set(recorder.states[:-1]) == {CallState.NORMAL}
    assert summary.start <= summary.first_token <= summary.end


def test_only_the_cpu_reference_guesses_tokens(talker: Talker) -> None:
    for along in (Beside(draft="x"), Beside(speculate=3)):
        if talker.native:
            with pytest.raises(ParamInvalid, match="backend rkllm computes one token after the other"):
                along.open(talker.context)
        else:
            along.open(talker.context)
    Beside(speculate=0).open(talker.context)


def test_stop_from_a_callback(talker: Talker, recorder: Recorder) -> None:
    def result(tokens: Any, state: CallState) -> None:
        recorder(tokens, state)
        if len(recorder.tokens) == 3:
            session.stop()

    with talker.session(result) as session:
        assert session.run(PromptInput("hello"), ENDLESS).state is CallState.STOP
        assert recorder.states == [CallState.NORMAL] * 3 + [CallState.STOP]
        again = session.run(PromptInput("hello"), InferParams(max_new_tokens=2))
        assert again.state is CallState.MAX_NEW_TOKEN_REACHED


def test_stop_from_another_thread(talker: Talker, recorder: Recorder) -> None:
    with talker.session(recorder) as session:
        run = session.run_async(PromptInput("hello"), ENDLESS)
        while len(recorder.calls) < 5:
            time.sleep(0.001)
        session.stop()
        assert run.result(30).state is CallState.STOP
        assert recorder.states[-1] is CallState.STOP


def test_stop_before_a_run_means_nothing(talker: Talker) -> None:
    with talker.session() as session:
        session.stop()
        assert session.run(PromptInput("hello"), InferParams(max_new_tokens=3)).n_decode_tokens == 3


def test_leaving_a_stream_stops_the_run(talker: Talker) -> None:
    with talker.session() as session:
        pieces = stream(session, PromptInput("hello"), lambda ids: "x" * len(ids), ENDLESS)
        assert next(pieces) and next(pieces)
        pieces.close()
        assert session.run(PromptInput("hello"), InferParams(max_new_tokens=1)).n_decode_tokens == 1


def test_an_exception_in_a_callback_reaches_the_caller(talker: Talker) -> None:
    def result(tokens: Any, state: CallState) -> None:
        if state is CallState.NORMAL:
            raise KeyError("mine")

    with talker.session(result) as session:
        for _ in range(2):
            with pytest.raises(KeyError, match="mine"):
                session.run(PromptInput("hello"), ENDLESS)


def test_a_callback_that_answers_nonsense(talker: Talker) -> None:
    with (
        talker.session(lambda tokens, state: "what") as session,
        pytest.raises(ParamInvalid, match="result callback returned 'what'"),
    ):
        session.run(PromptInput("hello"), ENDLESS)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.run(PromptInput("x")),
        lambda s: s.run_async(PromptInput("x")),
        lambda s: s.clear_kvcache(),
        lambda s: s.set_chat_template("", "", ""),
        lambda s: s.close(),
    ],
)
def test_calling_back_into_the_session_is_refused(
    talker: Talker, call: Callable[[LlmSession], object]
) -> None:
    def result(tokens: Any, state: CallState) -> None:
        call(session)

    with (
        talker.session(result) as session,
        pytest.raises(ContextInvalid, match=r"from inside a callback|in use"),
    ):
        session.run(PromptInput("hello"), InferParams(max_new_tokens=2))


def test_one_run_at_a_time_and_none_after_close(talker: Talker, recorder: Recorder) -> None:
    session = talker.session(recorder)
    run = session.run_async(PromptInput("hello"), ENDLESS)
    with pytest.raises(ContextInvalid, match="in use by another thread"):
        session.run(PromptInput("hello"))
    session.close()  # stops the run
    assert run.result(30).state is CallState.STOP
    told = len(recorder.calls)
    with pytest.raises(ContextInvalid, match="closed"):
        session.run(PromptInput("hello"))
    session.close()
    assert len(recorder.calls) == told


def test_two_sessions_answer_both(talker: Talker) -> None:
    said = [Recorder(), Recorder()]
    sessions = [talker.session(one) for one in said]
    runs = [s.run_async(PromptInput("hello"), InferParams(max_new_tokens=20)) for s in sessions]
    assert [run.result(60).n_decode_tokens for run in runs] == [20, 20]
    assert said[0].tokens == said[1].tokens
    for session in sessions:
        session.close()


def test_a_closed_model_has_no_sessions(talker: Talker) -> None:
    session = talker.session()
    talker.context.close()
    talker.context.close()
    with pytest.raises(ContextInvalid, match="closed"):
        session.run(PromptInput("hello"))
    with pytest.raises(ContextInvalid, match="closed"):
        talker.session()


def test_tokens_are_counted(talker: Talker) -> None:
    with talker.session() as session:
        summary = session.run(TokenInput([1, 2, 3], whole=True), InferParams(max_new_tokens=2))
        assert summary.n_prefill_tokens + summary.n_cached_tokens == 3
        state = session.state()
        assert (state.n_decode_tokens, state.n_prefill_tokens) == (2, summary.n_prefill_tokens)


def test_a_cleared_cache_holds_nothing(talker: Talker) -> None:
    with talker.session() as session:
        session.run(TokenInput([1, 2, 3]), InferParams(max_new_tokens=2))
        assert session.state().n_total_tokens > 0
        session.clear_kvcache()
        assert session.state().n_total_tokens == 0
        with pytest.raises(ParamInvalid, match="use KvClear"):
            session.clear_kvcache(7)  # type: ignore[arg-type]
        session.clear_kvcache(KvClear.KEEP_SYSTEM_PROMPT)


def test_history_goes_on_only_when_it_is_asked_for(talker: Talker) -> None:
    with talker.session() as session:
        short = InferParams(max_new_tokens=2)
        session.run(TokenInput([1, 2, 3]), short)
        first = session.state().n_total_tokens
        session.run(TokenInput([4, 5]), replace(short, keep_history=True))
        together = session.state().n_total_tokens
        assert together >= first + 2
        session.run(TokenInput([1, 2, 3]), short)
        assert session.state().n_total_tokens < together or not talker.exact


def test_conversations_with_a_literal_template_and_tools(talker: Talker) -> None:
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
    with talker.session() as session:
        session.set_chat_template("[system]", "<u>", "</u>")
        alone = session.run(PromptInput("hi"), InferParams(max_new_tokens=1))
        messages = MessagesInput([{"role": "user", "content": "hi"}], tools)
        offered = session.run(messages, InferParams(max_new_tokens=1))
        shown = offered.n_prefill_tokens + offered.n_cached_tokens
        assert shown > alone.n_prefill_tokens + len("weather")
        with pytest.raises(ParamInvalid, match="JSON"):
            session.set_function_tools("{")


@pytest.mark.parametrize(
    ("inputs", "match"),
    [
        ([], "one of prompt, tokens"),
        ("text", "is no LLM input"),
        (TokenInput([]), "one or more token ids"),
        (TokenInput([-1]), "token id -1"),
        (PromptInput(None), "not str"),  # type: ignore[arg-type]
    ],
)
def test_inputs_that_do_not_fit(talker: Talker, inputs: Any, match: str) -> None:
    with talker.session() as session, pytest.raises(InputInvalid, match=match):
        session.run(inputs)


def test_max_new_tokens_must_be_positive(talker: Talker) -> None:
    with talker.session() as session, pytest.raises(ParamInvalid, match="max_new_tokens"):
        session.run(PromptInput("hello"), InferParams(max_new_tokens=0))


def test_dropping_a_session_in_the_middle_of_a_run(talker: Talker) -> None:
    began = threading.Event()
    session = talker.session(lambda tokens, state: began.set())
    run = session.run_async(PromptInput("hello"), InferParams(max_new_tokens=50))
    began.wait(30)
    del session
    assert run.result(60).n_decode_tokens == 50
