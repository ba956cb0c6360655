"""What a prepared frame costs beyond the kernel's calls."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "npu_frames.py"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="counting instructions needs valgrind")
def test_instructions_of_a_prepared_frame() -> None:
    run = subprocess.run(
        [sys.executable, str(BENCHMARK), "--check", "--models", "mean_std"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("mean_std") == 9
