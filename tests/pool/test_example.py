"""examples/video_pipeline runs: a video is made, shapes are found in it, a video is written."""

from __future__ import annotations

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
    said = run(str(folder / "test.py"), "film.avi", "--out", "found.avi", "--workers", "2").splitlines()
    boxes, frames = int(said[0].split()[1]), int(said[0].split()[4])
    assert frames == 12 and boxes > 12
    assert said[1].startswith("12 pictures in ") and "12 calls in" in said[-1]
    written = cv2.VideoCapture(str(tmp_path / "found.avi"))
    assert int(written.get(cv2.CAP_PROP_FRAME_COUNT)) == 12
