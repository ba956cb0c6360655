"""Threads say whether the program waits for them: unsaid, they take it from the thread that starts them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.corpus import ROOT

FILES = sorted(path for room in ("rknnlite", "plugins") for path in (ROOT / room).rglob("*.py"))


def unsaid(text: str) -> list[int]:
    """Lines in which a thread is made without ``daemon=``."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    made = [call for call in calls if ast.unparse(call.func).split(".")[-1] == "Thread"]
    return [call.lineno for call in made if "daemon" not in [word.arg for word in call.keywords]]


def test_every_thread_says_it() -> None:
    """One that a pool's daemon started was a daemon too, and aborted programs that ended while it was in an engine's C++."""
    found: dict[Path, list[int]] = {path: unsaid(path.read_text("utf-8")) for path in FILES}
    assert not {path: lines for path, lines in found.items() if lines}


@pytest.mark.parametrize("text", ["threading.Thread(target=f)", "Thread(target=f, name='x')"])
def test_one_that_does_not_is_found(text: str) -> None:
    assert unsaid(text) == [1]
    assert not unsaid(f"{text[:-1]}, daemon=False)")
