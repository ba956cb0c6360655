"""Fixtures on the test double of librknn3_api, in both revisions; after every test nothing of it may be alive."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rknnlite_llm import open_llm

import rknnlite
from rknnlite import plugins
from rknnlite.spi.llm import CallState, LlmCallbacks, LlmResult
from tests.doubles.double import compiler
from tests.doubles.rknn3.double3 import Double3, build, model

VOCAB, HIDDEN = 300, 8
CNN = ("input image uint8 nhwc 4 1 4 6 3", "output scores float32 undefined 2 1 72", "op affine 2 1")
LLM = (
    f"input input_embeds float16 undefined 3 1 16 {HIDDEN}",
    "input shift float16 undefined 2 1 4 core 1",
    f"output logits float16 undefined 2 1 {VOCAB}",
    f"output last_hidden float16 undefined 2 1 {HIDDEN} core 1",
    f"vocab {VOCAB}",
    f"hidden {HIDDEN}",
    "context 256",
    "cores 2",
    "internal 1024",
    "template chatml",
    "utf8",
)
"""Counts on from the last token for ever, unless ``generate echo`` is added; tokens below 256 are bytes."""


@pytest.fixture(params=["1.0.0", "1.0.5"])
def version(request: pytest.FixtureRequest) -> str:
    """A runtime of each revision of the structures."""
    return str(request.param)


@pytest.fixture
def double(version: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double3]:
    """The double as the machine's runtime; what a test opens it must give back."""
    import rknnlite_rknn3rt

    if compiler() is None:
        pytest.skip("no C compiler is installed")
    library = build(version)
    monkeypatch.setenv("RKNNLITE_RKNN3_LIBRARY", str(library))
    monkeypatch.setenv("RKNNLITE_BACKEND", "rknn3rt")
    if not plugins.manager().has_plugin("rknn3rt"):
        plugins.manager().register(rknnlite_rknn3rt, name="rknn3rt")
        plugins.backends.cache_clear()
    steering = Double3(library)
    steering.reset()
    steering.devices(1)
    yield steering
    gc.collect()  # a caught exception and the frame that caught it refer to each other
    left = steering.live()
    steering.reset()
    assert left == {}


@pytest.fixture
def start(double: Double3) -> Iterator[Callable[..., Any]]:
    """``start(*lines, **options)``: a context on a model of the double; closed after the test."""
    opened: list[Any] = []

    def open_(*lines: str, **options: Any) -> Any:
        opened.append(rknnlite.open(model(*lines), **options))
        return opened[-1]

    yield open_
    for context in opened:
        context.close()


@pytest.fixture
def chat(double: Double3) -> Iterator[Callable[..., Any]]:
    """``chat(*lines, **options)``: a language model of the double; closed after the test."""
    opened: list[Any] = []

    def open_(*lines: str, **options: Any) -> Any:
        opened.append(open_llm(model(*LLM, *lines), **options))
        return opened[-1]

    yield open_
    for context in opened:
        context.close()


@pytest.fixture
def path_of(tmp_path: Path) -> Callable[..., Path]:
    """``path_of(*lines)``: a model of the double as a file."""

    def write(*lines: str) -> Path:
        path = tmp_path / "net.rknn"
        path.write_bytes(model(*lines))
        return path

    return write


def tokenize(text: str) -> list[int]:
    """One token per byte."""
    return list(text.encode())


def embed(tokens: NDArray[np.int32]) -> NDArray[np.float16]:
    """Rows whose first value is the token."""
    rows = np.zeros((len(tokens), HIDDEN), np.float16)
    rows[:, 0] = tokens
    return rows


class Heard:
    """A result callback that remembers what it was told."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.states: list[CallState] = []

    def __call__(self, result: LlmResult, state: CallState) -> int:
        self.ids += result.token_ids
        self.states.append(state)
        return 0

    @property
    def text(self) -> str:
        """What the tokens spell."""
        return bytes(self.ids).decode()


def callbacks(**others: Any) -> LlmCallbacks:
    """The callbacks that every run needs, and ``others``."""
    return LlmCallbacks(**{"tokenizer": tokenize, "embed": embed, **others})
