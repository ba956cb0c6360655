"""The library that decodes boxes of 8 bits: what numpy gives, whatever the sizes, and nothing outside of its arrays is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.needs import needs

from .side_cases import check

ROOT = Path(__file__).resolve().parent.parent.parent
SANITIZED = """
from rknnlite_vision.heads import compiled_sides
from tests.vision.side_cases import check

function = compiled_sides.built("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
compiled_sides.library = lambda: function
print(sum(check(seed) > 0 for seed in range(150)))
"""


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_boxes_are_those_of_numpy(seed: int) -> None:
    needs("gcc")
    check(seed)


@pytest.mark.slow
def test_nothing_outside_of_its_arrays_is_touched(tmp_path: Path) -> None:
    needs("gcc")
    found = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip("no libasan.so")
    paths = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    done = subprocess.run(
        [sys.executable, "-c", SANITIZED],
        env={**os.environ, "PYTHONPATH": paths, "LD_PRELOAD": found, "RKNNLITE_CACHE": str(tmp_path),
             "PYTHONMALLOC": "malloc", "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip().isdigit() and int(done.stdout) > 50, done.stderr[-3000:]
