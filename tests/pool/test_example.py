"""examples/video_pipeline runs: a video is made, shapes are found in it, a video is written."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.corpus import EXAMPLES


def test_a_video_goes_through(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    folder = EXAMPLES / "video_pipeline"
    environment = {**os.environ, "RKNNLITE_BACKEND": "cpu"}

    def run(*words: str) -> str:
        command = [sys.executable, *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(str(folder / "make_video.py"), "film.avi", "--frames", "12", "--size", "160x120")
    said = run(str(folder / "test.py"), "film.avi", "found.avi").splitlines()
    assert said[0].startswith("found.avi: 12 pictures in ") and said[-1].startswith("total ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["film.avi", "found.avi"]
    written = cv2.VideoCapture(str(tmp_path / "found.avi"))
    assert int(written.get(cv2.CAP_PROP_FRAME_COUNT)) == 12
    marked, plain = written.read()[1], cv2.VideoCapture(str(tmp_path / "film.avi")).read()[1]
    assert (abs(marked.astype(int) - plain) > 60).any(axis=2).mean() > 0.02  # boxes


def test_it_is_short() -> None:
    """Imports and the documentation apart: the library does the work."""
    tree = ast.parse((EXAMPLES / "video_pipeline" / "test.py").read_text("utf-8"))
    code = [node for node in tree.body[1:] if not isinstance(node, (ast.Import, ast.ImportFrom))]
    assert sum((node.end_lineno or 0) - node.lineno + 1 for node in code) <= 20
