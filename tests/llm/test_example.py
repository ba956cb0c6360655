"""The trained model of the example knows its answers, and the example programs run."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

from rknnlite.llm import Chat, Package

pytest.importorskip("tokenizers", reason="needs the package tokenizers (extra llm)")
pytest.importorskip("jinja2", reason="needs the package jinja2 (extra llm)")

FOLDER = Path(__file__).parents[2] / "examples" / "llm_chat"
MODEL = FOLDER / "models" / "tiny"


def _module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"llm_chat_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_held_out_questions_are_answered(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    score = _module("score", monkeypatch)
    with Chat(MODEL) as chat:
        right, total, wrong = score.score(chat, islice(score.questions(3, True), count))
    asked = sum(total.values()) - total["json"]
    assert asked == count
    assert len(wrong) <= 0.05 * asked, wrong[:5]
    assert right["json"] >= 0.95 * total["json"]


def test_the_package_is_small() -> None:
    package = Package.of(MODEL)
    sizes = [
        path.stat().st_size for path in (package.model, package.weight, package.embed, package.tokenizer)
    ]
    assert sum(sizes) < 12e6


def test_names_are_remembered_over_turns() -> None:
    with Chat(MODEL) as chat:
        assert chat.ask("My name is Clara.") == "Hello Clara."
        assert chat.ask("What colour is snow?") == "snow is white."
        assert chat.ask("What is my name?") == "You are Clara."


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("test.py", "47 + 38 = 85"),
        ("multi_turn.py", "You are Clara."),
        ("function_calling.py", "It is rainy in Lisbon at 14 degrees."),
        ("stop.py", "from another thread: STOP"),
        ("kvcache.py", "You are Oscar."),
    ],
)
def test_example_programs_run(program: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / program)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
