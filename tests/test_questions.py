"""What strangers ask first, answered by the documents alone in at most two clicks.

A row is a question as a user would say it, the clicks, and words of the answer. A click is a page or ``page#heading``; it must be
there to be clicked: as a link in the text, in the navigation (which every page shows), or as a heading of the page that is open.
The words must stand where the last click leads: under that heading, or on a page before its first heading (all of a short page).
"""

from __future__ import annotations

import functools
import posixpath
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOME = "index.md"
SHORT = 450
"""Words of a page that is read at a glance."""


class Question(NamedTuple):
    """What is asked, where one clicks beginning at the first page, and what is read there."""

    asked: str
    clicks: tuple[str, ...]
    words: tuple[str, ...]


def row(asked: str, page: str, heading: str, *words: str) -> Question:
    """A question that a page answers, or a heading of it."""
    return Question(asked, (page, f"{page}#{heading}") if heading else (page,), words)


QUESTIONS = (
    row("How do I install it on my laptop?", "getting-started.md", "install", "pip install", "Python 3.9"),
    row("Is there a Debian package?", "packages.md", "debian-12-and-13", "make deb", "apt install"),
    row("What is the least that a board needs?", "packages.md", "debian-12-and-13", "python3-rknnlite-rknnrt"),
    row("How do I see that it works?", "getting-started.md", "see-a-picture", "marked.png"),
    row("Must I change my test.py?", "migrating.md", "", "needs no change", "pip uninstall"),
    row("A program asks pip for rknn-toolkit-lite2.", "migrating.md", "programs-that-ask-for-the-distribution", "companion"),
    row("Does it run on my chip?", "supported.md", "", "RK3588", "RK3566", "RV1106", "RK1808"),
    row("Is my operator supported?", "coverage.md", "", "operator"),
    row("'Invalid RKNN model version 6'?", "troubleshooting.md", "opening-a-model", "model version 6", "runtime"),
    row("My file is for another SoC.", "troubleshooting.md", "opening-a-model", "target_platform", "share models"),
    row("librknnrt.so is not found.", "librknnrt.md", "how-the-library-is-found", "RKNNLITE_LIBRARY"),
    row("I may not open the NPU's device.", "troubleshooting.md", "library-driver-device", "no permission", "group"),
    row("Docker without --privileged?", "docker.md", "docker-podman", "--device", "renderD129"),
    row("Which core masks are legal here?", "pipelines.md", "core-masks", "RK3588", "RK3576", "RK3566"),
    row("How do I keep all three cores busy?", "pipelines.md", "a-pool", "rknnlite.Pool", "cores"),
    row("How do I use my camera's dma-buf?", "pipelines.md", "memory-without-copies", "import_fd", "dma-buf"),
    row("How do I get int8 outputs as they are?", "performance.md", "6-avoid-copies-and-conversions", "raw=True"),
    row("Why is the board slow?", "performance.md", "2-fix-the-frequencies", "governor"),
    row("What does 1.0 promise?", "stability.md", "promised", "public names", "hooks"),
    row("An operator of my own, in Python?", "plugin-authors.md", "2-python", "CustomOp"),
    row("How do I talk to a language model?", "llm.md", "", "rknnlite chat"),
    row("How do I run a .rkllm file?", "rkllm.md", "", "librkllmrt"),
    row("A server for OpenAI's clients?", "server.md", "", "rknnlite serve", "OpenAI"),
    row("Who may use my server?", "server.md", "keys-and-tls", "key", "TLS"),
    row("How close are the numbers to the NPU's?", "fidelity.md", "how-close-it-is", "simulator"),
    row("Why is the accuracy gone?", "insight.md", "why-the-accuracy-is-gone", "--cause"),
    row("Can I have the network as ONNX, or for another chip?", "onnx.md", "", "rknnlite export-onnx", "port"),
    row("How do I test it in my CI?", "adopting.md", "github-actions", "runs-on", "pytest"),
    row("May a C program for the board run here?", "c-programs.md", "", "rknnlite exec"),
    row("How do I report a bug?", "troubleshooting.md", "reporting-a-bug", "rknnlite doctor"),
)  # fmt: skip


@functools.cache
def text_of(page: str) -> str:
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    return path.read_text(encoding="utf-8")


@functools.cache
def in_the_navigation() -> frozenset[str]:
    return frozenset(
        re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    )


def anchor_of(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def headings(page: str) -> list[tuple[int, str, int]]:
    """Level, anchor and offset of each; what looks like one inside of a code block is a comment there."""
    text = re.sub(
        r"^```.*?^```", lambda block: " " * len(block[0]), text_of(page), flags=re.DOTALL | re.MULTILINE
    )
    return [
        (len(found[1]), anchor_of(found[2]), found.start())
        for found in re.finditer(r"^(#{2,6}) (.*)$", text, re.MULTILINE)
    ]


def links(page: str) -> set[str]:
    """What can be clicked while a page is open."""
    inside = {
        posixpath.normpath(posixpath.join(posixpath.dirname(page), target)).removeprefix("docs/")
        for target in re.findall(r"\]\(([^)\s]+\.md(?:#[\w-]+)?)\)", text_of(page))
    }
    return inside | in_the_navigation() | {f"{page}#{anchor}" for _, anchor, _ in headings(page)}


def read_at(click: str) -> str:
    """What stands where a click leads."""
    page, _, anchor = click.partition("#")
    text, found = text_of(page), headings(page)
    if not anchor:
        short = len(text.split()) <= SHORT or not found
        return text if short else text[: found[0][2]]
    level, _, start = next(heading for heading in found if heading[1] == anchor)
    ends = [offset for other, _, offset in found if offset > start and other <= level]
    return text[start : min(ends, default=len(text))]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.asked)
def test_a_stranger_finds_the_answer(question: Question) -> None:
    assert 1 <= len(question.clicks) <= 2
    page = HOME
    for click in question.clicks:
        assert click in links(page), f"{page} has no link to {click}"
        page = click.partition("#")[0]
    answer = read_at(question.clicks[-1])
    missing = [word for word in question.words if word.lower() not in answer.lower()]
    assert not missing, f"{question.clicks[-1]} does not say {missing}"


def test_the_list_has_thirty_questions() -> None:
    assert len({question.asked for question in QUESTIONS}) == len(QUESTIONS) == 30


def test_the_first_pages_of_the_four_doors_are_on_both_first_pages() -> None:
    """Who reads README in the repository goes in by the same doors as who reads the site."""
    doors = {"migrating.md", "getting-started.md", "packages.md", "plugin-authors.md"}
    for page in (HOME, "README.md"):
        assert doors <= links(page) and all(door in text_of(page) for door in doors)
