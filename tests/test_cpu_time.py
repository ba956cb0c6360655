"""The fast set's time is told at the end of every run, and what goes over its limit fails."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.cpu_time import COLLECTION, FAST, CpuTime


def told(plugin: CpuTime, name: str, seconds: float, *keywords: str) -> None:
    """A report of a worker."""
    plugin.pytest_runtest_logreport(
        SimpleNamespace(nodeid=name, cpu_seconds=seconds, keywords=dict.fromkeys(keywords, 1))
    )


def ended(plugin: CpuTime, collection: float, whole: float, exitstatus: int = 0) -> Any:
    """The session, after a worker told what it took."""
    plugin.pytest_testnodedown(SimpleNamespace(workeroutput={"cpu_times": (collection, whole)}))
    session: Any = SimpleNamespace(config=SimpleNamespace(), exitstatus=exitstatus)
    plugin.pytest_sessionfinish(session)
    return session


@pytest.mark.parametrize(
    ("whole", "collection", "warns", "fails"),
    [
        (0.2 * FAST, 1, False, False),
        (1.2 * FAST, 1, True, False),
        (9 * FAST, 1, True, True),
        (0.2 * FAST, 1.2 * COLLECTION, True, False),
        (0.2 * FAST, 2 * COLLECTION, True, True),
    ],
)
def test_too_much_is_told_and_far_too_much_fails(
    whole: float, collection: float, warns: bool, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.times", lambda: (1.0, 0.0, 0.0, 0.0, 0.0))
    plugin = CpuTime(FAST * 4 / 3)
    assert ended(plugin, collection, whole).exitstatus == fails
    assert plugin.line().startswith(
        f"CPU time of the tests not marked slow: {whole + 1:.0f} s, collected in {collection:.1f} s"
    )
    assert ("MORE" in plugin.line()) == warns
    assert ended(CpuTime(None), collection, whole).exitstatus == 0, "only where a limit is asked for"


def test_slow_tests_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.times", lambda: (1.0, 0.0, 0.0, 0.0, 0.0))
    plugin = CpuTime(FAST)
    told(plugin, "tests/a/test_x.py::test_one", 3)
    told(plugin, "tests/a/test_x.py::test_other[a/b]", 500, "slow")
    ended(plugin, 1, 600)
    assert plugin.fast == 101
    assert list(plugin._table())[:2] == [(503, "tests/a"), (500, "tests/a/test_x.py::test_other[a/b]")]


def test_this_run_is_measured(request: pytest.FixtureRequest) -> None:
    (plugin,) = [p for p in request.config.pluginmanager.get_plugins() if isinstance(p, CpuTime)]
    assert 0.1 < plugin._collection <= plugin.fast


def test_more_examples_are_drawn_of_every_property() -> None:
    """RKNNLITE_FUZZ counts for a property with a number of its own where it asks ``tests.support.examples`` for it."""
    here = Path(__file__).parent
    fixed = [
        path.name
        for path in here.rglob("*.py")
        if re.search(r"max_examples=\d+[,)]", path.read_text("utf-8"))
    ]
    assert not fixed
