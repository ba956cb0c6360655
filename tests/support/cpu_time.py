"""What the tests cost in CPU time, which also says something on a machine that has other things to do: a plugin of pytest.

CPU seconds are longer on a slow machine, and on one that others keep busy. So they are counted in loops: a fixed piece of
Python, timed in the same run by the same processes, before the tests and after them. A run ends with one line for the tests
that are not marked slow. ``--cpu-times`` adds tables by folder, file and test, and ``--cpu-times 9600`` fails the run above 9600
loops; between ``FAST`` and that it warns, because the same tests vary by a fifth from run to run.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import resident

__all__ = ["COLLECTION", "FAST", "CpuTime", "add_option", "loop"]

FAST = 8000.0
"""CPU time in loops that the tests not marked slow may take, all processes together."""
COLLECTION = 120.0
"""CPU time in loops that one process may take until it has collected them."""
DEAREST = 20


def add_option(parser: pytest.Parser) -> None:
    """``--cpu-times LIMIT``."""
    parser.addoption(
        "--cpu-times",
        type=float,
        nargs="?",
        const=float("inf"),
        metavar="LIMIT",
        help="CPU seconds by folder and the dearest tests; fail when those not marked slow take more than LIMIT loops",
    )


def spent() -> float:
    """Seconds of CPU time: this process with all of its threads, the children that have ended, resident interpreters."""
    return sum(os.times()[:4]) + resident.spent()


def loop() -> float:
    """CPU seconds of the fixed piece of Python, about 0.1 on the machine on which the limits were set."""
    start = time.process_time()
    words: dict[int, str] = {}
    for number in range(400_000):
        words[number % 997] = f"{number:x}"
    return time.process_time() - start


class CpuTime:
    """Adds up seconds by test; with xdist the workers measure, and their reports bring it home."""

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._tests: Counter[str] = Counter()
        self._slow: set[str] = set()
        self._collection = 0.0
        self._processes = 0.0
        self._last = 0.0
        self._loops: list[float] = []

    # -- where tests run -----------------------------------------------------------------------------------------

    def pytest_collection_finish(self) -> None:
        self._collection = max(self._collection, spent())
        self._loops.append(loop())

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self._last = spent()
        yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        outcome: Any = yield
        now = spent()
        outcome.get_result().cpu_seconds, self._last = now - self._last, now

    # -- where they are reported ---------------------------------------------------------------------------------

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._tests[report.nodeid] += getattr(report, "cpu_seconds", 0.0)
        if "slow" in report.keywords:
            self._slow.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        collection, whole, loops = getattr(node, "workeroutput", {}).get("cpu_times", (0.0, 0.0, []))
        self._collection = max(self._collection, collection)
        self._processes += whole
        self._loops += loops

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        whole = spent()
        self._loops.append(loop())
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["cpu_times"] = (self._collection, whole, self._loops)
        elif self._limit is not None and session.exitstatus == pytest.ExitCode.OK and self._too_much():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._limit is not None:
            terminalreporter.section("CPU seconds")
            for seconds, name in self._table():
                terminalreporter.write_line(f"{seconds:8.1f}  {name}")
            terminalreporter.section("CPU seconds of tests not marked slow")
            for seconds, name in self._fast_table():
                terminalreporter.write_line(f"{seconds:8.1f}  {name}")
        terminalreporter.write_line(self.line())

    # -- figures -------------------------------------------------------------------------------------------------

    @property
    def fast(self) -> float:
        """Seconds for all but the slow tests."""
        return self._outside + sum(took for name, took in self._tests.items() if name not in self._slow)

    @property
    def _outside(self) -> float:
        """What no test accounts for: imports, collection, what outlives a test. Of the workers, or of this process.

        A worker that died has told of its tests only: then it is too little, but never less than nothing.
        """
        whole = sum(os.times()[:2]) + self._processes if self._processes else spent()
        return max(0.0, whole - sum(self._tests.values()))

    def line(self) -> str:
        """The figures, and whether they are too many."""
        fast, collection = self._in_loops(self.fast), self._in_loops(self._collection)
        text = (
            f"CPU time of the tests not marked slow: {self.fast:.0f} s ({fast:.0f} loops), "
            f"collected in {self._collection:.1f} s ({collection:.0f})"
        )
        if fast > FAST or collection > COLLECTION:
            text += f"; MORE than the {FAST:.0f} and {COLLECTION:.0f} loops that they may take"
        return text

    def _in_loops(self, seconds: float) -> float:
        return seconds / statistics.mean(self._loops)

    def _too_much(self) -> bool:
        limit = self._limit or FAST
        return (
            self._in_loops(self.fast) > limit or self._in_loops(self._collection) > COLLECTION * limit / FAST
        )

    def _table(self) -> Iterator[tuple[float, str]]:
        folders: Counter[str] = Counter()
        for name, seconds in self._tests.items():
            folders[name.split("::", maxsplit=1)[0].rpartition("/")[0]] += seconds
        for counter, count in ((folders, len(folders)), (self._tests, DEAREST)):
            yield from ((seconds, name) for name, seconds in counter.most_common(count))

    def _fast_table(self) -> Iterator[tuple[float, str]]:
        """What no test accounts for, then files and tests."""
        tests = Counter({name: seconds for name, seconds in self._tests.items() if name not in self._slow})
        files: Counter[str] = Counter()
        for name, seconds in tests.items():
            files[name.split("::", maxsplit=1)[0]] += seconds
        yield self._outside, "outside of tests"
        for counter in (files, tests):
            yield from ((seconds, name) for name, seconds in counter.most_common(2 * DEAREST))
