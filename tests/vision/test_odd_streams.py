"""Streams that end, break off, stall or change their size, in the forms of cameras: each a clear word, nothing left."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision import FilmSink, FilmSource, Pipeline, pictures
from rknnlite_vision.before.frame import Frame
from rknnlite_vision.commands import film, looker
from rknnlite_vision.commands.sources import StreamSource, sources_of
from rknnlite_vision.heads.head import Task

import rknnlite
from rknnlite.errors import InputInvalid, RunTimeout
from tests.cli.conftest import RESNET, Call, call
from tests.support.needs import needs

from .standins import boxes, standing_in
from .test_commands import nothing_leaks, place
from .test_films import camera, part

__all__ = ["call", "nothing_leaks", "place"]

cv2 = pytest.importorskip("cv2")
SHADES = (40, 80, 120, 160, 200)


def plain(shade: int, width: int = 64, height: int = 48) -> Any:
    return np.full((height, width, 3), shade, np.uint8)


def motion_jpeg(path: Path, frames: list[Any]) -> Path:
    """As most cameras send them: JPEG files, one behind the other."""
    path.write_bytes(b"".join(pictures.encode(frame, ".jpg") for frame in frames))
    return path


def shades(source: FilmSource) -> list[int]:
    with source:
        return [round(frame.mean() / 40) * 40 for frame in source]


@pytest.fixture(scope="module")
def pool() -> Iterator[rknnlite.Pool]:
    with rknnlite.Pool(RESNET, workers=2, backend="cpu") as made:
        yield made


def through(pool: rknnlite.Pool, source: Any, sink: Any, **options: Any) -> Pipeline:
    """The pictures themselves: no network."""
    return Pipeline(source, pool, lambda frame, _: frame, sink, run=lambda _, frame: frame, **options)


# -- forms of cameras -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codec", "pixels"),
    [("mjpeg", "yuvj422p"), ("mjpeg", "yuvj420p"), ("rawvideo", "yuyv422"), ("rawvideo", "uyvy422"), ("rawvideo", "nv12"),
     ("rawvideo", "gray")],
)  # fmt: skip
def test_what_cameras_send(tmp_path: Path, codec: str, pixels: str) -> None:
    """The left third of the picture is red, or of grey forms as bright as red is."""
    needs("ffmpeg")
    path = tmp_path / "camera.avi"
    test = "color=c=red:size=64x48:rate=10:duration=0.5,drawbox=x=20:w=44:h=48:color=black:t=fill"
    command = ["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", test, "-c:v", codec, "-pix_fmt", pixels]
    subprocess.run([*command, str(path)], check=True, timeout=60)
    with FilmSource(path) as source:
        frames = list(source)
    assert len(frames) == 5 and all(frame.shape == (48, 64, 3) for frame in frames)
    assert all(frame.dtype == np.uint8 and frame.flags.c_contiguous for frame in frames)
    red, black = frames[0][:, 2:16].reshape(-1, 3).mean(0), frames[0][:, 24:].reshape(-1, 3).mean(0)
    wanted = (76, 76, 76) if pixels == "gray" else (254, 0, 0)
    np.testing.assert_allclose(red, wanted, atol=8)
    np.testing.assert_allclose(black, 0, atol=8)


def test_raw_frames_are_those_of_the_film(tmp_path: Path) -> None:
    """A YUYV camera by way of OpenCV, and by way of ``Frame``."""
    needs("ffmpeg")
    for path, form in ((tmp_path / "a.avi", []), (tmp_path / "a.yuv", ["-f", "rawvideo"])):
        command = [
            "ffmpeg",
            "-loglevel",
            "error",
            "-f",
            "lavfi",
            "-i",
            "smptebars=size=64x48:rate=1:duration=1",
        ]
        subprocess.run([*command, "-c:v", "rawvideo", "-pix_fmt", "yuyv422", *form, str(path)], check=True, timeout=60)  # fmt: skip
    with FilmSource(tmp_path / "a.avi") as source:
        (film_frame,) = source
    frame = Frame("YUYV", 64, 48, (tmp_path / "a.yuv").read_bytes()).rgb()
    inside = np.abs(frame.astype(int) - film_frame).max(axis=2)
    assert np.median(inside) <= 3  # OpenCV's swscale smooths colours at edges


def test_names_that_opencv_crashes_on(call: Call, tmp_path: Path) -> None:
    odd, plain_name = os.fsdecode(bytes(tmp_path) + b"/\xff.avi"), tmp_path / "plain.avi"
    motion_jpeg(plain_name, [plain(40)])
    plain_name.rename(odd)
    done = call("detect", RESNET, odd)
    assert done.code == 5
    assert "the name of a film must be UTF-8, as OpenCV takes no other; rename it" in done.err
    with pytest.raises(InputInvalid, match="must be UTF-8"):
        FilmSink(odd)


def test_names_of_cameras(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "/dev/v4l/by-id/usb-camera-video-index0"
    assert sources_of([name]) == StreamSource(name, live=True)
    asked = []

    class Capture:
        def __init__(self, *words: Any) -> None:
            asked.append(words)

        def isOpened(self) -> bool:
            return False

        def release(self) -> None:
            pass

    monkeypatch.setattr(cv2, "VideoCapture", Capture)
    for given in (name, "/dev/video7", "3", 3):
        with pytest.raises(InputInvalid, match="cannot be opened as a film or camera"):
            FilmSource(given)
    assert asked == [
        (name, cv2.CAP_V4L2), ("/dev/video7", cv2.CAP_V4L2), (3, cv2.CAP_ANY), (3, cv2.CAP_ANY),
    ]  # fmt: skip


# -- streams that end, break, change ------------------------------------------------------------------------


def test_one_that_is_cut(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "a.avi"
    with FilmSink(path) as sink:
        for shade in SHADES:
            sink(plain(shade))
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"\xff\xd8\xff") - 100])
    assert shades(FilmSource(path))[:3] == [40, 80, 120]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(looker, "recognise", standing_in(Task.DETECT, boxes((9, 9, 50, 50)), 1))
        done = call("detect", RESNET, path)
    assert done.code == 0
    assert re.search(r"a\.avi ends after [34] of 5 frames: it is cut or broken", done.err), done.err


def test_one_with_a_broken_frame(tmp_path: Path) -> None:
    """The frames before and behind it are there, whatever becomes of that one."""
    files = [pictures.encode(plain(shade), ".jpg") for shade in SHADES]
    files[1] = files[1][: len(files[1]) // 2] + bytes(300)
    (tmp_path / "a.mjpeg").write_bytes(b"".join(files))
    found = shades(FilmSource(tmp_path / "a.mjpeg"))
    assert found[0] == 40 and found[-3:] == [120, 160, 200]


def test_one_that_changes_its_size(call: Call, tmp_path: Path) -> None:
    """All its frames are looked at; of a film that is written from it all have one size, or it is told."""
    sizes = ((64, 48), (64, 48), (96, 64), (32, 32), (64, 48))
    frames = [plain(shade, *size) for shade, size in zip(SHADES, sizes)]
    path = motion_jpeg(tmp_path / "a.mjpeg", frames)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(looker, "recognise", standing_in(Task.DETECT, boxes((9, 9, 50, 50)), 1))
        done = call("detect", RESNET, path, "--json")
        assert done.code == 0, done.err
        assert done.data["frames"] == 5
        done = call("detect", RESNET, path, "--out", "found.avi")
        assert done.code == 0 or "a film has one size" in done.err
    assert shades(FilmSource(path)) == list(SHADES)


# -- streams that stall -------------------------------------------------------------------------------------


def test_one_that_stalls_is_told(call: Call) -> None:
    """A camera in the network that sends a few pictures and then nothing, and does not go off."""
    on = threading.Event()

    def answer(to: Any) -> None:
        for shade in range(60):
            to.write(part(plain(4 * shade)))
        on.wait(60)

    try:
        with camera(answer) as address, pytest.MonkeyPatch.context() as patched:
            patched.setattr(looker, "recognise", standing_in(Task.DETECT, boxes((9, 9, 50, 50)), 1))
            patched.setattr(film, "Pipeline", functools.partial(Pipeline, stall=1))
            done = call("detect", RESNET, address, "--out", "found.avi")
            on.set()
    finally:
        on.set()
    assert done.code != 0 and "it stalls: nothing came for 1 s" in done.err and "Traceback" not in done.err
    assert not Path("found.avi").exists()


def test_closing_one_that_is_read_leaves_it_to_the_reader(pool: rknnlite.Pool, tmp_path: Path) -> None:
    """OpenCV must not release what another thread reads: that ends the process."""
    begun, on = threading.Event(), threading.Event()
    source = FilmSource(motion_jpeg(tmp_path / "a.mjpeg", [plain(shade) for shade in SHADES]))
    real, released = source._capture, []

    class Slow:
        def read(self) -> Any:
            begun.set()
            assert on.wait(30)
            assert not released
            return real.read()

        def release(self) -> None:
            released.append(1)
            real.release()

    source._capture = Slow()
    with pytest.raises(RunTimeout, match="source, picture 1: it stalls"), source:
        through(pool, source, lambda *_: None, stall=0.2).run()
    assert begun.is_set() and not released
    (reader,) = [thread for thread in threading.enumerate() if thread.name == "rknnlite-pipeline-source"]
    on.set()
    reader.join(30)
    assert released and not reader.is_alive()
