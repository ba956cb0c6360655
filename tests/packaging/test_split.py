"""Debian shares our distribution out: the entry points of all plugins are there, the modules of some may not be."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import NamedTuple

import pytest

from rknnlite import plugins
from rknnlite.cli import health
from rknnlite.spi.finding import Level

MISSING = "rknnlite_riscv"


@pytest.fixture(autouse=True)
def fresh_manager() -> Iterator[None]:
    """A manager that has not looked yet, before and after."""
    for cached in (plugins.manager, plugins.backends, plugins.op_hosts, plugins.commands):
        cached.cache_clear()
    yield
    for cached in (plugins.manager, plugins.backends, plugins.op_hosts, plugins.commands):
        cached.cache_clear()


def without(monkeypatch: pytest.MonkeyPatch, name: str, lacking: str) -> None:
    """The entry point riscv, whose import fails because ``lacking`` is not there."""

    def load(entry: EntryPoint) -> object:
        raise ModuleNotFoundError(f"No module named {lacking!r}", name=lacking)

    monkeypatch.setattr(EntryPoint, "load", load)
    monkeypatch.setattr(plugins, "_entry_points", lambda: [EntryPoint(name, MISSING, plugins.GROUP)])


def test_a_plugin_packaged_alone_is_named_and_nobody_complains(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    without(monkeypatch, "riscv", MISSING)
    with caplog.at_level(logging.WARNING, "rknnlite"):
        problem = plugins.problems()["riscv"]
    assert problem == "not installed (Debian: apt install python3-rknnlite-riscv)"
    assert not caplog.records
    (found,) = [finding for finding in health.backends("cpu") if "plugin riscv" in finding.text]
    assert (found.level, found.remedy) == (Level.INFO, "")


@pytest.mark.parametrize(("name", "lacking"), [("riscv", "numpy.nothing"), ("mine", MISSING)])
def test_whatever_else_is_missing_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, lacking: str
) -> None:
    without(monkeypatch, name, lacking)
    with caplog.at_level(logging.WARNING, "rknnlite"):
        assert plugins.problems()[name].startswith("ModuleNotFoundError: ")
    assert "could not be loaded and is skipped" in caplog.text


def test_of_many_that_are_missing_one_line_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """A board has the core and one backend: a line for each of the others would hide what is wrong."""
    absent = {name: ModuleNotFoundError(name, name=f"rknnlite_{name}") for name in ("cpu", "riscv", "server")}
    monkeypatch.setattr(plugins, "_entry_points", lambda: [Missing(name, absent[name]) for name in absent])
    found = [finding for finding in health.backends("cpu") if "not installed" in finding.text]
    assert [finding.text.partition(" (")[0] for finding in found] == [
        "plugins not installed: cpu, riscv, server"
    ]
    assert plugins.problems()["server"] == "not installed (Debian: apt install rknnlite-server)"
    assert plugins.blame() == ""
    assert plugins.blame("backend") == "; not installed: cpu (Debian: apt install python3-rknnlite-cpu)"
    assert (
        plugins.blame("op host", "cpu")
        == "; not installed: cpu, riscv (Debian: apt install python3-rknnlite-NAME)"
    )


class Missing(NamedTuple):
    """An entry point of ours whose module is not there."""

    name: str
    error: ModuleNotFoundError

    @property
    def value(self) -> str:
        """As ``EntryPoint``."""
        return f"rknnlite_{self.name}"

    def load(self) -> object:
        """As ``EntryPoint``."""
        raise self.error
