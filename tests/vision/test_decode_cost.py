"""What a frame of YOLOv8 costs beside a decoder in C++, counted by callgrind: no clock, so a busy machine passes, too."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import needs

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "vision_decode.py"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="counting instructions needs valgrind")
def test_a_frame_takes_hardly_more_instructions_than_in_cpp() -> None:
    needs("g++")
    run = subprocess.run(
        [sys.executable, str(BENCHMARK), "--instructions", "--check"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("C++") == 2
