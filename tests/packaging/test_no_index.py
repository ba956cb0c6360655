"""Until an index has rknnlite (``rknnlite.extras.PUBLISHED``), nothing sends people there for it: a checkout, a wheel, a URL."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rknnlite import extras
from tests.support.corpus import ROOT

from .project import extras as declared

ROOMS = (
    ".ci",
    ".github",
    "benchmarks",
    "debian",
    "docs",
    "examples",
    "plugins",
    "rknnlite",
    "tests",
    "tools",
)
TEXTS = {
    "",
    ".md",
    ".py",
    ".sh",
    ".yml",
    ".yaml",
    ".toml",
    ".txt",
    ".in",
    ".html",
    ".js",
    ".Dockerfile",
    ".cfg",
    ".service",
}
COMMAND = re.compile(
    r"\b(?:pip3?|pipx|uv|uvx)[ \t]+(?:pip[ \t]+)?(?:install|run|add|tool install|wheel|download)\b([^\n;&|`]*)"
)
OURS = re.compile(r"(?<![\w./@-])rknnlite(?![\w./-])(?!(?:\[[\w,]+\])?\s*@)")
"""The name, not a part of a path, of another name or of an address, and no ``NAME @ URL``."""


def files() -> Iterator[Path]:
    """Texts of the tree."""
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.name != "CHANGELOG.md")
    for room in ROOMS:
        for folder, below, names in os.walk(ROOT / room):
            below[:] = [name for name in below if name not in ("__pycache__", "lib", "data")]
            yield from (Path(folder) / name for name in names if Path(name).suffix in TEXTS)


def sent_to_an_index(text: str) -> list[str]:
    """Commands of a text that ask an index for rknnlite."""
    found = []
    for command in COMMAND.finditer(text):
        asked = re.split(r"\s#|\)\s*$", command[1])[0]
        if OURS.search(asked) and "--no-index" not in asked:
            found.append(command[0].strip())
    return found


@pytest.mark.parametrize(
    "text",
    [
        "pip install '.[cpu]'   # rknnlite in a checkout",
        "pip install ./wheels/rknnlite-1.0.0-py3-none-any.whl",
        "pip install 'rknnlite[cpu] @ https://example.org/wheels/rknnlite-1.0.0-py3-none-any.whl'",
        "pip install --no-index --find-links build/release rknnlite",
        "pip install tokenizers jinja2 (extra llm; Debian: apt install python3-jinja2)",
        "pip install ./tools/companion; rknnlite doctor",
        "sudo apt install rknnlite",
    ],
)
def test_what_works_without_an_index(text: str) -> None:
    assert not sent_to_an_index(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install rknnlite",
        "pip install 'rknnlite[server]'",
        'python -m pip install -q "rknnlite[fast,pictures]>=1.0" ollama',
        "see `pip3 install rknnlite[llm]` for more",
        "  - run: uv pip install rknnlite",
        "pipx install rknnlite",
    ],
)
def test_what_asks_an_index(text: str) -> None:
    assert sent_to_an_index(text)


@pytest.mark.skipif(extras.PUBLISHED, reason="an index has rknnlite")
def test_nothing_in_the_tree_sends_people_to_an_index() -> None:
    wrong = {
        path.relative_to(ROOT).as_posix(): commands
        for path in files()
        if path != Path(__file__) and (commands := sent_to_an_index(path.read_text("utf-8", "replace")))
    }
    assert not wrong, f"say pip install '.[EXTRA]' in a checkout, a wheel or NAME @ URL: {wrong}"


@pytest.mark.parametrize("name", sorted(extras.EXTRAS))
def test_a_remedy_names_the_packages_of_the_extra(name: str) -> None:
    wanted = {re.split(r"[<>=; \[]", entry)[0] for entry in declared()[name]}
    assert {package.partition("[")[0].strip("'") for package in extras.EXTRAS[name].packages} == wanted


def test_one_place_switches_all_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = extras.EXTRAS["llm"]
    assert extra.remedy.startswith("pip install tokenizers jinja2 (extra llm; ")
    monkeypatch.setattr(sys.modules["rknnlite.extras"], "PUBLISHED", True)
    assert extra.remedy.startswith("pip install 'rknnlite[llm]' (extra llm; ")
