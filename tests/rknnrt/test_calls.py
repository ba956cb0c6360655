"""Every frame costs Python calls on its way to the library: their number is counted and limited."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.double import compiler

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "calls.py"


@pytest.mark.skipif(compiler() is None, reason="no C compiler is installed")
def test_calls_of_an_inference_stay_below_the_limits() -> None:
    run = subprocess.run(
        [sys.executable, str(BENCHMARK), "librknnrt", "--check"],
        capture_output=True,
        text=True,
        env={**os.environ, "RKNN_LOG_LEVEL": "0"},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    counts = [int(count) for count in re.findall(r": (\d+) calls, at most", run.stdout)]
    assert len(counts) == 3 and min(counts) > 5, "something was counted"
