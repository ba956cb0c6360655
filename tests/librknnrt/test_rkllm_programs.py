"""librkllmrt.so: C programs compiled with the header of each version, and what programs should not do."""

from __future__ import annotations

from pathlib import Path

import pytest
from rknnlite_llm import Chat

from rknnlite.spi.llm import LlmParams, MessagesInput
from tests.librknnrt.clients import environment, run
from tests.librknnrt.rkllm_clients import LAYOUTS, TINY, library_of, program, standing
from tests.librknnrt.test_rkllm import MOST, QUESTION

pytestmark = pytest.mark.slow


def started(folder: Path, version: str, name: str, *words: str) -> str:
    """What a program prints."""
    variables = environment(library_of(version), MARK=str(folder))
    return run([program(name, version), standing(folder), *words], env=variables).stdout


@pytest.mark.parametrize("version", LAYOUTS)
def test_a_demo(version: str, tmp_path: Path) -> None:
    with Chat(TINY, LlmParams(max_context_len=256), backend="cpu") as chat:
        wanted = chat.ask(QUESTION, max_new_tokens=MOST)
        tokens = chat.session.rendered(MessagesInput([{"role": "user", "content": QUESTION}]))
        text = chat.tokenizer.decode(tokens, False)
    assert started(tmp_path, version, "demo.c", text) == f"{wanted}\n"


@pytest.mark.parametrize(
    "what", ["killed", "forked", "several", "inside", "while_it_runs", "nonsense", "again_and_again"]
)
def test_what_programs_should_not_do(what: str, tmp_path: Path) -> None:
    started(tmp_path, "1.2.3", "hostile.c", what)
