"""examples/rkllm_chat on the test double: answers, figures, and what is said where something is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.double import compiler
from tests.doubles.rkllm.standin import build, model
from tests.support.corpus import EXAMPLES, ROOT


def run(*arguments: str, library: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")]), "RKNNLITE_RKLLM_LIBRARY": library,
    }  # fmt: skip
    command = [sys.executable, str(EXAMPLES / "rkllm_chat" / "test.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_it_talks(tmp_path: Path) -> None:
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    path = tmp_path / "echo.rkllm"
    path.write_bytes(model("op echo"))
    done = run(str(path), "Grüße 🙂", library=str(build("1.2.3")))
    assert (done.returncode, done.stderr) == (0, "")
    assert "librkllmrt 1.2.3" in done.stdout
    assert "> Grüße 🙂\nGrüße 🙂\n[FINISH: " in done.stdout


def test_it_says_what_is_missing(tmp_path: Path) -> None:
    done = run(library="")
    assert done.returncode == 1
    assert "name one: python test.py MODEL.rkllm" in done.stderr
    path = tmp_path / "m.rkllm"
    path.write_bytes(model())
    done = run(str(path), library=str(tmp_path / "librkllmrt.so"))
    assert done.returncode == 1
    assert "there is no runtime library" in done.stderr and "RKLLM runtime" in done.stderr
