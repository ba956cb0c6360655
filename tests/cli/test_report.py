"""``doctor --report``: what a bug report needs, and no secret, whichever way one gets in."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from rknnlite_insight.health.bug_report import redacted

from .conftest import Call

SECRETS = {
    "password": "hunter2planted",
    "key": "sk-planted-key-0123456789",
    "token": "hf_plantedTokenOfSomebody01",
    "random": "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MGFiY2RlZmdoaQ",
    "user": "lovelaceplanted",
}
CONFIGURATION = """\
remotes:
  workshop:
    address: board:8001
    key: {key}
    key_file: /home/{user}/keys/board
unknown: {token}
"""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://ada:hunter2@models.example/a", "https://[hidden]@models.example/a"),
        ("GET /a?token=abc&x=1", "GET /a?token=[hidden]&x=1"),
        ("OPENAI_API_KEY=abc next", "OPENAI_API_KEY=[hidden] next"),
        ("Authorization: Bearer abcdefgh", "Authorization: Bearer [hidden]"),
        ('{"password": "abc"}', '{"password": [hidden]}'),
        ("sent Bearer abcdefgh.ijk", "sent Bearer [hidden]"),
        ("hf_abcdefghijkl is no model", "[hidden] is no model"),
        ("/home/ada/a.rknn", "/home/[user]/a.rknn"),
        ("/Users/ada/a", "/Users/[user]/a"),
        ("a commit 74ea630ce of rk3588", "a commit 74ea630ce of rk3588"),
        ("key set, not shown", "key set, not shown"),
    ],
)
def test_what_is_hidden(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_the_home_folder_and_the_machine_have_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/people/ada")
    monkeypatch.setattr(socket, "gethostname", lambda: "adas-laptop")
    assert redacted("/srv/people/ada/m.rknn on adas-laptop:8001") == "~/m.rknn on [host]:8001"


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: object) -> None:
    """Secrets in the configuration file, in the environment, in paths and in what a plugin complains of."""
    file = tmp_path / "config.yaml"
    file.write_text(CONFIGURATION.format(**SECRETS))
    monkeypatch.setenv("RKNNLITE_CONFIG", str(file))
    monkeypatch.setenv("RKNNLITE_CACHE", f"/home/{SECRETS['user']}/{SECRETS['random']}")
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")
    install(mine=ImportError(f"no https://{SECRETS['user']}:{SECRETS['password']}@index.example/"))  # type: ignore[operator]


@pytest.mark.slow
def test_it_tells_all_and_no_secret(call: Call, planted: None, tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    done = call("doctor", "--report", file)
    text = file.read_text()
    for section in ("versions", "machine", "plugins", "backends", "configuration", "findings"):
        assert f"[{section}]\n" in text
    for fact in (
        "rknnlite: ",
        "Python: ",
        "numpy: ",
        "kernel ",
        "RKNPU driver: ",
        "SoC: ",
        "device nodes: ",
        "rknnrt: not available: ",
    ):
        assert fact in text
    assert "remotes.workshop.key = [hidden]" in text and "index.example" in text, "they are looked at"
    assert [name for name, secret in SECRETS.items() if secret in text] == []
    assert "read it before you pass it on" in done.err


def test_it_writes_over_nothing(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    file.write_text("mine")
    done = call("doctor", "--report", file)
    assert done.code == 2 and "is there already; name another file" in done.err
    assert file.read_text() == "mine"


@pytest.mark.slow
def test_it_goes_to_stdout(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")
    done = call("doctor", "--report", "-")
    assert done.out.startswith("[versions]\nrknnlite: ") and done.out.rstrip().endswith(
        "on the CPU reference"
    )
