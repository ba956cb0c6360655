"""The site's reference has every public name, member and field, inherited ones too; large classes in the order of use."""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^::: (\S+)\n((?:    .*\n)*)", re.MULTILINE)
LARGE = 12
"""Members of a class beyond which its pages say in which order they stand, and under which headings."""

built = pytest.mark.slow  # building the site takes some 5 s of CPU time
ROOMS = (
    "rknnlite", "rknnlite.api", "rknnlite.errors", "rknnlite.hookspecs", "rknnlite_llm", "rknnlite.matmul", "rknnlite.pool",
    "rknnlite.rknn3", "rknnlite.spi", "rknnlite.spi.command", "rknnlite.spi.llm", "rknnlite_vision",
)  # fmt: skip
NOT_ALONE = {"__version__"}
"""Texts, which have no entries."""

FROM_CODES = {"RKNN3Error"}
"""Enumerations made of ``errors.RKNN3_CODES``: their members stand there as text."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The reference's pages, one after the other."""
    pytest.importorskip("mkdocstrings", reason="needs the extra docs")
    site = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return "".join(page.read_text(encoding="utf-8") for page in sorted((site / "reference").glob("*.html")))


@pytest.fixture(scope="module")
def anchors(pages: str) -> set[str]:
    return set(re.findall(r'\bid="([\w.]+)"', pages))


@built
@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_and_member_has_an_entry(room: str, anchors: set[str]) -> None:
    module = importlib.import_module(room)
    missing: list[str] = []
    hooks = {
        name for name in module.__all__ if name.startswith("rknnlite_register_")
    }  # pluggy calls them, nobody else
    for name in sorted({*module.__all__} - NOT_ALONE - hooks):
        thing = getattr(module, name)
        paths = [path for path in (f"{room}.{name}", *other_paths(thing)) if path in anchors]
        wanted = set(members(thing)) if inspect.isclass(thing) and name not in FROM_CODES else ()
        missing += (
            f"{name}.{member}" for member in wanted if not any(f"{p}.{member}" in anchors for p in paths)
        )
        missing += [] if paths else [name]
    assert not missing, f"docs/reference has no entry for {missing} of {room}"


@built
@pytest.mark.parametrize("name", sorted(FROM_CODES))
def test_members_made_of_codes_stand_in_the_table_of_codes(name: str, pages: str) -> None:
    shown = set(re.findall(r"\b(RKNN3_[A-Z_]+)\b", pages))
    assert set(getattr(importlib.import_module("rknnlite.rknn3"), name).__members__) <= shown


@built
def test_hooks_have_entries(anchors: set[str]) -> None:
    hooks = importlib.import_module("rknnlite.hookspecs")
    assert {f"rknnlite.hookspecs.{name}" for name in vars(hooks) if name.startswith("rknnlite_")} <= anchors


def other_paths(thing: Any) -> list[str]:
    """Where else the same thing can be had from: the room that defines it, and the others that hand it on."""
    home = [thing.__module__ + "." + thing.__qualname__] if hasattr(thing, "__qualname__") else []
    rooms = [importlib.import_module(room) for room in ROOMS]
    return home + [
        f"{room.__name__}.{name}" for room in rooms for name in room.__all__ if getattr(room, name) is thing
    ]


def members(cls: type[Any]) -> Iterator[str]:
    """Public members that our own classes bring, fields and members of enumerations included."""
    if issubclass(cls, (ctypes.Structure, ctypes.Union)):
        yield "_fields_"
        return
    for base in cls.__mro__:
        if base.__module__.startswith("rknnlite"):
            yield from (name for name in vars(base) if not name.startswith("_"))
    if dataclasses.is_dataclass(cls):
        yield from (field.name for field in dataclasses.fields(cls) if not field.name.startswith("_"))
    if issubclass(cls, enum.Enum):
        yield from cls.__members__
    yield from getattr(cls, "_fields", ())  # of a named tuple


def entries() -> Iterator[tuple[type[Any], dict[str, Any]]]:
    """Classes on the pages of the reference, and the options of each block that shows one or a part of one."""
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        for path, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            thing: Any = pkgutil.resolve_name(path)
            options = (YAML(typ="safe").load(text) or {}).get("options", {})
            names = options.get("members") or [] if inspect.ismodule(thing) else []
            yield from (
                (part, {}) for part in (getattr(thing, name) for name in names) if inspect.isclass(part)
            )
            if inspect.isclass(thing):
                yield thing, options


def is_record(cls: type[Any]) -> bool:
    """What has fields or values, which stand as they are written."""
    return issubclass(cls, (enum.Enum, ctypes.Structure, ctypes.Union, tuple)) or dataclasses.is_dataclass(
        cls
    )


def ordered_classes() -> list[type[Any]]:
    """Those that are large, and smaller ones whose members are listed nevertheless."""
    listed = {cls for cls, options in entries() if options.get("members")}
    classes = {cls: None for cls, _ in entries() if not is_record(cls)}
    return [cls for cls in classes if cls in listed or len(set(members(cls))) > LARGE]


@pytest.mark.parametrize("cls", ordered_classes(), ids=lambda cls: cls.__name__)
def test_each_member_of_such_a_class_has_one_place(cls: type[Any]) -> None:
    """A new member is put where it is used, or among those that only backends and servers need."""
    lists = [options.get("members") for shown, options in entries() if shown is cls]
    assert None not in lists, (
        f"give {cls.__name__} `members:` in the order of use: {sorted(set(members(cls)))}"
    )
    placed = [name for names in lists for name in names or ()]
    wanted, put = set(members(cls)), Counter(placed)
    assert not wanted - set(put), (
        f"docs/reference has no place for {sorted(wanted - set(put))} of {cls.__name__}"
    )
    assert put == Counter(wanted), (
        f"docs/reference places twice, or too much: {sorted(put - Counter(wanted))}"
    )


def test_large_classes_are_found() -> None:
    found = {cls.__name__ for cls in ordered_classes()}
    assert {"Context", "LlmSession", "Backend", "Matmul", "RKNNLite", "RKNN3Lite", "Pool"} <= found


def test_members_are_found() -> None:
    """What this file asks for is what one would ask for."""
    import rknnlite
    from rknnlite.rknn3 import RKNN3Lite

    assert {"infer", "infer_async", "close", "exclusive", "inputs"} <= set(members(rknnlite.Context))
    assert {"dims", "quant", "size_with_stride", "n_elems"} <= set(members(rknnlite.TensorAttr))
    assert {"data", "scale", "zero_point"} <= set(members(rknnlite.RawOutput))
    assert {"CORE_0", "ALL"} <= set(members(rknnlite.CoreMask))
    assert {"init_llm_session", "session_run", "stream", "save_kvcache", "inference"} <= set(
        members(RKNN3Lite)
    )
