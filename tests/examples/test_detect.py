"""examples/detect finds what is on its picture, where the vendor's simulator does, and in a video."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rknnlite_vision import Limits, open_vision

from tests.support.corpus import DATA, EXAMPLES, ROOT

cv2 = pytest.importorskip("cv2")

FOLDER = EXAMPLES / "detect"
MODELS = sorted(FOLDER.glob("*.rknn"))


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")]),
        "RKNNLITE_BACKEND": "cpu",
    }
    command = [sys.executable, str(FOLDER / "test.py"), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def parsed(lines: list[str]) -> list[tuple[str, float, list[float]]]:
    """Label, score, corners of the lines that tell of a box."""
    words = [line.split() for line in lines if re.fullmatch(r"\s*[a-z]+ +[01]\.\d+( +\d+\.\d){4}", line)]
    return [(label, float(score), list(map(float, corners))) for label, score, *corners in words]


def simulated() -> np.ndarray:
    """What the simulator's outputs decode to: [n, 6] score, class, corners in the network's input."""
    return np.load(DATA / "examples" / "detect_boxes.npy")


def test_the_picture_is_marked_as_documented(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    found, told = (
        sorted(parsed(text.splitlines()), key=lambda entry: (entry[0], entry[2]))
        for text in (done.stdout, (FOLDER / "README.md").read_text("utf-8"))
    )
    assert [score for _, score, _ in parsed(done.stdout.splitlines())] == sorted(
        (score for _, score, _ in found), reverse=True
    )
    assert len(found) == len(simulated())
    assert [label for label, _, _ in found] == [label for label, _, _ in told]
    for (_, score, corners), (_, expected, places) in zip(found, told):
        assert abs(score - expected) < 0.01
        np.testing.assert_allclose(corners, places, atol=1.0)
    assert [path.name for path in tmp_path.iterdir()] == ["found.png"]
    marked, picture = cv2.imread(str(tmp_path / "found.png")), cv2.imread(str(FOLDER / "scene.jpg"))
    assert marked.shape == picture.shape
    assert 0.02 < (marked != picture).any(axis=2).mean() < 0.3


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
def test_boxes_are_where_the_simulator_has_them(model: Path) -> None:
    """Classes equal, corners within a pixel, scores within four of their 255 steps. All files have the same answer."""
    picture = cv2.cvtColor(cv2.imread(str(FOLDER / "scene.jpg")), cv2.COLOR_BGR2RGB)
    square = np.full((1, 320, 320, 3), 114, np.uint8)
    square[0, 40:280] = cv2.resize(picture, (320, 240), interpolation=cv2.INTER_AREA)
    with open_vision(model, backend="cpu") as net:
        seen = net.head.decode(net.context.infer(square), Limits(score=0.4, overlap=0.5))[0]
    found, expected = np.column_stack([seen.scores, seen.classes, seen.boxes]), simulated()
    assert len(found) == len(expected)
    order, wanted = (np.lexsort((boxes[:, 2], boxes[:, 1])) for boxes in (found, expected))
    np.testing.assert_array_equal(found[order, 1], expected[wanted, 1])
    np.testing.assert_allclose(found[order, 2:], expected[wanted, 2:], atol=1.0)
    np.testing.assert_allclose(found[order, 0], expected[wanted, 0], atol=4.1 / 255)


def test_a_video_is_marked(tmp_path: Path) -> None:
    picture = cv2.imread(str(FOLDER / "scene.jpg"))
    film = cv2.VideoWriter(str(tmp_path / "in.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 10, (640, 480))
    for shift in (0, 8, 16):
        film.write(np.roll(picture, shift, axis=1))
    film.release()
    done = run(tmp_path, "--video", "in.avi", "out.avi")
    assert done.returncode == 0, done.stderr
    boxes, frames = map(int, re.findall(r"out\.avi: (\d+) boxes in (\d+) frames", done.stdout)[0])
    assert frames == 3
    assert abs(boxes - 3 * len(simulated())) <= 3
    assert int(cv2.VideoCapture(str(tmp_path / "out.avi")).get(cv2.CAP_PROP_FRAME_COUNT)) == 3
    assert {path.name for path in tmp_path.iterdir()} == {"in.avi", "out.avi"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent.jpg", "out.png"], "absent.jpg cannot be read"),
        (["--video", "absent.avi", "out.avi"], "absent.avi: there is no such film"),
        ([str(FOLDER / "scene.jpg"), "out.nothing"], "no picture can be written as '.nothing'"),
        (["only.jpg"], "python test.py picture.jpg marked.png"),
    ],
)
def test_what_cannot_be_read_or_written_is_named(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_example_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) < 3_000_000
    assert (FOLDER / "found.png").stat().st_size < 200_000
