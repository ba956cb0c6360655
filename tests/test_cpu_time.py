"""The fast set's time is told at the end of every run, and what goes over its limit fails."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import cpu_time
from tests.support.cpu_time import COLLECTION, FAST, CpuTime, loop


def told(plugin: CpuTime, name: str, seconds: float, *keywords: str) -> None:
    """A report of a worker."""
    plugin.pytest_runtest_logreport(
        SimpleNamespace(nodeid=name, cpu_seconds=seconds, keywords=dict.fromkeys(keywords, 1))
    )


def ended(plugin: CpuTime, collection: float, whole: float, loop: float = 0.1) -> Any:
    """The session, after a worker told what it took, and the machine how fast it is."""
    plugin.pytest_testnodedown(SimpleNamespace(workeroutput={"cpu_times": (collection, whole, [loop, loop])}))
    session: Any = SimpleNamespace(config=SimpleNamespace(), exitstatus=0)
    plugin.pytest_sessionfinish(session)
    return session


@pytest.mark.parametrize("loop", [0.1, 0.7], ids=["quick machine", "slow machine"])
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
    whole: float, collection: float, warns: bool, fails: bool, loop: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In loops of this machine: one of a seventh of the speed, or that others keep busy, fails nothing."""
    monkeypatch.setattr("os.times", lambda: (0.0, 0.0, 0.0, 0.0, 0.0))
    monkeypatch.setattr(cpu_time, "loop", lambda: loop)
    plugin = CpuTime(FAST * 4 / 3)
    assert ended(plugin, collection * loop, whole * loop, loop).exitstatus == fails
    assert plugin.line().startswith(
        f"CPU time of the tests not marked slow: {whole * loop:.0f} s ({whole:.0f} loops), "
        f"collected in {collection * loop:.1f} s ({collection:.0f})"
    )
    assert ("MORE" in plugin.line()) == warns
    for reports in (None, float("inf")):
        assert ended(CpuTime(reports), collection * loop, whole * loop, loop).exitstatus == 0, (
            "no limit was asked for"
        )


def test_the_loop_takes_as_long_as_ever() -> None:
    """It is always the same work: within one run two of them differ by less than tests may."""
    first, second = (min(loop() for _ in range(3)) for _ in range(2))
    assert 0.5 < first / second < 2


def test_slow_tests_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.times", lambda: (1.0, 0.0, 0.0, 0.0, 0.0))
    plugin = CpuTime(FAST)
    told(plugin, "tests/a/test_x.py::test_one", 3)
    told(plugin, "tests/a/test_x.py::test_other[a/b]", 500, "slow")
    ended(plugin, 1, 600)
    assert plugin.fast == 101
    assert list(plugin._table())[:2] == [(503, "tests/a"), (500, "tests/a/test_x.py::test_other[a/b]")]
    fast = [(98, "outside of tests"), (3, "tests/a/test_x.py"), (3, "tests/a/test_x.py::test_one")]
    assert list(plugin._fast_table()) == fast


def test_a_worker_that_died_has_told_of_its_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.times", lambda: (1.0, 0.0, 0.0, 0.0, 0.0))
    plugin = CpuTime(FAST)
    told(plugin, "tests/a/test_x.py::test_one", 300)
    told(plugin, "tests/a/test_x.py::test_other", 500, "slow")
    ended(plugin, 1, 100)  # the other worker
    assert plugin.fast == 300


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
