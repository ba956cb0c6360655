"""Every frame costs Python calls on its way to the library: their number is counted and limited."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.double import compiler

from .models import AFFINE, picture

Start = Callable[..., Any]
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


def test_a_context_keeps_few_attributes(start: Start) -> None:
    """CPython keeps up to 30 of them in a form that makes every access and call cheaper."""
    common, zero_copy = start(*AFFINE), start(*AFFINE)
    common.infer(picture(0, (1, 4, 6, 3)))
    for attr in (*zero_copy.native_inputs, *zero_copy.native_outputs):
        zero_copy.bind(attr, zero_copy.create_mem(attr.size_with_stride))
    zero_copy.run()
    assert len(vars(common).keys() | vars(zero_copy).keys()) < 30
