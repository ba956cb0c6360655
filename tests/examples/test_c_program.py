"""examples/c_program: built by its own Makefile and run by ``rknnlite exec``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.librknnrt.clients import interpreter
from tests.support.corpus import EXAMPLES, ROOT
from tests.support.needs import needs

FOLDER = EXAMPLES / "c_program"


@pytest.mark.slow
def test_both_programs_name_the_digit(tmp_path: Path) -> None:
    needs("gcc", "g++")
    assert shutil.which("make")
    folder = tmp_path / "c_program"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("classify", "stream"))
    resnet = EXAMPLES / "resnet18"
    variables = {
        "RKNNLITE": f"{sys.executable} -m rknnlite",
        "MODEL": str(resnet / "resnet18_for_RK3588.rknn"),
        "LABELS": str(resnet / "labels.txt"),
        "CFLAGS": "-std=c99 -O2 -Wall -Wextra -Werror",
        "CXXFLAGS": "-std=c++14 -O2 -Wall -Wextra -Werror",
    }
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")]),
        "RKNNLITE_CACHE": str(tmp_path / "cache"),
        "RKNNLITE_PYTHON": str(interpreter()),
    }
    done = subprocess.run(
        ["make", "run", *(f"{name}={value}" for name, value in variables.items())],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert 'class:"seven"' in next(line for line in lines if line.startswith("[ 7]"))
    assert [line for line in lines if line.startswith("frame")] == [f"frame {i}: class 7" for i in range(3)]
    told = (FOLDER / "README.md").read_text()
    shown = [line for line in lines if re.match(r"\[|frame|input", line)]
    assert len(shown) == 9 and all(f"    {line}" in told for line in shown)


def test_the_example_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.suffix) < 30_000
