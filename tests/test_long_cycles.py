"""Nothing is left of what was opened, computed and closed: a few cycles of each kind, in a program of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import needs

CYCLES = Path(__file__).resolve().parents[1] / "benchmarks" / "cycles.py"
DOUBLES = ("rknnrt", "rknn3rt", "rknn3rt-llm", "rkllm", "rkllm-apart")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cpu", "face", "llm", *DOUBLES])
def test_cycles_leave_nothing(kind: str) -> None:
    """8 KB in each of 150 cycles would be 1.2 MB; a descriptor, a thread or a process would be seen in any.

    The last kind starts a process in each cycle.
    """
    if kind in DOUBLES:
        needs("gcc")
    if kind == "llm":
        needs("jinja2")
    command = [sys.executable, str(CYCLES), kind, "--count", "50" if kind == "rkllm-apart" else "150"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.rstrip().endswith("flat")
