"""Calls of tools over HTTP, whole and in pieces."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("httpx")
testclient = pytest.importorskip("starlette.testclient")
app = pytest.importorskip("rknnlite_server.app")
from rknnlite_server.settings import ModelSettings, ServerSettings  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "llm_chat"
ASKED = [{"role": "user", "content": "What is the weather in Lisbon?"}]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    model = ModelSettings(model=str(EXAMPLE / "models" / "tiny.rknn"), alias="tiny", temp=0.0)
    with testclient.TestClient(app.make_app(ServerSettings(models=(model,))), "http://localhost") as made:
        end = time.monotonic() + 60
        while made.get("/health").status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.05)
        yield made


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    sys.modules.pop("questions", None)
    from questions import TOOLS

    return list(TOOLS)


def _ask(client: Any, **body: Any) -> Any:
    return client.post("/v1/chat/completions", json={"messages": ASKED, **body})


def test_a_call_and_its_result(client: Any, tools: list[dict[str, Any]]) -> None:
    choice = _ask(client, tools=tools).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    (call,) = choice["message"]["tool_calls"]
    assert choice["message"]["content"] is None
    assert call["function"] == {"name": "get_weather", "arguments": '{"city": "Lisbon"}'}
    result = {"role": "tool", "tool_call_id": call["id"], "content": '{"sky": "rainy", "degrees": 14}'}
    done = _ask(client, tools=tools, messages=[*ASKED, choice["message"], result]).json()
    assert done["choices"][0]["message"]["content"] == "It is rainy in Lisbon at 14 degrees."
    assert done["usage"]["prompt_tokens_details"]["cached_tokens"] > 40


def test_a_call_in_pieces(client: Any, tools: list[dict[str, Any]]) -> None:
    lines = _ask(client, tools=tools, stream=True).text.split("\n")
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert calls[0]["function"]["name"] == "get_weather" and calls[0]["id"]
    assert "".join(call["function"].get("arguments", "") for call in calls) == '{"city": "Lisbon"}'
    assert all("id" not in call for call in calls[1:]) and len(calls) > 3
    assert not any(delta.get("content") for delta in deltas)
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_without_tools_no_call_is_read(client: Any) -> None:
    choice = _ask(client).json()["choices"][0]
    assert "tool_calls" not in choice["message"]
