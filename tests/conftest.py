"""Settings of all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support import cpu_time, needs
from tests.support.examples import MORE

# Examples are drawn the same way in every run, a part of them in the fast set; RKNNLITE_FUZZ=500 draws 500 new ones per
# property instead.
for _profile, _examples in (("complete", 40), ("fast", 15)):
    settings.register_profile(
        _profile,
        deadline=None,
        derandomize=not MORE,
        max_examples=MORE or _examples,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )

# Without byte code on disk every one of some hundred child interpreters would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# so it is in a shell's background, and programs inherit it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    cpu_time.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Before the modules of tests are imported, whose decorators look at the profile."""
    settings.load_profile("fast" if config.getoption("markexpr") == "not slow" else "complete")
    config.pluginmanager.register(cpu_time.CpuTime(config.getoption("cpu_times")))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named by their argument: packed ones hold the clock, and ids that differ between workers end a whole run."""
    return argname if isinstance(val, (bytes, bytearray)) else None


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the developer's shell decides a test."""
    for name in ("RKNNLITE_BACKEND", "RKNNLITE_SOC", "RKNNLITE_DISABLE", "RKNN_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RKNNLITE_CONFIG", "")  # no configuration file either
    # the definition; tests/cpu/engines hold the engines against it
    monkeypatch.setenv("RKNNLITE_ENGINE", "numpy")


@pytest.fixture(autouse=True, scope="module")
def few_objects_to_look_through() -> None:
    """What earlier files imported stays to the end, too: some tests collect garbage often, and others import whole frameworks."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """What collection makes stays to the end: the garbage collector need not look through it again and again."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Last of all lines: what was not tested here and why, one for each reason, and how to get all of it."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        skipped = reporter.stats.get("skipped", [])
        tests = [str(report.longrepr[2]) for report in skipped if isinstance(report, pytest.TestReport)]
        files = [str(report.longrepr[2]) for report in skipped if not isinstance(report, pytest.TestReport)]
        slow = session.config.getoption("markexpr") != "not slow"
        for line in needs.by_reason(tests, files, slow):
            reporter.write_line(line)
        reporter.write_line(needs.summary([*tests, *files], slow))
