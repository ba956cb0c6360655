"""Instructions per inference stay below the targets, counted by callgrind: no clock, so a busy machine passes too."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.double import compiler

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "rknnrt_overhead.py"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="counting instructions needs valgrind")
@pytest.mark.skipif(
    sys.version_info[:2] not in {(3, 11), (3, 13)}, reason="the targets are kept for Debian's Pythons"
)
@pytest.mark.skipif(compiler() is None, reason="no C compiler is installed")
def test_instructions_per_inference() -> None:
    run = subprocess.run(
        [sys.executable, str(BENCHMARK), "--instructions", "--check"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "zerocopy, instructions over bare C" in run.stdout
    assert "NCHW picture, instructions" in run.stdout
