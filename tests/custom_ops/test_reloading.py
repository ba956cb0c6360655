"""Libraries that are built again while a program has them loaded: new code from then on, and no crash."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .models import DUAL
from .test_compiled_ops import C_SOURCES

PROGRAM = """
import os, pathlib, shutil, sys
import numpy as np
import rknnlite
from tests.custom_ops.models import dual_golden

how, isolate, model, new, library = sys.argv[1], sys.argv[2] == "isolated", *sys.argv[3:]

def opened():
    return rknnlite.open(model, custom_ops=rknnlite.load_custom_ops(library, isolate=isolate))

inputs = dual_golden().inputs
first = opened()
before = first.infer(inputs)[0]
if how == "replaced":
    os.replace(shutil.copy(new, library + ".new"), library)
else:
    pathlib.Path(library).write_bytes(pathlib.Path(new).read_bytes())
second = opened()
after = second.infer(inputs)[0]
print("new code" if np.abs(after - before).max() > 1 else "old code")
print("goes on" if np.array_equal(first.infer(inputs)[0], before) else "changed")
first.close()
second.close()
"""


def run(*args: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", PROGRAM, *map(str, args)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("how", "isolate"),
    [
        ("replaced", "here"),
        ("written over", "isolated"),
        pytest.param("replaced", "isolated", marks=pytest.mark.slow),
        pytest.param("written over", "here", marks=pytest.mark.slow),
    ],
)
def test_a_library_that_is_built_again_is_new_code(
    how: str, isolate: str, compiled: Callable[..., Path]
) -> None:
    library, new = (
        compiled(C_SOURCES / "behaviour.c"),
        compiled(C_SOURCES / "behaviour.c", "-DFACTOR=-3", "-O3"),
    )
    done = run(how, isolate, DUAL, new, library)
    assert done.stdout.split("\n")[:2] == ["new code", "goes on"], done.stderr


def test_one_that_must_be_loaded_where_it_is_refuses_to_be_loaded_again(
    compiled: Callable[..., Path],
) -> None:
    library, new = (
        compiled(C_SOURCES / "behaviour.c", f"-DFACTOR={factor}", "-Wl,-rpath,$ORIGIN") for factor in (1, -3)
    )
    done = run("replaced", "here", DUAL, new, library)
    assert "librkcst_test.so has changed since it was loaded" in done.stderr
    assert done.returncode == 1


def test_the_copy_is_kept_by_content(
    compiled: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import rknnlite

    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path / "cache"))
    library = compiled(C_SOURCES / "behaviour.c")
    for _ in range(3):
        rknnlite.load_custom_ops(library)
    assert len(list((tmp_path / "cache").glob("*/librkcst_test.so"))) == 1
