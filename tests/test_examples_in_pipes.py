"""Examples whose output nobody reads to its end stop like any program, without a traceback."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PROGRAMS = [
    path
    for path in sorted(EXAMPLES.glob("*/*.py"))
    if "__main__" in path.read_text("utf-8") and path.parent.name != "fleet"
]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_program_ends_with_its_reader(path: Path) -> None:
    calls = {
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
    }
    assert "signal.signal(signal.SIGPIPE, signal.SIG_DFL)" in calls


@pytest.mark.parametrize("name", ["detect", "rknn1", "dynamic_shape"])
def test_a_reader_that_has_enough(name: str, tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as nowhere:
        done = subprocess.run(
            [sys.executable, "-u", str(EXAMPLES / name / "test.py")], cwd=tmp_path, stdout=nowhere,
            stderr=subprocess.PIPE, timeout=120,
            env={**os.environ, "RKNNLITE_BACKEND": "cpu"}, check=False,
        )  # fmt: skip
    assert b"Traceback" not in done.stderr and b"BrokenPipe" not in done.stderr, done.stderr
