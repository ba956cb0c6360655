"""The trained model of the example knows its answers, and the example programs run."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest
from rknnlite_llm import Chat, Package, export_llm

pytest.importorskip("tokenizers", reason="needs the package tokenizers (extra llm)")
pytest.importorskip("jinja2", reason="needs the package jinja2 (extra llm)")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "llm_chat"
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


@pytest.mark.parametrize("count", [60, pytest.param(400, marks=pytest.mark.slow)])
def test_held_out_questions_are_answered(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    score = _module("score", monkeypatch)
    with Chat(MODEL) as chat:
        right, total, wrong = score.score(chat, islice(score.questions(3, True), count))
    asked = sum(total.values()) - total["json"]
    assert asked == count
    few = [kind for kind in total if right[kind] < 0.95 * total[kind]]
    assert not few, wrong[:5]


def test_the_package_is_small() -> None:
    assert sum(path.stat().st_size for path in Package.of(MODEL).files()) < 12e6


def test_names_are_remembered_over_turns() -> None:
    with Chat(MODEL) as chat:
        assert chat.ask("My name is Clara.") == "Hello Clara."
        assert chat.ask("What colour is snow?") == "snow is white."
        assert chat.ask("What is my name?") == "You are Clara."


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("test.py", "47 + 38 = 85"),
        pytest.param("multi_turn.py", "You are Clara.", marks=pytest.mark.slow),
        ("function_calling.py", "It is rainy in Lisbon at 14 degrees."),
        pytest.param("stop.py", "from another thread: RKLLM_RUN_STOP", marks=pytest.mark.slow),
        pytest.param("kvcache.py", "You are Oscar.", marks=pytest.mark.slow),
    ],
)
def test_example_programs_run(program: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / program)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")])},
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_training_never_sees_a_held_out_question(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _module("questions", monkeypatch)
    trained = {question.key for question in islice(made.questions(2, False, easy=0.5), 5000)}
    asked = {question.key for question in islice(made.questions(3, True), 500)}
    assert not trained & asked


def test_the_package_is_what_the_trained_folder_exports_to(tmp_path: Path) -> None:
    made = export_llm(FOLDER / "trained", tmp_path / "tiny", "f16", max_context=1024)
    for ours, theirs in zip(made.files(), Package.of(MODEL).files()):
        assert ours.read_bytes() == theirs.read_bytes()
