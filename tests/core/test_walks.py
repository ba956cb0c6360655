"""Locks, Python calls and modules of the common walks stay below their limits: counts, no clock."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.support.corpus import ROOT

SCRIPT = ROOT / "benchmarks" / "walks.py"


def test_walks_stay_below_the_limits() -> None:
    run = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    figures = {
        name.strip(): int(figure) for name, figure in re.findall(r"^(\w.*?) +\d+ +(\d+)$", run.stdout, re.M)
    }
    assert figures["calls of open_llm"] > 1000 and figures["modules behind a first open, CPU reference"] > 50
