"""Locks, Python calls and modules of the common walks stay below their limits: counts, no clock."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from benchmarks import walks
from tests.support.corpus import ROOT

SCRIPT = ROOT / "benchmarks" / "walks.py"


@pytest.mark.slow
def test_walks_stay_below_the_limits() -> None:
    run = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    figures = {
        name.strip(): int(figure) for name, figure in re.findall(r"^(\w.*?) +\d+ +(\d+)$", run.stdout, re.M)
    }
    assert figures["calls of open_llm"] > 500 and figures["modules behind a first open, CPU reference"] > 50


@pytest.mark.slow
def test_counts_are_the_same_at_every_run() -> None:
    """Whatever this user's cache holds, and wherever strings land in sets."""
    found = [walks.measured("of_open_llm", walks.ROOT, walks.LLM, RKNNLITE_ENGINE="numpy") for _ in range(2)]
    assert found[0] == found[1]
