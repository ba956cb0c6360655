"""What every session does, whoever computes it: the CPU reference, and librkllmrt's double in both of its places.

Exceptions of backend rkllm, which docs/rkllm.md names: one session per context unless ``sessions`` says more, no saved
conversations, no sampling callback, the system prompt is rendered with every turn, and before 1.3.0 the cache may hold more
than was said when a run ended at its limit.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rknnlite_llm import astream, open_llm, stream
from rknnlite_llm.draft_and_adapters import DraftAndAdapters
from rknnlite_server.session_pool import SessionPool

from rknnlite.errors import ContextInvalid, InputInvalid, ParamInvalid
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
from tests.support.sessions import crowd, ends_silently

pytestmark = pytest.mark.slow

ENDLESS = InferParams(max_new_tokens=10**6)
FEW = InferParams(max_new_tokens=6)
NEVER_ENDS = LlmParams(vocab=VocabInfo(ignore_eos_token=True))
NATIVE = ("rkllm 1.2.3", "rkllm 1.3.0", "rkllm 1.3.0 in process")


@dataclass
class Talker:
    """A context whose sessions answer without end, and what else their callbacks need."""

    context: LlmContext
    callbacks: LlmCallbacks
    native: bool
    path: Path = Path()
    exact: bool = True
    """Whether the cache holds what was said and no more; before 1.3.0 a limit ends runs by an abort, which comes late."""

    def says(self, *lines: str) -> None:
        """What models of the double answer from the next session on; genuine ones answer what they answer."""
        if self.native:
            self.path.write_bytes(model(*lines, "token_us 200"))

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
        yield Talker(context, LlmCallbacks(), True, path, kind[1] >= "1.3.0")


def letters(ids: Any) -> str:
    return "".join(chr(65 + i) for i in ids)


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
    for along in (DraftAndAdapters(draft="x"), DraftAndAdapters(speculate=3)):
        if talker.native:
            with pytest.raises(ParamInvalid, match="backend rkllm computes one token after the other"):
                along.open(talker.context)
        else:
            along.open(talker.context)
    DraftAndAdapters(speculate=0).open(talker.context)


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


# -- exceptions ----------------------------------------------------------------------------------------------


def test_an_exception_has_its_own_traceback_and_spoils_no_later_run(
    talker: Talker, recorder: Recorder
) -> None:
    def my_mistake(tokens: Any, state: CallState) -> None:
        raise ZeroDivisionError("mine")

    with talker.session(my_mistake) as session:
        with pytest.raises(ZeroDivisionError, match="mine") as caught:
            session.run(PromptInput("hi"), FEW)
        assert caught.traceback[-1].name == "my_mistake"
        with pytest.raises(ZeroDivisionError):
            session.run_async(PromptInput("hi"), FEW).result(30)
        session.set_callbacks(replace(talker.callbacks, result=recorder))
        assert session.run(PromptInput("hi"), FEW).n_decode_tokens == len(recorder.tokens) == 6


def test_running_another_session_from_a_callback_is_refused(talker: Talker) -> None:
    with (
        talker.session() as other,
        talker.session(lambda *_: other.run(TokenInput([65])) and None) as session,
        pytest.raises(ContextInvalid, match=r"inside a callback"),
    ):
        session.run(TokenInput([65]), FEW)


@pytest.mark.parametrize(
    "params",
    [
        [],
        LlmParams(logits_name="other"),
        LlmParams(max_context_len=-1),
        LlmParams(max_context_len=10**6),
        LlmParams(vocab=VocabInfo(vocab_size=7)),
        LlmParams(vocab=VocabInfo(special_eos_ids=(10**6,))),
    ],
)
def test_parameters_that_do_not_fit(talker: Talker, params: Any) -> None:
    with pytest.raises(ParamInvalid):
        talker.context.session(params, talker.callbacks)
    with talker.session() as session:  # the room is free
        assert session.run(TokenInput([65]), FEW).n_decode_tokens == 6


def test_errors_leave_no_reference_cycles(talker: Talker) -> None:
    def result(tokens: Any, state: CallState) -> None:
        raise KeyError("mine")

    gc.collect()
    gc.disable()
    try:
        session = talker.session(result)
        watched = weakref.ref(session)
        for _ in range(2):
            with pytest.raises(KeyError):
                session.run_async(TokenInput([65]), FEW).result(30)
            with pytest.raises(KeyError):
                list(stream(session, TokenInput([65]), letters, FEW))
        del session
        for thread in threading.enumerate():
            if thread.name == "rknnlite-llm":
                thread.join(30)
        assert watched() is None
    finally:
        gc.enable()


# -- streams -------------------------------------------------------------------------------------------------


def test_a_stream_yields_what_the_run_says_and_calls_back_too(talker: Talker, recorder: Recorder) -> None:
    with talker.session(recorder) as session:
        pieces = list(stream(session, TokenInput([65, 66]), letters, FEW))
        own = "".join(map(chr, recorder.tokens))  # tokens of the double are bytes
        assert "".join(pieces) == (own if talker.context.traits.own_text else letters(recorder.tokens))
        assert len(pieces) == 6


def test_errors_of_the_run_come_out_of_the_stream(talker: Talker) -> None:
    def broken(tokens: Any, state: CallState) -> None:
        raise ZeroDivisionError

    with talker.session(broken) as session, pytest.raises(ZeroDivisionError):
        list(stream(session, TokenInput([65]), letters, FEW))


def test_an_asynchronous_stream_and_one_that_is_left(talker: Talker) -> None:
    async def main(session: LlmSession) -> str:
        left = astream(session, TokenInput([65, 66]), letters, ENDLESS)
        assert await left.__anext__()
        await left.aclose()
        return "".join([piece async for piece in astream(session, TokenInput([65, 66]), letters, FEW)])

    with talker.session() as session:
        assert asyncio.run(main(session)) == "".join(stream(session, TokenInput([65, 66]), letters, FEW))


def test_streams_leave_no_thread_behind(talker: Talker) -> None:
    before = set(threading.enumerate())
    with talker.session() as session:
        for _ in range(20):
            next(stream(session, TokenInput([65]), letters, ENDLESS))
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive(), thread.name


# -- several sessions, and what they hold --------------------------------------------------------------------


def test_a_session_goes_on_while_another_one_is_held(talker: Talker) -> None:
    began, go_on = threading.Event(), threading.Event()

    def hold(tokens: Any, state: CallState) -> None:
        began.set()
        go_on.wait(30)

    with talker.session(hold) as first, talker.session() as second:
        running = first.run_async(TokenInput([65]), InferParams(max_new_tokens=2))
        assert began.wait(30)
        assert second.run(TokenInput([65]), FEW).n_decode_tokens == 6
        stopped = second.run_async(TokenInput([65]), ENDLESS)
        second.stop()
        assert stopped.result(30).state is CallState.STOP
        assert not running.done()
        go_on.set()
        assert running.result(30).n_decode_tokens == 2


def test_a_pool_of_sessions(talker: Talker) -> None:
    pool = SessionPool(talker.session, 2)
    assert crowd(pool, range(65, 69), turns=3) == [] and pool.running == 0
    taken = pool.take([65])
    run = taken.run_async(TokenInput([65], whole=True), ENDLESS)
    pool.close()
    assert run.result(30).state is CallState.STOP
    with pytest.raises(ContextInvalid, match="stopping"):
        pool.take([65])


def test_history_goes_on_where_the_last_run_ended(talker: Talker, recorder: Recorder) -> None:
    talker.says("op show")  # all that is in the cache
    with talker.session(recorder) as session:
        session.run(TokenInput([65, 66]), FEW)
        first = recorder.tokens
        session.run(TokenInput([67]), replace(FEW, keep_history=True))
        together = recorder.tokens[len(first) :]
        session.clear_kvcache()
        recorder.calls.clear()
        session.run(TokenInput([65, 66, *first, 67]), FEW)
        assert recorder.tokens == together
        recorder.calls.clear()
        session.run(TokenInput([65, 66]), FEW)
        assert recorder.tokens == first


def test_a_later_turn_is_what_a_new_session_says(talker: Talker, recorder: Recorder) -> None:
    talker.says("op show")
    asked = {"role": "user", "content": "one"}
    long = InferParams(max_new_tokens=40)
    talk = [asked, {"role": "assistant", "content": "two"}, {"role": "user", "content": "three"}]
    said = []
    for earlier in ([[asked], [{"role": "user", "content": "else"}], talk], []):
        with talker.session(recorder) as session:
            session.set_chat_template("System: ", "U:", " A:")
            for messages in earlier:
                session.run(MessagesInput(messages), long)
            recorder.calls.clear()
            session.run(MessagesInput(talk), long)
            said.append(recorder.tokens)
            recorder.calls.clear()
    assert said[0] == said[1]


def test_the_result_of_a_tool_goes_on_without_being_told(talker: Talker) -> None:
    with talker.session() as session:
        session.run(PromptInput("weather?"), InferParams(max_new_tokens=2))
        before = session.state().n_total_tokens
        session.run(PromptInput("sunny", role="tool"), InferParams(max_new_tokens=2))
        assert session.state().n_total_tokens > before


def test_no_callback_after_close(talker: Talker, recorder: Recorder) -> None:
    session = talker.session(recorder)
    ends_silently(session, recorder, [65], ENDLESS)


def test_a_run_that_is_cancelled_before_it_begins(talker: Talker) -> None:
    go_on = threading.Event()
    with talker.session() as session:
        session._thread.submit(go_on.wait)  # type: ignore[attr-defined]
        assert session.run_async(PromptInput("hello"), ENDLESS).cancel()
        go_on.set()
        assert session.run(PromptInput("hello"), FEW).n_decode_tokens == 6
