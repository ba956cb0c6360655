"""What a server is made of: sessions by what they hold, sampling on the host, stop strings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_llm.host_sampling import HostSampling
from rknnlite_server.session_pool import SessionPool
from rknnlite_server.stop_strings import StopStrings

from rknnlite.errors import ContextInvalid, ParamInvalid
from rknnlite.spi.llm import InferParams, LlmContext, LlmSession, SamplingParams, TokenInput
from tests.llm.conftest import Recorder
from tests.support.sessions import crowd

FEW = InferParams(max_new_tokens=4)


# -- stop strings --------------------------------------------------------------------------------------------


@given(st.text("abc", max_size=30), st.lists(st.text("abc", min_size=1, max_size=3), max_size=3), st.data())
def test_an_answer_ends_at_the_first_stop_string_however_it_is_cut(
    text: str, strings: list[str], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]
    stop = StopStrings(strings)
    shown = "".join(stop.push(piece) for piece in pieces)
    ends = [text.index(string) for string in strings if string in text]
    if ends:
        whole_at_end = [text.index(s) + len(s) for s in strings if s in text]
        assert stop.found in strings
        assert len(shown) <= min(whole_at_end) and text.startswith(shown)
        assert shown == text[: text.index(stop.found)] or stop.found in text[len(shown) :]
    else:
        assert stop.found is None and shown + stop.flush() == text


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ParamInvalid, match="one character"):
        StopStrings(["", "x"])


# -- sampling ------------------------------------------------------------------------------------------------


def test_sampling_on_the_host_is_that_of_the_session(
    session: LlmSession, recorder: Recorder, context: LlmContext
) -> None:
    sampling = SamplingParams(top_k=20, top_p=0.9, temperature=1.3, repeat_penalty=1.2, seed=5)
    prompt = [3, 4, 5, 6]
    host = replace(session.callbacks, sampling=HostSampling(sampling, prompt))
    session.set_callbacks(host)
    session.run(TokenInput(prompt), FEW)
    there = list(recorder.tokens)
    recorder.calls.clear()
    from tests.llm.test_messages import NEVER_ENDS

    with context.session(replace(NEVER_ENDS, sampling=sampling), replace(host, sampling=None)) as own:
        own.run(TokenInput(prompt), FEW)
    assert recorder.tokens == there


def test_min_p_leaves_out_what_is_unlikely() -> None:
    logits = np.log(np.array([0.6, 0.3, 0.06, 0.04], np.float32))
    params = SamplingParams(top_k=0, min_p=0.4, seed=1)
    host = HostSampling(params)
    assert {host(logits) for _ in range(200)} == {0, 1}


def test_a_bias_decides() -> None:
    logits = np.zeros(5, np.float32)
    assert HostSampling(SamplingParams(logit_bias=((3, 2.0), (9, 50.0))))(logits) == 3
    with pytest.raises(ParamInvalid, match=r"logit_bias\[3\]"):
        HostSampling(SamplingParams(logit_bias=((3, float("nan")),)))


class Even:
    """Only even tokens."""

    def __init__(self) -> None:
        self.accepted: list[int] = []

    def restrict(self, logits: np.ndarray) -> None:
        logits[1::2] = -np.inf

    def accept(self, token: int) -> None:
        self.accepted.append(token)


def test_a_constraint_restricts_and_follows() -> None:
    even = Even()
    logits = np.arange(6, dtype=np.float32)
    host = HostSampling(SamplingParams(top_k=0, temperature=5.0, seed=2), constraint=even)
    drawn = [host(logits) for _ in range(50)]
    assert {token % 2 for token in drawn} == {0} and drawn == even.accepted
    assert np.isfinite(logits).all()


def test_chances_are_logarithms_of_the_softmax() -> None:
    logits = np.array([1.0, 3.0, 2.0, -1.0], np.float32)
    host = HostSampling(SamplingParams(), top=2)
    assert host(logits) == 1
    (chance,) = host.chances
    expected = logits - np.log(np.exp(logits).sum())
    assert chance.logprob == pytest.approx(expected[1])
    assert [token for token, _ in chance.top] == [1, 2]
    assert [value for _, value in chance.top] == pytest.approx(expected[[1, 2]])


# -- sessions ------------------------------------------------------------------------------------------------


@pytest.fixture
def pool(context: LlmContext, session: LlmSession) -> SessionPool:
    from tests.llm.test_messages import NEVER_ENDS

    with_one = SessionPool(lambda: context.session(NEVER_ENDS, session.callbacks), 2)
    yield with_one
    with_one.close()


def test_a_turn_goes_where_its_conversation_is(pool: SessionPool) -> None:
    first = pool.take([1, 2, 3, 4])
    first.run(TokenInput([1, 2, 3, 4], whole=True), FEW)
    pool.give(first)
    second = pool.take([9, 8, 7])
    assert second is not first  # there is room, and nothing in common
    second.run(TokenInput([9, 8, 7], whole=True), FEW)
    pool.give(second)
    assert pool.take([1, 2, 3, 4, 5]) is first
    pool.give(first)
    third = pool.take([50, 51])
    assert third is second  # no room any more: the one that waits longest
    pool.give(third)


def test_all_taken_is_an_error(pool: SessionPool) -> None:
    pool.take([1])
    pool.take([2])
    assert pool.running == 2
    with pytest.raises(ContextInvalid, match="all 2 sessions"):
        pool.take([3])


def test_closing_stops_what_runs(pool: SessionPool) -> None:
    taken = pool.take([1])
    run = taken.run_async(TokenInput([1], whole=True), InferParams(max_new_tokens=100_000))
    pool.close()
    assert run.result(30).state.name == "STOP"
    pool.give(taken)
    with pytest.raises(ContextInvalid):
        taken.run(TokenInput([1]))
    with pytest.raises(ContextInvalid, match="stopping"):
        pool.take([1])


def test_threads_take_turns(pool: SessionPool) -> None:
    assert crowd(pool, range(6), turns=5) == [] and pool.running == 0
