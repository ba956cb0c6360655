"""Whatever takes more than two seconds says so on stderr, on a terminal, and takes it away again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from rknnlite.cli import main
from tests.support.corpus import EXAMPLES
from tests.support.needs import skip_for_want

from .conftest import DIGIT, RESNET
from .test_terminal import Terminal

TINY = EXAMPLES / "llm_chat" / "models" / "tiny"
LONG: list[tuple[Any, ...]] = [
    ("run", RESNET),
    ("bench", RESNET, "--runs", "2"),
    ("perf", RESNET),
    ("perf", RESNET, "--npu"),
    ("compare", RESNET, RESNET),
    ("compare", RESNET, DIGIT, "--ways"),
    ("check", RESNET, "--run"),
    ("export-onnx", RESNET, "network.onnx"),
    ("npu-plan", RESNET, "--base", "weight=0x10000000", "internal=0x20000000"),
    ("chat", TINY, "--ask", "hi", "--max-new-tokens", "2"),
    ("plugins",),
    ("pull", f"{TINY}.rknn", "--into", ".", "--name", "small"),
    ("doctor",),
    ("bench-llm", TINY, "--prompt-tokens", "8", "--new-tokens", "2"),
]
SLOW = {"doctor", "bench-llm"}
CASES = [
    pytest.param(words, id=str(words[0]), marks=[pytest.mark.slow] if words[0] in SLOW else [])
    for words in LONG
]


def told(words: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch, terminal: bool) -> str:
    """What a command writes to stderr, which is a terminal or none."""
    stream = Terminal()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")
    code = main([str(word) for word in words])
    skip_for_want(stream.getvalue())
    assert code == 0
    return stream.getvalue()


@pytest.mark.parametrize("words", CASES)
def test_progress(words: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rknnlite.spi.progress.AFTER", 0.0)
    monkeypatch.setattr("rknnlite.spi.progress._TICK", 0.0005)
    written = told(words, monkeypatch, terminal=True)
    assert "\r" in written, "nothing was told"
    on_screen = ""
    for piece in written.split("\r"):
        on_screen = piece if "\n" not in piece else piece[piece.rindex("\n") + 1 :]
    assert not on_screen.strip(), "it is gone at the end"


def test_what_is_done_soon_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rknnlite.spi.progress.AFTER", 3600.0)
    assert "\r" not in told(("perf", RESNET), monkeypatch, terminal=True)


def test_nothing_is_told_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rknnlite.spi.progress.AFTER", 0.0)
    assert "\r" not in told(("perf", RESNET), monkeypatch, terminal=False)
