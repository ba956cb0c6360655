"""A thousand runs that are stopped, left, broken and crashed at random: nothing is lost, nothing stays behind."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import random
import threading
from pathlib import Path

import psutil
import pytest
from rknnlite_llm import stream
from rknnlite_rkllm.model_process import ModelProcess, RkllmCrashed

from rknnlite.spi.llm import (
    CallState,
    InferParams,
    LlmCallbacks,
    LlmContext,
    LlmResult,
    LlmSession,
    PromptInput,
)
from tests.rkllm.conftest import Opener, nothing_left, present

RUNS, TOKENS, GROWTH_KIB = 1000, 60, 6 * 1024
EXPECTED = " ".join(map(str, range(1, 1000)))
WAYS = ("whole", "stop", "leave", "raise", "crash", "kill")
WEIGHTS = (8, 8, 8, 8, 1, 1)


class Runs:
    """A session that is replaced when its process has ended."""

    def __init__(self, context: LlmContext, control: Path, seed: int) -> None:
        self._context, self._control, self._random = context, control, random.Random(seed)
        self._session: LlmSession = context.session()
        self.counts = dict.fromkeys(WAYS, 0)

    def one(self) -> None:
        way = self._random.choices(WAYS, WEIGHTS)[0]
        self.counts[way] += 1
        if not self._session.usable:
            self._session.close()
            self._session = self._context.session()
        getattr(self, way)(self._random.randrange(1, TOKENS - 10))

    def whole(self, at: int) -> None:
        assert self._text(at) == EXPECTED[:at]

    def stop(self, at: int) -> None:
        timer = threading.Timer(at / 10000, self._session.stop)
        timer.start()
        text, state = self._ran(TOKENS)
        timer.join()
        assert EXPECTED.startswith(text)
        assert state is CallState.STOP or len(text) == TOKENS

    def leave(self, at: int) -> None:
        pieces = stream(self._session, PromptInput("x"), None, InferParams(max_new_tokens=TOKENS))
        text = "".join(itertools.islice(pieces, at))
        pieces.close()
        assert text == EXPECTED[: len(text)] and text

    def raise_(self, at: int) -> None:
        seen = []

        def result(result: LlmResult, state: CallState) -> None:
            seen.append(result.text)
            if len(seen) == at:
                raise KeyError(at)

        self._session.set_callbacks(LlmCallbacks(result=result))
        with pytest.raises(KeyError):
            self._session.run(PromptInput("x"), InferParams(max_new_tokens=TOKENS))
        assert "".join(map(str, seen)) == EXPECTED[:at]
        self._session.set_callbacks(LlmCallbacks())

    def crash(self, at: int) -> None:
        self._control.write_text(f"strike=crash@{at}")
        with pytest.raises(RkllmCrashed):
            self._session.run(PromptInput("x"), InferParams(max_new_tokens=TOKENS))
        self._control.write_text("strike=@-1")

    def kill(self, at: int) -> None:
        model = self._session._model  # type: ignore[attr-defined]
        assert isinstance(model, ModelProcess)
        run = self._session.run_async(PromptInput("x"), InferParams(max_new_tokens=TOKENS))
        psutil.Process(model.pid).kill()
        with contextlib.suppress(RkllmCrashed):  # it may have been quicker
            run.result(60)
        if self._session.usable:
            with pytest.raises(RkllmCrashed):
                self._session.run(PromptInput("x"))

    def _text(self, tokens: int) -> str:
        return self._ran(tokens)[0]

    def _ran(self, tokens: int) -> tuple[str, CallState]:
        said: list[str] = []
        self._session.set_callbacks(LlmCallbacks(result=lambda result, state: said.append(result.text or "")))
        summary = self._session.run(PromptInput("x"), InferParams(max_new_tokens=tokens))
        self._session.set_callbacks(LlmCallbacks())
        return "".join(said), summary.state

    def close(self) -> None:
        self._session.close()


setattr(Runs, "raise", Runs.raise_)


def resident_kib() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss // 1024)


MANY = [pytest.param(version, RUNS, marks=pytest.mark.slow) for version in ("1.2.3", "1.3.0")]


@pytest.mark.slow
@pytest.mark.parametrize(("version", "runs"), [("1.2.3", 40), *MANY])
def test_runs_of_all_ends(
    opened: Opener, version: str, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = tmp_path / "control"
    control.write_text("token_us=100")
    monkeypatch.setenv("RKLLM_DOUBLE_CONTROL", str(control))
    before = present()
    files = psutil.Process().num_fds()
    context = opened(version, "op count", "token_us 100")
    ends = Runs(context, control, seed=1)
    for _ in range(max(20, runs // 5)):  # until everything has been used once
        ends.one()
    start = resident_kib()
    for _ in range(runs):
        ends.one()
    grown = resident_kib() - start
    ends.close()
    context.close()
    nothing_left(before)
    assert grown < GROWTH_KIB, f"{grown} KiB in {runs} runs: {ends.counts}"
    assert psutil.Process().num_fds() <= files + 2
    print(f"{runs} runs of {version}: {ends.counts}, {grown} KiB more, process {os.getpid()}")
