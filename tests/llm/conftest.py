"""Packages of tiny models, made once per test process."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from rknnlite_llm import EmbedTable, Package, export_llm, open_llm

from rknnlite.spi.llm import CallState, LlmCallbacks, LlmContext, LlmParams, LlmResult, LlmSession, VocabInfo
from tests.support.llm_models import HIDDEN, VOCAB, write_model

Maker = Callable[..., Package]

# The live comparison wants torch (gigabytes) and transformers; its results are kept as goldens for everybody else.
collect_ignore = (
    [] if all(find_spec(name) for name in ("torch", "transformers")) else ["test_transformers.py"]
)


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """``package("qwen2", weights="f32")``: exported on the first call, the same files after that."""
    made: dict[Any, Package] = {}

    def make(
        family: str = "qwen2", weights: str = "f32", kvcache: str | None = None, **changes: Any
    ) -> Package:
        key = (family, weights, kvcache, tuple(sorted(changes.items())))
        if key not in made:
            folder = tmp_path_factory.mktemp(f"{family}-{weights}")
            write_model(folder / "hf", family, **changes)
            made[key] = export_llm(folder / "hf", folder / "tiny", weights, kvcache)
        return made[key]

    return make


class Recorder:
    """A result callback that remembers."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[int, ...], CallState]] = []

    def __call__(self, result: LlmResult, state: CallState) -> None:
        self.calls.append((result.token_ids, state))

    @property
    def tokens(self) -> list[int]:
        return [token for tokens, _ in self.calls for token in tokens]

    @property
    def states(self) -> list[CallState]:
        return [state for _, state in self.calls]


def embed_of(package: Package) -> EmbedTable:
    return EmbedTable(package.embed, VOCAB, HIDDEN)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def context(package: Maker) -> LlmContext:
    """The tiny Qwen2 model in float32."""
    with open_llm(package().model, backend="cpu") as opened:
        yield opened


@pytest.fixture
def session(context: LlmContext, package: Maker, recorder: Recorder) -> LlmSession:
    """A session that never meets its end mark and records its results; characters are tokens."""
    callbacks = LlmCallbacks(
        result=recorder, embed=embed_of(package()), tokenizer=lambda text: [ord(c) % VOCAB for c in text]
    )
    with context.session(LlmParams(vocab=VocabInfo(ignore_eos_token=True)), callbacks) as opened:
        yield opened


@pytest.fixture
def example() -> Path:
    """Prefix of the trained package of the example."""
    return Path(__file__).parents[2] / "examples" / "llm_chat" / "models" / "tiny"
