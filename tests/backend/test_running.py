"""What backends say of the order of calls, of frames, time limits and memory: each text stands in one module."""

from __future__ import annotations

import ast
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future
from functools import cache
from pathlib import Path

import pytest
from rknnlite_backend import running, zero_copy

from rknnlite import errors, socs
from rknnlite.native import forks, processes
from tests.support.corpus import ROOT

BACKENDS = ("backend", "cpu", "programs", "remote", "rknn1rt", "rknn3rt", "rknnrt")
PARTS = [
    *(ROOT / "rknnlite" / room for room in ("matmul", "native", "pool", "spi")),
    *(ROOT / "plugins" / f"rknnlite_{name}" for name in BACKENDS),
]
ROOMS = {"kernels", "llm", "native", "ops"}
"""Of backends: what computes, and language models; no words about runs of networks there."""
SHORTEST = 22  # characters of a text that cannot stand twice by chance
TWICE = {
    "; convert it with target_platform='": "a SoC that cannot be played, a board that is another one",
    "; close other contexts": "what to do about two different things",
    "bytes; close other contexts": "the same",
    ": the memory begins at offset": "of a matrix and of a tensor, which have other limits",
    ", which is not installed": "a compiler, a package",
    "is empty; copy it again": "a model, each time in an error of its own kind",
    "is not supported by this library version (": "each library with a remedy of its own",
    "names no board; give HOST:PORT, or one of remotes": "within one plugin",
    "the library answers rank": "of structures of other versions, with other limits",
    "runs no language models": "within the contract",
}
"""What stands in two modules for a reason."""


def modules() -> Iterator[Path]:
    for part in PARTS:
        yield from (
            path for path in sorted(part.rglob("*.py")) if not ROOMS & set(path.relative_to(part).parts)
        )


@cache
def texts(path: Path) -> frozenset[str]:
    """Texts of a module that somebody may read, docstrings left out; the constant parts of f-strings each alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = (
        node.value.strip()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    )
    return frozenset(text for text in found if len(text) >= SHORTEST and " " in text)


def test_no_text_stands_in_two_modules() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        for text in texts(path):
            places[text].append(path.relative_to(ROOT).as_posix())
    twice = {text: where for text, where in places.items() if len(where) > 1 and text not in TWICE}
    assert not twice


@pytest.mark.parametrize(
    ("words", "home"),
    [
        ("is not under way", "plugins/rknnlite_backend/running.py"),
        ("run the model before asking for", "plugins/rknnlite_backend/running.py"),
        ("it goes on, wait for it again", "plugins/rknnlite_backend/running.py"),
        ("give milliseconds, or 0", "plugins/rknnlite_backend/running.py"),
        ("such contexts cannot be duplicated", "plugins/rknnlite_backend/running.py"),
        ("this memory is closed; ", "plugins/rknnlite_backend/zero_copy.py"),
        ("this memory belongs to another context", "plugins/rknnlite_backend/zero_copy.py"),
        ("this context is closed; open the model again", "rknnlite/spi/exclusive.py"),
        ("was made before a fork and belongs to the parent", "rknnlite/native/forks.py"),
        ("sys.path[:] = ", "rknnlite/native/processes.py"),
        ("failed. error code: {name} ({code}); {detail", "plugins/rknnlite_backend/rknn_calls.py"),
        ("C-contiguous, writable arrays are needed", "plugins/rknnlite_backend/rknn_calls.py"),
    ],
)  # fmt: skip
def test_where_the_words_are(words: str, home: str) -> None:
    """In the whole tree: faces, hosts and servers, too."""
    files = [*(ROOT / "rknnlite").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]
    found = {path.relative_to(ROOT).as_posix() for path in files if words in path.read_text(encoding="utf-8")}
    assert found == {home}


def test_frames_under_way() -> None:
    running.check_under_way(3, 0, 3)
    with pytest.raises(
        errors.ParamInvalid, match=r"^frame 4 is not under way; the last one that began is 3$"
    ):
        running.check_under_way(4, 0, 3)
    with pytest.raises(
        errors.ParamInvalid, match=r"^frame 2 is not under way; the last one that began is 3$"
    ):
        running.check_under_way(2, 3, 3)
    with pytest.raises(errors.ParamInvalid, match=r"^frame 0 is not under way; none has begun: call start$"):
        running.check_under_way(0, 0, None)


def test_what_comes_of_a_frame() -> None:
    late: Future[int] = Future()
    with pytest.raises(errors.RunTimeout, match="frame 7 was not done in 1 ms; it goes on"):
        running.wait_done(late, 7, 1)
    late.set_result(5)
    running.wait_done(late, 7, 0)
    assert running.outcome(late, 7) == 5
    given_up: Future[int] = Future()
    given_up.cancel()
    with pytest.raises(errors.ContextInvalid, match="frame 8 was given up"):
        running.outcome(given_up, 8)
    failed: Future[int] = Future()
    failed.set_exception(errors.OutOfMemory("none left"))
    running.wait_done(failed, 9, 0)
    with pytest.raises(errors.OutOfMemory, match="none left"):
        running.outcome(failed, 9)


def test_duplicates() -> None:
    running.check_dup("m", False)
    running.check_dup("m", False, socs.get("rk3588"))
    with pytest.raises(errors.ParamInvalid, match="m has dynamic shapes"):
        running.check_dup("m", True)
    with pytest.raises(errors.TargetPlatformUnmatch, match="rv1103 has no rknn_dup_context"):
        running.check_dup("m", False, socs.get("rv1103"))


@pytest.mark.parametrize("flags", [0, 1, 2, 4, 5, 6])
def test_legal_flags_of_memory(flags: int) -> None:
    zero_copy.check_flags(flags)


@pytest.mark.parametrize("flags", [3, 7, 8, -1])
def test_illegal_flags_of_memory(flags: int) -> None:
    with pytest.raises(errors.ParamInvalid, match="are not legal: cacheable 1 or not 2"):
        zero_copy.check_flags(flags)


def test_sizes_and_directions() -> None:
    zero_copy.check_size(1)
    zero_copy.check_size(10, 10)
    for size, most in ((0, None), (-1, None), (11, 10)):
        with pytest.raises(errors.ParamInvalid, match=f"memory of {size} bytes was asked for"):
            zero_copy.check_size(size, most)
    zero_copy.check_direction("both")
    with pytest.raises(errors.ParamInvalid, match="not one of to_device, from_device, both"):
        zero_copy.check_direction("up")


def test_who_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = forks.Owner()
    assert owner.is_here
    owner.check("this context")
    monkeypatch.setattr(forks.os, "getpid", lambda: -1)
    assert not owner.is_here
    with pytest.raises(
        errors.ContextInvalid,
        match=r"^this pool was made before a fork and belongs to the parent process; make one in the child$",
    ):
        owner.check("this pool", "make one in the child")


def test_a_python_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It imports from where this program imports, and its ``main`` finds its words where a command has them."""
    (tmp_path / "told.py").write_text("import sys\ndef main():\n    print(sys.path[0], *sys.argv[1:])\n")
    monkeypatch.syspath_prepend(tmp_path)
    command = processes.python_main("told", "a b", "c", options=["-E"])
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout
    assert said == f"{tmp_path} a b c\n"
