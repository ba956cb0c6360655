"""Models of the test double, opened through the backend; at the end no process and no thread may be left."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from rknnlite_llm import open_llm
from rknnlite_rkllm.abi.revisions import REVISIONS

from rknnlite.spi.llm import CallState, LlmCallbacks, LlmContext, LlmParams, LlmResult, LlmSession
from tests.doubles.double import compiler
from tests.doubles.rkllm.standin import StandIn, build, model
from tests.support.needs import needs

Opener = Callable[..., LlmContext]
_ALWAYS = ("1.0.0", "1.2.3", "1.3.0")
EVERY = [
    name if name in _ALWAYS else pytest.param(name, marks=pytest.mark.slow, id=name) for name in REVISIONS
]
"""All layouts, from the oldest; with the fast tests run the first, the last and one between."""


class Heard:
    """A result callback that remembers."""

    def __init__(self) -> None:
        self.calls: list[tuple[LlmResult, CallState]] = []

    def __call__(self, result: LlmResult, state: CallState) -> None:
        self.calls.append((result, state))

    @property
    def text(self) -> str:
        return "".join(result.text or "" for result, _ in self.calls)

    @property
    def tokens(self) -> list[int]:
        return [token for result, _ in self.calls for token in result.token_ids]

    @property
    def states(self) -> list[CallState]:
        return [state for _, state in self.calls]


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """``modes("1.2.3", strike="crash@5")``: how the double of a version behaves, in this process and in others."""
    used: list[StandIn] = []

    def set_modes(version: str, **values: str | int) -> None:
        monkeypatch.setenv("RKLLM_DOUBLE", ",".join(f"{name}={value}" for name, value in values.items()))
        used.append(StandIn(build(version)))
        used[-1].mode(**values)

    yield set_modes
    for double in used:
        double.plain()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """``opened("1.2.3", "op count", in_process=True)``: a context; what belongs to it is gone at the end."""
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    before, contexts = present(), []

    def make(version: str = "1.2.3", *lines: str, name: str = "model.rkllm", **options: Any) -> LlmContext:
        if options.get("chat_template"):
            needs("jinja2")
        path = tmp_path / name
        path.write_bytes(model(*(lines or ("op echo",))))
        options = {"library": str(build(version)), "backend": "rkllm", **options}
        contexts.append(open_llm(path, **options))
        return contexts[-1]

    yield make
    for context in contexts:
        context.close()
    nothing_left(before)


def present() -> set[object]:
    """Processes and threads that there are: of this test, or of others before it."""
    return {*threading.enumerate(), *psutil.Process().children()}


def nothing_left(before: set[object]) -> None:
    """No process and none of our threads that was not there before, within a moment."""
    gc.collect()
    end = time.monotonic() + 5
    while time.monotonic() < end:
        children = [c for c in psutil.Process().children() if c not in before and _lives(c)]
        left = [t for t in threading.enumerate() if t not in before and t.name.startswith("rknnlite")]
        if not left and not children:
            return
        time.sleep(0.02)
    raise AssertionError(f"left over: {children} {left}")


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def talking(context: LlmContext, heard: Heard | None = None, **params: Any) -> LlmSession:
    """A session that tells ``heard``."""
    return context.session(LlmParams(**params), LlmCallbacks(result=heard))
