"""Settings: variables, the file, what is wrong in it; the table of keys and the table of extras are complete."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from rknnlite_backend.versions import runtime_clash
from ruamel.yaml.constructor import SafeConstructor as Constructor

from rknnlite import config
from rknnlite.extras import EXTRAS, missing
from tests.support.corpus import ROOT


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    config._read.cache_clear()
    path = tmp_path / "config.yaml"
    monkeypatch.setenv("RKNNLITE_CONFIG", str(path))
    for key in config.KEYS.values():
        monkeypatch.delenv(key.variable, raising=False)
    return path


def test_a_variable_wins_over_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(
        "backend: cpu\nthreads: 2\nopencv: false\ndisable: [opencl, riscv]\nop_plugins: [/a, /b]\n"
    )
    assert config.get("backend") == "cpu"
    assert config.get("threads") == "2"
    assert config.get("opencv") == "0"
    assert config.get("disable") == "opencl,riscv"
    assert config.get("op_plugins") == "/a:/b"
    assert config.get("soc") is None
    monkeypatch.setenv("RKNNLITE_BACKEND", "")
    assert config.get("backend") == ""
    sources = {setting.key.name: setting.source for setting in config.settings()}
    assert (sources["backend"], sources["threads"], sources["soc"]) == (
        "RKNNLITE_BACKEND",
        str(file),
        "default",
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bakend: cpu", "unknown key 'bakend'"),
        ("1: cpu", "unknown key 1"),
        ("backend: [a, b]", "backend cannot be"),
        ("threads: {a: 1}", "threads cannot be"),
        ("- a", "must hold 'key: value' lines"),
        ("a: [", "is no YAML"),
        ("a: 1\na: 2", "is no YAML"),
        ("\x00", "is no YAML"),
        ("x: &a [*a]", ""),
    ],
)
def test_mistakes_are_named_and_nothing_stops(file: Path, text: str, says: str) -> None:
    file.write_text(text)
    assert config.get("backend") is None
    assert any(says in problem and str(file) in problem for problem in config.problems())


def _bomb(levels: int) -> str:
    lists = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x]", *lists, f"backend: *a{levels - 1}"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (_bomb(9), "alias '*a0"),
        ("backend: " + "[" * 500 + "]" * 500, "levels"),
        ("- " * 5000 + "x", "levels"),
        ("\n".join(f"k{i}: v" for i in range(5000)), "4096 values"),
        ("\n".join(f"k{i}: v" for i in range(1000)), "980 problems more"),
        ("? " + "k" * 5000 + "\n: v", "unknown key 'kkk"),
        ("backend: [" + "x" * 5000 + "]", "backend cannot be ['xxx"),
        ("threads: 0x" + "f" * 50000, "a int beyond all bounds"),
        ("backend: [0x" + "f" * 50000 + "]", "beyond all bounds"),
        ("? 0x" + "f" * 50000 + "\n: 1", "unknown key a int beyond all bounds"),
        ("threads: !!bool perhaps", "is no YAML"),
        ("threads: !!timestamp x", "is no YAML"),
        ("threads: !!python/object/apply:os.system [true]", "is no YAML"),
        ("*" + "a" * 5000, "alias '*aaa"),
        ("@" + "a" * 5000, "is no YAML"),
    ],
)
def test_bombs_are_refused_before_they_are_built(
    file: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    """Work is bounded by events and characters: nothing is built of what was refused, no message repeats it."""
    built: list[int] = []
    real = Constructor.construct_object
    monkeypatch.setattr(
        Constructor, "construct_object", lambda self, *a, **k: built.append(1) or real(self, *a, **k)
    )
    file.write_text(text)
    assert config.get("backend") is None
    problems = config.problems()
    assert any(says in problem for problem in problems)
    assert max(len(problem) for problem in problems) < len(str(file)) + 200 + len(", ".join(config.KEYS))
    assert len(problems) <= 21
    assert len(built) < 10_000


def test_a_pipe_is_no_configuration(file: Path) -> None:
    os.mkfifo(file)
    assert "pipe" in config.problems()[0]


def test_a_file_that_is_not_there(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert config.get("backend") is None
    assert "does not exist" in config.problems()[0]
    monkeypatch.delenv("RKNNLITE_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(file.parent))
    assert config.path() == file.parent / "rknnlite" / "config.yaml"
    assert config.problems() == []
    monkeypatch.setenv("RKNNLITE_CONFIG", "")
    assert config.path() is None


def test_bytes_and_sizes(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\xff")
    assert config.problems()
    config._read.cache_clear()
    file.write_bytes(b"#" * (1 << 21))
    assert "larger than" in config.problems()[0]
    config._read.cache_clear()
    file.unlink()
    file.mkdir()
    assert config.problems()


def test_every_variable_of_the_package_is_a_key() -> None:
    used = set()
    for folder in ("rknnlite", "plugins"):
        for path in (ROOT / folder).rglob("*.py"):
            used |= set(
                re.findall(r"environ(?:\.get\(|\[)\"(RKNN[A-Z0-9_]+)\"", path.read_text(encoding="utf-8"))
            )
    assert used <= {"RKNNLITE_CONFIG", *(key.variable for key in config.KEYS.values())}


def test_extras_are_those_of_the_distribution() -> None:
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for extra in EXTRAS.values():
        assert re.search(rf"^{extra.name} = \[", declared, re.MULTILINE)
    text = str(missing("plot", "plots need matplotlib"))
    assert "pip install matplotlib (extra plot" in text
    assert "python3-matplotlib" in text


@pytest.mark.parametrize(
    ("toolkit", "runtime", "clash"),
    [
        ("1.4.0", "1.4.0", ""),
        ("1.4.0", "1.6.0", "convert the network again"),
        ("1.5.0", "1.5.2", "convert"),
        ("1.6.0", "1.5.2", ""),
        ("2.3.2+abc", "1.6.0", "update the runtime"),
        ("2.3.2", "2.0.0", ""),
        ("", "2.0.0", ""),
        ("2.0.0", "unknown", ""),
    ],
)
def test_runtime_and_model(toolkit: str, runtime: str, clash: str) -> None:
    found = runtime_clash(toolkit, runtime)
    assert clash in found
    assert bool(found) is bool(clash)


def test_named_entries(file: Path) -> None:
    file.write_text(
        "remotes:\n  kitchen:\n    address: [a:1, b:2]\n    key: 12345\n    tls: true\n  hall: {address: 'c:3'}\n"
        "remote: kitchen\n"
    )
    assert config.entries("remotes") == {
        "kitchen": {"address": "a:1,b:2", "key": "12345", "tls": "1"},
        "hall": {"address": "c:3"},
    }
    assert config.get("remote") == "kitchen"
    assert not config.problems()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("remotes: [a]", "remotes must hold a name"),
        ("remotes: {kitchen: a}", "remotes.kitchen must hold 'key: value'"),
        ("remotes: {kitchen: {adress: a}}", "remotes.kitchen: unknown key 'adress'; there are address"),
        ("remotes: {'a:8001': {address: a}}", "is no name"),
        ("remotes: {1: {address: a}}", "is no name"),
        ("remotes: {kitchen: {ca: [a]}}", "remotes.kitchen.ca cannot be ['a']"),
        ("remotes: {kitchen: {address: {a: b}}}", "remotes.kitchen.address cannot be"),
    ],
)
def test_mistakes_in_entries_are_named(file: Path, text: str, says: str) -> None:
    file.write_text(text)
    assert not any(config.entries("remotes").values())
    assert any(says in problem for problem in config.problems())


def test_secrets_are_in_no_message_and_no_report(file: Path) -> None:
    from rknnlite.cli import health

    file.write_text("remotes:\n  kitchen: {address: 'a:1', key: hushhush}\n  hall: {key: [hushhush]}\n")
    told = [*config.problems(), *(finding.text for finding in health.configuration())]
    assert any("remotes.hall.key cannot be a list" in text for text in told)
    assert any("remotes.kitchen: address 'a:1', key set, not shown" in text for text in told)
    assert not any("hush" in text for text in told)
