"""Logging touches nothing that is not ours."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from rknnlite import log


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("3", 3), ("5", 5), ("9", 5), ("-2", 0), ("loud", None), ("", None)]
)
def test_level(monkeypatch: pytest.MonkeyPatch, text: str, number: int | None) -> None:
    monkeypatch.setenv("RKNN_LOG_LEVEL", text)
    assert log.level() == number


def test_no_variable_no_level() -> None:
    assert log.level() is None


def test_quiet_until_asked() -> None:
    assert any(isinstance(handler, logging.NullHandler) for handler in log.logger.handlers)


PROGRAM = """
import logging
before = logging.root.handlers[:], logging.root.level, logging.getLoggerClass(), logging.raiseExceptions
import rknnlite
from rknnlite.log import logger
after = logging.root.handlers[:], logging.root.level, logging.getLoggerClass(), logging.raiseExceptions
assert before == after, (before, after)
logger.info("information")
logger.warning("a warning")
"""


@pytest.mark.parametrize(
    ("level", "lines"),
    [
        (None, []),
        ("0", []),
        ("1", ["W rknnlite: a warning"]),
        ("2", ["I rknnlite: information", "W rknnlite: a warning"]),
    ],
)
def test_import_leaves_logging_alone(
    monkeypatch: pytest.MonkeyPatch, level: str | None, lines: list[str]
) -> None:
    if level is not None:
        monkeypatch.setenv("RKNN_LOG_LEVEL", level)
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    if level is None:  # nobody configured logging: Python's last resort does not speak for a NullHandler
        assert done.stderr == ""
    else:
        assert done.stderr.splitlines() == lines
