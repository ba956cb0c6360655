"""What documents name is there: files and folders of this tree, and modules of ours under the names that they have today."""

from __future__ import annotations

import functools
import os
import pkgutil
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from rknnlite_backend.former_paths import FORMER

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("rknnlite", "plugins", "tests", "examples", "docs", "tools", "benchmarks", "debian")
DOCUMENTS = [
    *(path for path in sorted(ROOT.glob("*.md")) if path.name != "CHANGELOG.md"),  # which is history
    *(
        path
        for room in ("docs", "examples", "benchmarks", "tools")
        for path in sorted((ROOT / room).rglob("*.md"))
    ),
]
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]+)")
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODULE = re.compile(r"(?:rknnlite|rknnlite_\w+|rknn3lite)(?:\.\w+)+")
SOURCE = re.compile(r"[\w*-]+\.(?:py|c|h|md|proto)")
"""Names of files that are ours wherever they stand; those with other endings are programs' own more often than not."""


@functools.cache
def tree() -> tuple[frozenset[str], frozenset[str]]:
    """Files of the repository and folders that hold some, from every folder on (``a/b.py`` is ``b.py``, too); our rooms."""
    files = [path.name for path in ROOT.iterdir() if path.is_file()]
    for room in ROOMS:
        for folder, below, names in os.walk(ROOT / room):
            below[:] = [name for name in below if name != "__pycache__" and not name.endswith(".egg-info")]
            files += [(Path(folder) / name).relative_to(ROOT).as_posix() for name in names]
    found, folders = set(), set(ROOMS)
    for file in files:
        parts = file.split("/")
        if parts[0] in ("rknnlite", "plugins"):
            folders.update(parts[:-1])
        found.update("/".join(parts[a:b]) for b in range(1, len(parts) + 1) for a in range(b))
    return frozenset(found), frozenset(folders)


def named_paths(text: str) -> Iterator[str]:
    """Paths in backticks that begin with a folder of this tree, and names of source files."""
    folders = tree()[1]
    for span in SPAN.findall(FENCE.sub("", text)):
        for word in re.findall(r"(?<![\w/.~-])[\w*.-]+(?:/[\w*.-]*)*", span):
            if SOURCE.fullmatch(word) or ("/" in word and word.partition("/")[0] in folders):
                yield word.rstrip("./")


def is_there(path: str) -> bool:
    """Whether the tree has a file or folder whose path ends so; ``*`` stands for whatever is there."""
    found, _ = tree()
    return path in found or ("*" in path and any(fnmatch(each, path) for each in found))


def named_modules(text: str) -> Iterator[str]:
    """Names of ours with dots, in backticks; one in capitals stands for any, ``rknnlite.pc`` is a file."""
    for span in SPAN.findall(FENCE.sub("", text)):
        for word in MODULE.findall(span):
            if not word.rpartition(".")[2].isupper() and word != "rknnlite.pc":
                yield word


def services() -> set[str]:
    """Names of gRPC services of ours, which look like modules."""
    text = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("plugins/*/*.proto"))
    package = re.findall(r"^package ([\w.]+);", text, re.MULTILINE)
    return {
        f"{room}.{service}"
        for room in package
        for service in re.findall(r"^service (\w+)", text, re.MULTILINE)
    }


def test_every_path_in_the_documents_exists() -> None:
    missing = [
        f"{document.relative_to(ROOT)}: {path}"
        for document in DOCUMENTS
        for path in named_paths(document.read_text(encoding="utf-8"))
        if not is_there(path)
    ]
    assert not missing, "\n".join(missing)


def test_links_of_examples_and_tools_lead_somewhere() -> None:
    """Of the other documents ``tests/test_docs.py`` asks it."""
    for document in DOCUMENTS:
        for link in LINK.findall(FENCE.sub("", document.read_text(encoding="utf-8"))):
            assert "://" in link or link.startswith("mailto:") or (document.parent / link).exists(), (
                f"{document}: {link}"
            )


def test_every_module_in_the_documents_is_found_under_todays_name() -> None:
    others = services()
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for name in sorted({*named_modules(text)} - others):
            pkgutil.resolve_name(name)
        taught = MODULE.findall(text)
        former = [name for name in taught if any(f"{name}.".startswith(f"{each}.") for each in FORMER)]
        assert not former, f"{document.relative_to(ROOT)} teaches names of earlier versions: {former}"


def test_what_is_gone_is_noticed() -> None:
    text = "`rknnlite/gone.py`, `formats/`, `gone.c`, `/etc/gone.conf`, `mine/gone.txt`, `rknnlite.NAME`, `rknnlite.gone`"
    assert [path for path in named_paths(text) if not is_there(path)] == ["rknnlite/gone.py", "gone.c"]
    assert [*named_modules(text)] == ["rknnlite.gone"]
