"""Figures for Prometheus."""

from __future__ import annotations

import builtins
from dataclasses import replace
from typing import Any

import pytest
from rknnlite_server.app import make_app
from rknnlite_server.settings import ServerSettings

from rknnlite.errors import BackendUnavailable

from .conftest import MODEL, QUESTION, Served, running, until

parser = pytest.importorskip("prometheus_client.parser")


def figures(server: Served) -> dict[str, float]:
    """All samples, by name and labels."""
    text = server.http.get("/metrics").text
    return {
        " ".join([sample.name, *map("=".join, sorted(sample.labels.items()))]): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def grown(server: Served, before: dict[str, float], name: str) -> float:
    return figures(server).get(name, 0) - before.get(name, 0)


def test_answers_are_counted(server: Served) -> None:
    before = figures(server)
    usage = [server.chat().json()["usage"] for _ in range(2)]

    def more(name: str) -> float:
        return grown(server, before, f"rknnlite_{name}")

    asked = "requests_total route=/v1/chat/completions status=200"
    until(lambda: more(asked) == 2)
    assert more("generated_tokens_total model=tiny") == sum(u["completion_tokens"] for u in usage)
    cached = sum(u["prompt_tokens_details"]["cached_tokens"] for u in usage)
    assert more("cached_tokens_total model=tiny") == cached > 0
    assert more("prompt_tokens_total model=tiny") == sum(u["prompt_tokens"] for u in usage) - cached
    for name in ("first_token_seconds", "token_seconds"):
        assert more(f"{name}_count model=tiny") == 2 and more(f"{name}_sum model=tiny") > 0
    assert more("request_seconds_count route=/v1/chat/completions") == 2
    found = figures(server)
    assert found["rknnlite_running model=tiny"] == found["rknnlite_waiting model=tiny"] == 0


@pytest.mark.slow
def test_guessed_tokens_are_counted_and_change_no_answer(server: Served) -> None:
    drafted = replace(MODEL, draft=MODEL.model, speculate=6)
    with running(ServerSettings(models=(drafted,), metrics=True)) as guessing:
        answers = [one.chat().json()["choices"][0]["message"] for one in (server, guessing)]
        assert answers[0] == answers[1]
        found = figures(guessing)
    accepted, guessed = (
        found[f"rknnlite_{name}_tokens_total model=tiny"] for name in ("accepted", "guessed")
    )
    assert 0 < accepted <= guessed
    assert figures(server)["rknnlite_guessed_tokens_total model=tiny"] == 0


def test_runs_that_nobody_waits_for_are_counted_too(server: Served) -> None:
    before = figures(server)
    wild = {"messages": QUESTION, "stream": True, "temperature": 100, "top_k": 0, "top_p": 1}
    with server.http.stream("POST", "/v1/chat/completions", json=wild) as response:
        next(response.iter_lines())
    until(lambda: grown(server, before, "rknnlite_generated_tokens_total model=tiny") > 0)
    assert figures(server)["rknnlite_running model=tiny"] == 0


def test_routes_are_counted_under_their_pattern(server: Served) -> None:
    before = figures(server)
    for path in ("/v1/models/tiny", "/v1/models/else", "/made/up/1", "/made/up/2"):
        server.http.get(path)
    server.chat(messages=[])
    for name, count in (
        ("route=/v1/models/{name:path} status=200", 1),
        ("route=/v1/models/{name:path} status=404", 1),
        ("route=other status=404", 2),
        ("route=/v1/chat/completions status=400", 1),
    ):
        assert grown(server, before, f"rknnlite_requests_total {name}") == count
    assert "made" not in server.http.get("/metrics").text


def test_without_the_flag_there_are_none() -> None:
    with running(ServerSettings(models=(MODEL,))) as server:
        response = server.http.get("/metrics")
        assert response.status_code == 501
        assert response.json()["error"]["type"] == "not_supported_error"


def test_without_the_package_the_server_says_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("prometheus_client"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(BackendUnavailable, match=r"--metrics needs prometheus-client .*\(extra server;"):
        make_app(ServerSettings(models=(MODEL,), metrics=True))
    make_app(ServerSettings(models=(MODEL,)))
