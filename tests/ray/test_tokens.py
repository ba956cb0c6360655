"""``rknnlite fleet check`` refuses a cluster that answers without a token; Ray's own answers are in ``test_pages``."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("ray")

from rknnlite_ray import tokens

from rknnlite.cli import main
from rknnlite.spi.command import Exit

NO_TOKEN = (1, "ray.exceptions.AuthenticationError: RPC error: InvalidAuthToken")


@pytest.fixture
def address() -> Iterator[str]:
    """Where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield f"127.0.0.1:{door.getsockname()[1]}"


def answer(monkeypatch: pytest.MonkeyPatch, without: tuple[int, str], ours: tuple[int, str]) -> None:
    """Let Ray's command end like this without a token, and with ours."""

    def run(command: list[str], env: dict[str, str], **options: Any) -> subprocess.CompletedProcess[str]:
        assert "RAY_AUTH_TOKEN" not in env or env["RAY_AUTH_MODE"] == "token"
        code, said = ours if env["RAY_AUTH_MODE"] == "token" else without
        return subprocess.CompletedProcess(command, code, "", said)

    monkeypatch.setenv("RAY_AUTH_TOKEN", "a" * 32)
    monkeypatch.setattr(tokens.subprocess, "run", run)


@pytest.mark.parametrize(
    ("without", "ours", "arguments", "code", "text"),
    [
        ((0, ""), (0, ""), [], Exit.USAGE, "answers without a token, so whoever reaches it can run programs"),
        ((0, ""), (0, ""), ["--insecure"], Exit.OK, "asks for no token"),
        (NO_TOKEN, (0, ""), [], Exit.OK, "asks for a token, and ours is right"),
        (NO_TOKEN, NO_TOKEN, [], Exit.USAGE, "asks for a token that this machine does not have"),
        (
            NO_TOKEN,
            (-6, "no token\nabort"),
            ["--insecure"],
            Exit.USAGE,
            "token that this machine does not have",
        ),
        ((1, "a\nTimed out"), (0, ""), [], Exit.UNAVAILABLE, "no cluster answered: Timed out"),
    ],
)
def test_a_cluster_must_ask_for_our_token(
    address: str, without: Any, ours: Any, arguments: list[str], code: int, text: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    answer(monkeypatch, without, ours)
    assert main(["fleet", "check", address, *arguments]) == code
    told = capsys.readouterr()
    assert text in told.out + told.err


def test_the_answer_as_json(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, NO_TOKEN, (0, ""))
    assert main(["fleet", "check", address, "--json"]) == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert (told["address"], told["token"]) == (address, True)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["check"], Exit.USAGE, "takes the address of a head"),
        (["resources", "127.0.0.1:1"], Exit.USAGE, "takes the address of a head"),
        (["check", "head"], Exit.USAGE, "is no address of a head; name HOST:PORT"),
        (["check", "127.0.0.1:1"], Exit.UNAVAILABLE, "127.0.0.1:1: no cluster answered"),
        (["check", "127.0.0.1:99999"], Exit.UNAVAILABLE, "no cluster answered"),
    ],
)
def test_what_is_no_head_is_said_at_once(
    words: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", *words]) == code
    assert text in capsys.readouterr().err
