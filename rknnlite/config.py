"""Settings that are no arguments: environment variables, else one optional YAML file.

A setting is a text under a key. A section holds entries of the user's names, with keys of their own each; only the file
has those.

The file is ``RKNNLITE_CONFIG`` (empty: none), else ``rknnlite/config.yaml`` in the XDG configuration folder. It is read
once, when a setting is first asked for. A key that is unknown or of the wrong kind is named in a warning and left
out; nothing in a configuration file keeps a program from starting, nor makes it wait: the file is short, has few levels,
and no aliases, with which a few lines stand for billions of values.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

from .errors import shown

__all__ = [
    "KEYS",
    "SECTIONS",
    "Key",
    "Section",
    "Setting",
    "cache_folder",
    "entries",
    "get",
    "overriding",
    "path",
    "problems",
    "settings",
]

_LARGEST = 1 << 16  # bytes; no sensible configuration is longer
_DEEPEST, _MOST_NODES = 8, 4096
_MOST_PROBLEMS = 20
_LARGEST_INT = 1 << 64


class Key(NamedTuple):
    """One setting: its name in the file, its environment variable, and what it means.

    ``separator`` joins the items of a list in the file to the text that the variable would hold; without one a
    list is refused.
    """

    name: str
    variable: str
    meaning: str
    separator: str = ""


KEYS = {
    key.name: key
    for key in (
        Key("backend", "RKNNLITE_BACKEND", "backend to use: cpu, rknnrt, ..."),
        Key("soc", "RKNNLITE_SOC", "SoC to play on the CPU reference, and to assume for this machine"),
        Key("disable", "RKNNLITE_DISABLE", "plugins to leave out", ","),
        Key("log_level", "RKNN_LOG_LEVEL", "0 errors, 1 warnings, 2 info, 3 debug, 4 time per layer, 5 dumps"),
        Key("debug", "RKNNLITE_DEBUG", "1: checks that cost time, such as inputs changed during a call"),
        Key("library", "RKNNLITE_LIBRARY", "the vendor's runtime library, or the folder that holds it"),
        Key("rknn3_library", "RKNNLITE_RKNN3_LIBRARY", "the same for RK1820/RK1828: librknn3_api.so"),
        Key("rknn1_library", "RKNNLITE_RKNN1_LIBRARY", "the same for RK1808, RV1109, RV1126, RK3399Pro: librknn_api.so"),
        Key("rknn1_deconvolution", "RKNNLITE_RKNN1_DECONVOLUTION", "order of square weights there: io (inputs first), oi"),
        Key("rkllm_library", "RKNNLITE_RKLLM_LIBRARY", "the same for language models (.rkllm): librkllmrt.so"),
        Key("rkllm_model", "RKNNLITE_RKLLM_MODEL", "what rknnlite's own librkllmrt.so computes in the place of any .rkllm"),
        Key("rkllm_version", "RKNNLITE_RKLLM_VERSION", "version of the API that rknnlite's own librkllmrt.so has"),
        Key("threads", "RKNNLITE_THREADS", "threads of the CPU reference besides BLAS"),
        Key("engine", "RKNNLITE_ENGINE", "what computes on the CPU: numpy, native; for networks also onnxruntime, openvino"),
        Key("engine_precise", "RKNNLITE_ENGINE_PRECISE", "0: engines may differ from numpy in last steps, to be faster"),
        Key("opencv", "RKNNLITE_OPENCV", "0: the CPU reference computes without OpenCV"),
        Key("cache", "RKNNLITE_CACHE", "folder for helper programs that are built on first use"),
        Key("dump_dir", "RKNNLITE_DUMP_DIR", "folder for the tensors of runs at log level 5"),
        Key("op_plugins", "RKNNLITE_OP_PLUGINS", "folders with compiled operators (librkcst_*.so)", ":"),
        Key("isolate_plugins", "RKNNLITE_ISOLATE_PLUGINS", "1: compiled operators in a process of their own; auto: where possible"),
        Key("template_ms", "RKNNLITE_TEMPLATE_MS", "milliseconds that a model's chat template may take; 2000"),
        Key("template_kib", "RKNNLITE_TEMPLATE_KIB", "KiB of text that a model's chat template may write; 4096"),
        Key("tokenizer_ms", "RKNNLITE_TOKENIZER_MS", "milliseconds that a tokenizer with unknown expressions may take; 10000"),
        Key("riscv_cc", "RKNNLITE_RISCV_CC", "compiler that links RISC-V post-process plugins"),
        Key("remote", "RKNNLITE_REMOTE", "board from afar to run models on: a name among remotes, or HOST:PORT", ","),
    )
}  # fmt: skip


class Section(NamedTuple):
    """Entries with names of the user's, as many as there are: what each may hold.

    ``keys`` are names and meanings, ``lists`` those whose value may be a list (joined by commas), ``secret`` those whose
    values no message and no report shows.
    """

    name: str
    keys: Mapping[str, str]
    lists: frozenset[str] = frozenset()
    secret: frozenset[str] = frozenset()


SECTIONS = {
    "remotes": Section(
        "remotes",
        {
            "address": "HOST:PORT of its server; several are balanced",
            "key": "API key of its server",
            "key_file": "file whose first line is the key",
            "ca": "certificate (PEM) that signed the server's: the connection is encrypted",
            "server_name": "name in the server's certificate, where it is not the host's",
            "tls": "1: encrypted, with the certificates of this system",
            "key_without_tls": "1: the key may go over a connection that is not encrypted",
        },
        frozenset({"address"}),
        frozenset({"key"}),
    )
}
"""Sections by name."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


_overridden: dict[str, str] = {}  # by the program, see ``overriding``
Entries = dict[str, dict[str, str]]


class _Content(NamedTuple):
    """What a file says: settings, entries by section, problems."""

    values: dict[str, str]
    entries: dict[str, Entries]
    problems: tuple[str, ...]


class Setting(NamedTuple):
    """A setting in force: ``value`` None where nothing is set; ``source`` is a variable, a file or ``default``."""

    key: Key
    value: Optional[str]
    source: str


def path() -> Path | None:
    """The configuration file, whether it exists or not; None where it is switched off or there is no home."""
    return _place(*map(os.environ.get, ("RKNNLITE_CONFIG", "XDG_CONFIG_HOME", "HOME", "USERPROFILE")))


@functools.lru_cache(maxsize=8)
def _place(named: str | None, folder: str | None, *homes: str | None) -> Path | None:
    """By the variables, ``homes`` those that ``Path.home`` looks at: settings are asked for with every call of a pool."""
    if named is not None:
        return Path(named) if named else None
    try:
        return Path(folder or Path.home() / ".config") / "rknnlite" / "config.yaml"
    except RuntimeError:  # no home directory
        return None


def get(name: str) -> str | None:
    """The text of a setting; an environment variable that is set, even to nothing, wins over the file."""
    return _setting(KEYS[name]).value


def cache_folder() -> Path:
    """``RKNNLITE_CACHE``, else ``rknnlite`` in the XDG cache folder; not made. Raises RuntimeError for a user without a home."""
    named = get("cache")
    return Path(named or f"{os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'}/rknnlite")


def entries(section: str) -> Entries:
    """The entries of a section of the file by name, each with its keys."""
    found = _content()
    return {name: dict(entry) for name, entry in found.entries.get(SECTIONS[section].name, {}).items()}


@contextlib.contextmanager
def overriding(name: str, value: str) -> Iterator[None]:
    """A setting as the program wants it while a ``with`` block runs, whatever variables and the file say."""
    before = dict(_overridden)
    _overridden[KEYS[name].name] = value
    try:
        yield
    finally:
        _overridden.clear()
        _overridden.update(before)


def settings() -> list[Setting]:
    """All settings with their values and where these come from."""
    return [_setting(key) for key in KEYS.values()]


def problems() -> list[str]:
    """What is wrong with the configuration file, one sentence each."""
    return list(_content().problems)


def _content() -> _Content:
    file = path()
    return (
        _read(str(file), bool(os.environ.get("RKNNLITE_CONFIG")))
        if file is not None
        else _Content({}, {}, ())
    )


def _setting(key: Key) -> Setting:
    if key.name in _overridden:
        return Setting(key, _overridden[key.name], "the program")
    named = os.environ.get(key.variable)
    if named is not None:
        return Setting(key, named, key.variable)
    values = _content().values
    if key.name in values:
        return Setting(key, values[key.name], str(path()))
    return Setting(key, None, "default")


@functools.lru_cache(maxsize=8)
def _read(file: str, named: bool) -> _Content:
    """What a file says; one that nobody named need not exist."""
    values: dict[str, str] = {}
    sections: dict[str, Entries] = {}
    try:
        wrong = _parse(Path(file), values, sections)
    except FileNotFoundError:
        wrong = [f"{file} (from RKNNLITE_CONFIG) does not exist"] if named else []
    except (OSError, UnicodeDecodeError) as error:
        wrong = [f"{file} cannot be read: {getattr(error, 'strerror', None) or error}"]
    for problem in wrong:
        logging.getLogger("rknnlite").warning("configuration: %s", problem)
    return _Content(values, sections, tuple(wrong))


def _parse(file: Path, values: dict[str, str], sections: dict[str, Entries]) -> list[str]:
    if file.is_fifo():
        return [f"{file} cannot be read: it is a pipe, which may never end; give a file"]
    with file.open("rb") as opened:
        data = opened.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        return [f"{file} is larger than {_LARGEST} bytes; this is no configuration"]
    try:
        content = _yaml(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise
    except Exception as error:  # YAMLError, and for odd tags and numbers whatever the parser stumbles over
        return [f"{file} is no YAML: {shown(error, 200)}"]
    if content is None:
        return []
    if not isinstance(content, dict):
        return [f"{file} must hold 'key: value' lines, it holds a {type(content).__name__}"]
    wrong: list[str] = []
    for name, value in content.items():
        if isinstance(name, str) and name in SECTIONS:
            wrong += _take_section(SECTIONS[name], value, sections.setdefault(name, {}))
        else:
            wrong += filter(None, [_take(name, value, values)])
    left = len(wrong) - _MOST_PROBLEMS
    wrong[_MOST_PROBLEMS:] = [f"and {left} problems more"] if left > 0 else []
    return [f"{file}: {problem}" for problem in wrong]


def _yaml(text: str) -> Any:
    """What the YAML text says, once its events have shown that it is small; raises ValueError, YAMLError and others."""
    from ruamel.yaml import YAML  # a slow import: only where there is a file
    from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, NodeEvent

    depth = nodes = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        if isinstance(event, AliasEvent):
            raise ValueError(
                f"alias {shown('*' + event.anchor)}: write the value out, aliases are not used here"
            )
        nodes += isinstance(event, NodeEvent)
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > _DEEPEST or nodes > _MOST_NODES:
            raise ValueError(
                f"more than {_DEEPEST} levels or {_MOST_NODES} values; a configuration has a line per key"
            )
    return YAML(typ="safe", pure=True).load(text)


def _take(name: Any, value: Any, values: dict[str, str]) -> str:
    key = KEYS.get(name) if isinstance(name, str) else None
    if key is None:
        return f"unknown key {shown(name)}; there are {', '.join([*KEYS, *SECTIONS])}"
    text = _text(value, key.separator)
    if text is None:
        return f"{key.name} cannot be {shown(value)}; give a {'list' if key.separator else 'text or number'}"
    values[key.name] = text
    return ""


def _take_section(section: Section, value: Any, found: Entries) -> Iterator[str]:
    """Problems of a section; what is right goes to ``found``. Values of secret keys stay out of the messages."""
    if not isinstance(value, dict):
        yield f"{section.name} must hold a name with keys below it for each entry, it holds a {type(value).__name__}"
        return
    for name, keys in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"{section.name}: {shown(name)} is no name; letters, digits, '.', '-' and '_' make one"
        elif not isinstance(keys, dict):
            yield f"{section.name}.{name} must hold 'key: value' lines; there are {', '.join(section.keys)}"
        else:
            entry = found.setdefault(name, {})
            for key, given in keys.items():
                yield from _take_entry(section, f"{section.name}.{name}", key, given, entry)


def _take_entry(section: Section, where: str, key: Any, value: Any, entry: dict[str, str]) -> Iterator[str]:
    if not isinstance(key, str) or key not in section.keys:
        yield f"{where}: unknown key {shown(key)}; there are {', '.join(section.keys)}"
        return
    text = _text(value, "," if key in section.lists else "")
    if text is not None:
        entry[key] = text
        return
    what = f"a {type(value).__name__}" if key in section.secret else shown(value)
    yield f"{where}.{key} cannot be {what}; give a {'list' if key in section.lists else 'text or number'}"


def _text(value: Any, separator: str) -> str | None:
    """A value as the text that stands for it; None for what has none."""
    if isinstance(value, list) and separator and all(map(_plain, value)):
        return separator.join(map(str, value))
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value) if _plain(value) else None


def _plain(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and abs(value) < _LARGEST_INT)
