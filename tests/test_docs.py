"""The documentation keeps its word: Python blocks run, links lead somewhere, named make targets exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md"))
    if path.is_file()
)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TARGET = re.compile(r"^([a-z][\w-]*):", re.MULTILINE)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks() -> list[object]:
    """Every Python block with its document and line."""
    found = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(pytest.param(match.group(1), id=f"{name(path)}:{line}"))
    return found


@pytest.mark.parametrize("code", blocks())
def test_block_runs(code: str, tmp_path: Path) -> None:
    """Each block is a program of its own; paths in it are relative to a folder that holds the examples."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "RKNNLITE_BACKEND": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not re.search(r"^E ", done.stderr, re.MULTILINE), done.stderr


def test_readme_shows_both_interfaces() -> None:
    shown = "".join(BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    assert "from rknnlite.api import RKNNLite" in shown
    assert "rknnlite.open(" in shown


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    anchors = {anchor_of(line) for line in text.splitlines() if line.startswith("#")}
    for link in LINK.findall(text):
        target, _, anchor = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        if target:
            assert (path.parent / target).exists(), f"{name(path)} links to {link}, which does not exist"
        else:
            assert anchor in anchors, f"{name(path)} links to a heading {anchor!r}, which does not exist"


def anchor_of(heading: str) -> str:
    """The fragment that a heading gets."""
    words = re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower())
    return words.replace(" ", "-")


def test_named_make_targets_exist() -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        named = re.findall(r"(?:^ {4}|`)make ([a-z]+)", text, re.MULTILINE)
        unknown = [target for target in named if target not in targets]
        assert not unknown, f"{name(path)} names make targets {unknown}; the Makefile has {sorted(targets)}"
