"""``rknnlite doctor --report``: one text for a bug report, with everything that one is asked for and without secrets."""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from rknnlite import config, plugins
from rknnlite._version import __version__
from rknnlite.commandline.finding_output import finding_parts
from rknnlite.commandline.options import output_file
from rknnlite.errors import ParamInvalid, visible
from rknnlite.extras import EXTRAS
from rknnlite.files.reading import is_stream, read_text
from rknnlite.files.writing import write_text
from rknnlite.native.board import Board
from rknnlite.native.processors import machine
from rknnlite.spi.command import Line
from rknnlite.spi.finding import Finding
from rknnlite.spi.terminal import render

__all__ = ["check_place", "redacted", "report_text", "write_report"]

_NEEDED = ("numpy", "pluggy", "ruamel.yaml", "psutil")
_HIDDEN = "[hidden]"
_SECRET_WORD = (
    r"(?:api[_-]?)?(?:key|token|secret|passw(?:or)?d|passphrase|credentials?|authorization|signature)"
)
_BEFORE = r"(?:^|[?&;\s'\"_-])"
_BEHIND = r"['\"]?\s*[=:]\s*(?:(?:Bearer|Basic)\s+)?"
_SECRET_NAME = re.compile(rf"(?:^|[_.-]){_SECRET_WORD}$", re.IGNORECASE)
_RULES = (
    (re.compile(r"(?<=://)[^/\s@'\"]+@"), f"{_HIDDEN}@"),  # user and password of a URL
    (re.compile(rf"({_BEFORE}{_SECRET_WORD}{_BEHIND})['\"]?[^\s'\"&;,]+['\"]?", re.IGNORECASE | re.MULTILINE), rf"\1{_HIDDEN}"),
    (re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9+/=._~-]{6,}", re.IGNORECASE), rf"\1 {_HIDDEN}"),
    (re.compile(r"\b(?:sk|pk|hf|gh[opsu]|github_pat|glpat|xox[abp])[-_][A-Za-z0-9_-]{8,}"), _HIDDEN),  # as services make them
    (re.compile(r"\b(?=[A-Za-z0-9+/]*\d)(?=[A-Za-z0-9+/]*[A-Za-z])[A-Za-z0-9+]{32,}={0,2}"), _HIDDEN),  # long and random
    (re.compile(r"(/home/|/Users/|/media/|/run/media/)[^/\s'\",:;)]+"), r"\1[user]"),
)  # fmt: skip


def redacted(text: str) -> str:
    """Text without passwords, keys and tokens, the name of the home folder and that of the machine.

    Examples:
        >>> redacted("pulled from https://ada:hunter2@models.example/a.rknn?token=abc")
        'pulled from https://[hidden]@models.example/a.rknn?token=[hidden]'
        >>> redacted("/home/ada/models/a.rknn")
        '/home/[user]/models/a.rknn'
    """
    for rule, instead in _RULES:
        text = rule.sub(instead, text)
    home, host = os.environ.get("HOME", ""), socket.gethostname()
    if home.count("/") > 1 and home not in ("/home", "/Users"):
        text = text.replace(home, "~")
    if len(host) > 3 and host != "localhost":
        text = re.sub(rf"(?<![\w-]){re.escape(host)}(?![\w-])", "[host]", text)
    return text


def check_place(place: str) -> None:
    """Raise for a file that is there, or that nothing can be written to, before any work; ``-`` is stdout."""
    file = Path(place)
    if place == "-" or is_stream(file):
        return
    output_file(file)
    if os.path.lexists(file):
        raise ParamInvalid(f"{file} is there already; name another file, or remove it first")


def write_report(place: str, text: str) -> None:
    """To the file, or to stdout for ``-``."""
    if place == "-":
        sys.stdout.write(text)
        return
    write_text(place, text)


def report_text(board: Board, found: Sequence[Finding], verdict: Line, installed: Sequence[Any]) -> str:
    """All sections, one fact a line, to be pasted into an issue as it is."""
    sections = {
        "versions": _versions(board),
        "machine": _machine(board),
        "plugins": _plugins(installed),
        "backends": _backends(),
        "configuration": _configuration(),
        "findings": [render(finding_parts(found), None, None), "", verdict.text],
    }
    parts = [f"[{title}]\n" + "\n".join(lines) for title, lines in sections.items()]
    return redacted(visible("\n\n".join(parts))) + "\n"


def _versions(board: Board) -> Iterator[str]:
    yield f"rknnlite: {__version__}"
    yield f"Python: {platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
    yield f"system: {_system(board)}, kernel {board.kernel() or platform.release()}"
    yield f"RKNPU driver: {board.driver().value or 'none found'}"
    for package in _NEEDED:
        yield f"{package}: {_version_of(package)}"
    there = [name for name, extra in EXTRAS.items() if not extra.lacking]
    yield f"extras installed: {', '.join(there) or 'none'}"
    yield f"extras not installed: {', '.join(name for name in EXTRAS if name not in there) or 'none'}"


def _system(board: Board) -> str:
    try:
        text = read_text(board.root / "etc/os-release")
    except (OSError, ValueError):
        return platform.system()
    named = re.search(r'^PRETTY_NAME="?([^"\n]+)', text, re.MULTILINE)
    return named[1] if named else platform.system()


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not known to pip"


def _machine(board: Board) -> Iterator[str]:
    soc = board.soc()
    yield f"board: {board.model() or 'no name in a device tree'}"
    yield f"SoC: {soc.name if soc else 'none known'}"
    yield f"processor: {machine()}, {os.cpu_count()} CPUs"
    for name, size in board.memory().items():
        yield f"{name}: {size >> 20} MiB"
    nodes = board.nodes()
    for node in nodes:
        state = "usable" if node.usable else "not usable by this user" if node.exists else "not there"
        yield f"device node: {node.path} ({node.group or 'no group'}), {state}"
    if not nodes:
        yield "device nodes: none"


def _plugins(installed: Sequence[Any]) -> Iterator[str]:
    for one in installed:
        offers = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in one.offers.items() if names)
        package = f"{one.package} {one.version}".strip() or "no package"
        yield f"{one.name} ({package}): {one.problem or offers or 'offers nothing'}"


def _backends() -> Iterator[str]:
    for name, backend in plugins.backends().items():
        probe = plugins.probe(backend)
        library = f"; {probe.library} {probe.version or 'of unknown version'}" if probe.library else ""
        yield f"{name}: {'available' if probe.available else 'not available'}: {probe.reason}{library}"


def _configuration() -> Iterator[str]:
    file = config.path()
    yield f"file: {file}" if file else "file: switched off"
    for problem in config.problems():
        yield f"problem: {problem}"
    for setting in config.settings():
        if setting.value is not None:
            yield f"{setting.key.name} = {_shown(setting.key.name, setting.value)} (from {setting.source})"
    for section in config.SECTIONS.values():
        for name, entry in config.entries(section.name).items():
            for key, value in entry.items():
                told = _HIDDEN if key in section.secret else _shown(key, value)
                yield f"{section.name}.{name}.{key} = {told}"


def _shown(name: str, value: str) -> str:
    return _HIDDEN if _SECRET_NAME.search(name) else repr(value)
