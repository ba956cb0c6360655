"""Every public class has an example in its docstring, and examples run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rknnlite_vision

import rknnlite

ROOT = Path(__file__).resolve().parent.parent
ROOMS = (
    "rknnlite", "rknnlite.api", "rknnlite_llm", "rknnlite.matmul", "rknnlite.pool", "rknnlite.spi", "rknnlite.spi.command",
    "rknnlite_vision",
)  # fmt: skip
MORE_ROOMS = (
    "rknnlite.errors", "rknnlite.rknn3", "rknnlite_insight.dumps", "rknnlite.spi.llm",
    *(module.name for module in pkgutil.walk_packages(rknnlite_vision.__path__, "rknnlite_vision.")),
)  # fmt: skip
"""Where many small things are, not each of which needs an example; those that are there run."""


def classes() -> Iterator[Any]:
    found = set()
    for room in (*ROOMS, *MORE_ROOMS):
        module = importlib.import_module(room)
        public = [getattr(module, name) for name in getattr(module, "__all__", ())]
        things = {thing for thing in public if inspect.isclass(thing)}
        found |= {thing for thing in public if inspect.isfunction(thing) and ">>> " in (thing.__doc__ or "")}
        found |= {
            thing
            for thing in things
            if room in ROOMS or thing.__name__ == "RKNN3Lite" or ">>> " in (thing.__doc__ or "")
        }
    for thing in sorted(found, key=lambda cls: cls.__qualname__):
        yield pytest.param(thing, id=thing.__name__)


@pytest.mark.parametrize("cls", list(classes()))
def test_example_runs(cls: type[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of its module are there, and np and rknnlite; paths are those of the repository."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")
    if cls.__module__.startswith("rknnlite_llm") or re.search(r"Chat\(|llm_mode=True", cls.__doc__ or ""):
        pytest.importorskip("jinja2", reason="needs jinja2")  # for chat templates
    names = {**vars(sys.modules[cls.__module__]), "np": np, "rknnlite": rknnlite}
    if cls.__module__.startswith("rknnlite.rknn3."):
        names.update(vars(importlib.import_module("rknnlite.rknn3")))
    (test,) = (t for t in doctest.DocTestFinder(recurse=False).find(cls, cls.__name__, globs=names))
    assert test.examples, f"{cls.__qualname__} has no example"
    assert not any(example.options.get(doctest.SKIP) for example in test.examples)
    said: list[str] = []
    failed, _ = doctest.DocTestRunner().run(test, out=said.append)
    assert not failed, "".join(said)
