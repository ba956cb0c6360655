"""npm's packages ``openai``, ``ai`` and ``ollama``, unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.npm import run_node

from .conftest import Served

PROGRAM = Path(__file__).with_name("npm_clients.mjs")
PACKAGES = ("openai", "ai", "@ai-sdk/openai", "ollama", "zod")
ANSWER = "2 + 3 = 5"
RAINY = "It is rainy in Lisbon at 14 degrees."


@pytest.fixture(scope="module")
def found(server: Served) -> Any:
    return run_node(PROGRAM, server.url, packages=PACKAGES)


@pytest.mark.slow
def test_openai(found: Any) -> None:
    said = {"first": ANSWER, "streamed": ANSWER, "gathered": ANSWER, "more": "1 + 1 = 2"}
    assert found["openai"] == {**said, "kept": True, "gone": 404}


def test_ai(found: Any) -> None:
    told = found["ai"]
    assert (told["first"], told["streamed"], told["more"]) == (ANSWER, ANSWER, "1 + 1 = 2")
    assert told["reason"] == "stop" and told["tokens"] > 5 and told["failed"] == 400
    assert (told["called"], told["called_in_pieces"], told["asked"]) == (RAINY, RAINY, ["Lisbon", "Lisbon"])
    assert set(told["object"]) == {"wet", "dry"}


def test_ollama(found: Any) -> None:
    call = {"index": 0, "name": "get_weather", "arguments": {"city": "Lisbon"}}
    said = {"first": ANSWER, "streamed": ANSWER, "call": call, "failed": 404}
    assert found["ollama"] == {**said, "models": ["tiny:latest"]}
