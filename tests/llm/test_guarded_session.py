"""The shell that sessions of all backends share, around a session that only waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from rknnlite_llm.engine import LlmEngine
from rknnlite_llm.guarded_session import GuardedSession, kv_clear, kv_policy
from rknnlite_llm.template_budget import RenderStopped

from rknnlite.errors import ContextInvalid, ParamInvalid
from rknnlite.spi.llm import (
    CallState,
    KvClear,
    KvDtype,
    KvPolicy,
    KvStore,
    LlmCallbacks,
    LlmConfig,
    LlmResult,
    RunSummary,
)
from rknnlite.tensor import DType, Layout, TensorAttr


class Engine(LlmEngine):
    closed = False

    @property
    def config(self) -> LlmConfig:
        return LlmConfig("", 10, 4, 64, 64, KvStore.NORMAL, KvDtype.FLOAT16, 0, 0, "none")

    @property
    def inputs(self) -> list[TensorAttr]:
        return []

    @property
    def outputs(self) -> list[TensorAttr]:
        return [TensorAttr(0, "logits", (1, 10), DType.FLOAT16, Layout.UNDEFINED)]

    def check_open(self) -> None:
        if self.closed:
            raise ContextInvalid("the model is closed; open it again")


class Session(GuardedSession):
    """Runs until it is stopped; ``released`` counts."""

    released = 0
    set_chat_template = set_function_tools = set_kvcache_policy = clear_kvcache = None
    save_kvcache = load_kvcache = set_llm_param = state = None

    def run(self, inputs: Any = None, params: Any = None) -> RunSummary:
        with self._using("run"):
            self._stop.clear()
            return self._wait()

    def run_async(self, inputs: Any = None, params: Any = None) -> Any:
        return self._begin("run_async", lambda: self._wait)

    def _wait(self) -> RunSummary:
        calls = self._calls.fresh()

        def compute() -> RunSummary:
            calls.result(LlmResult((1,)), CallState.NORMAL)
            assert self._stop.wait(60)
            return self._stopped(calls)

        return self._in_turn(calls, compute)

    def _release(self) -> None:
        self.released += 1


class Heard:
    """A result callback that remembers states; ``begun`` is set when it is called."""

    def __init__(self) -> None:
        self.states: list[CallState] = []
        self.begun = threading.Event()

    def __call__(self, result: LlmResult, state: CallState) -> None:
        self.states.append(state)
        self.begun.set()


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def running(engine: Engine) -> Iterator[Session]:
    """A session in the middle of a run."""
    heard = Heard()
    session = Session(engine, LlmCallbacks(heard))
    session.run_async()
    assert heard.begun.wait(60)
    yield session
    session.close()


def test_one_call_at_a_time_and_none_after_close(running: Session) -> None:
    for call in (running.run, running.run_async):
        with pytest.raises(ContextInvalid, match="in use by another thread; wait for its run or stop it"):
            call()
    running.close()
    running.close()
    for call in (running.run, running.run_async):
        with pytest.raises(ContextInvalid, match=f"{call.__name__}: the session is closed"):
            call()
    assert running.released == 2


@pytest.mark.parametrize("way", ["run", "run_async"])
@pytest.mark.parametrize("call", ["run", "run_async", "close"])
def test_none_from_inside_a_callback(engine: Engine, way: str, call: str) -> None:
    session = Session(engine, LlmCallbacks(lambda result, state: getattr(session, call)()))
    with pytest.raises(ContextInvalid, match=f"^{call} was called from inside a callback"):
        begun = getattr(session, way)()
        begun.result(60)
    session.set_callbacks(LlmCallbacks())
    future = session.run_async()
    session.close()
    assert future.result(60).state is CallState.STOP


def test_sessions_of_a_model_run_one_after_another(engine: Engine, running: Session) -> None:
    heard = Heard()
    other = Session(engine, LlmCallbacks(heard))
    second = other.run_async()
    time.sleep(0.05)
    assert not heard.begun.is_set()
    running.stop()
    assert heard.begun.wait(60)
    other.close()
    assert second.result(0).state is CallState.STOP
    assert heard.states == [CallState.NORMAL, CallState.STOP]


def test_a_run_that_is_stopped_while_it_waits(engine: Engine, running: Session) -> None:
    heard = Heard()
    with Session(engine, LlmCallbacks(heard)) as other:
        future = other.run_async()
        other.stop()
        assert future.result(60).state is CallState.STOP
    assert heard.states == [CallState.STOP]


def test_a_stop_ends_the_rendering_under_way_and_no_other(engine: Engine) -> None:
    heard, stops = Heard(), iter([False, True, False])

    def render() -> Any:
        assert not session._stop.is_set()  # what ended an earlier run
        if next(stops):
            session.stop()
            raise RenderStopped
        return session._wait

    with Session(engine, LlmCallbacks(heard)) as session:
        for _ in range(3):
            run = session._begin("run_async", render)
            session.stop()
            assert run.result(60).state is CallState.STOP
    assert [state for state in heard.states if state is not CallState.NORMAL] == [CallState.STOP] * 3


def test_from_inside_another_session(engine: Engine) -> None:
    other = Session(engine, LlmCallbacks())
    session = Session(engine, LlmCallbacks(lambda result, state: other.run() and None))
    with pytest.raises(ContextInvalid, match="inside a callback of another session of the same model"):
        session.run()


def test_a_closed_model_runs_nothing(engine: Engine) -> None:
    heard = Heard()
    session = Session(engine, LlmCallbacks(heard))
    engine.closed = True
    with pytest.raises(ContextInvalid, match="the model is closed"):
        session.run()
    assert heard.states == [CallState.ERROR]


def test_an_abandoned_session_is_closed_whatever_ran(running: Session) -> None:
    """What a forked child sees: nobody there will ever give the session back."""
    held = running._free
    running.abandon()
    with pytest.raises(ContextInvalid, match="closed"):
        running.run()
    running._free = held  # for the thread, which is here after all


def test_words_for_the_cache() -> None:
    assert kv_policy(2) is KvPolicy.NORMAL and kv_clear(1) is KvClear.KEEP_SYSTEM_PROMPT  # type: ignore[arg-type]
    with pytest.raises(ParamInvalid, match="KV cache policy 9; use KvPolicy"):
        kv_policy(9)  # type: ignore[arg-type]
    with pytest.raises(ParamInvalid, match=r"clear_kvcache\(9\): use KvClear"):
        kv_clear(9)  # type: ignore[arg-type]


def test_callbacks_for_outputs_that_are_not_there(engine: Engine) -> None:
    with pytest.raises(ParamInvalid, match=r"wants outputs \(1,\), the model has 0..0"):
        Session(engine, LlmCallbacks(outputs=(1,)))
