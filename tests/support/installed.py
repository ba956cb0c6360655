"""What a line ``pip install`` brings, and interpreters to which everything else is not there.

A document's blocks run after that document's own lines. Requirements are followed through the packages that are installed here.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

__all__ = ["HIDE", "asked_for", "hidden_after", "hiding_folder"]

HIDE = "RKNNLITE_TEST_HIDDEN"
"""Variable of a child process: names of modules, split by commas, that it does not find."""
_LINE = re.compile(r"pip install ([^\n#&|)]*)")
_PACKAGE = re.compile(r"^(\.|[A-Za-z][\w.-]*?)(?:\[([\w,]+)\])?(?:[<>=!~].*)?$")
_WITH_PYTHON = {"pip", "setuptools", "_distutils_hack", "pkg_resources"}
_CUSTOMIZE = f"""\
import os, sys
class _Hidden:
    names = set(filter(None, os.environ.get({HIDE!r}, "").split(",")))
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, _Hidden())
"""


def asked_for(text: str) -> frozenset[str]:
    """What the lines ``pip install`` of a text name: ``rknnlite[fast]``, ``openai``; a checkout (``.``) is rknnlite."""
    found = {"rknnlite"}
    for line in _LINE.findall(text):
        for word in re.sub(r"[`'\"]", " ", line).split():
            package = _PACKAGE.match(word)
            if package and "/" not in word:
                name = "rknnlite" if package[1] == "." else package[1].lower()
                found.add(f"{name}[{package[2]}]" if package[2] else name)
    return frozenset(found)


@functools.cache
def hidden_after(asked: frozenset[str]) -> str:
    """Modules that are installed here and would not be, had only that been installed; for the variable ``HIDE``."""
    if sys.version_info < (3, 10):
        return ""  # which modules a package brings is told by newer versions
    brought = set(_brought(asked))
    return ",".join(
        sorted(
            module
            for module, packages in metadata.packages_distributions().items()
            if not brought & set(map(_plain, packages))
            and module not in _WITH_PYTHON
            and not module.startswith("rknn")
        )
    )


def hiding_folder(folder: Path) -> Path:
    """Write what hides modules into a folder, which goes first into ``PYTHONPATH``."""
    (folder / "sitecustomize.py").write_text(_CUSTOMIZE)
    return folder


def _brought(asked: Iterable[str]) -> Iterator[str]:
    from packaging.requirements import Requirement

    seen: set[tuple[str, str]] = set()
    ahead = [Requirement(text) for text in asked]
    while ahead:
        wanted = ahead.pop()
        for extra in ("", *wanted.extras):
            if (_plain(wanted.name), extra) in seen:
                continue
            seen.add((_plain(wanted.name), extra))
            try:
                needs = metadata.requires(wanted.name) or []
            except metadata.PackageNotFoundError:
                continue
            yield _plain(wanted.name)
            further = map(Requirement, needs)
            ahead += [r for r in further if r.marker is None or r.marker.evaluate({"extra": extra})]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
