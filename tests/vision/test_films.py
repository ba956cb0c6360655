"""Films, cameras and streams on the command line: marked frames in their order, ends of every kind, nothing left open."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision import pictures, show
from rknnlite_vision.commands import film, looker
from rknnlite_vision.commands.sources import PictureSource, StreamSource, sources_of
from rknnlite_vision.heads.head import Task

from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.spi.command import Console
from tests.cli.conftest import DIGIT, RESNET, Call, call

from .standins import boxes, standing_in
from .test_commands import DETECT, SCENE, nothing_leaks, place

__all__ = ["call", "nothing_leaks", "place"]

cv2 = pytest.importorskip("cv2")
FRAMES = 5


@pytest.fixture
def scene(place: Path) -> Path:
    """A film of a few frames, each a piece of the scene."""
    return shot(place / "scene.avi", [pictures.read(SCENE)[:, 30 * n : 30 * n + 480] for n in range(FRAMES)])


def shot(path: Path, frames: list[Any]) -> Path:
    height, width = frames[0].shape[:2]
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 10, (width, height))
    for frame in frames:
        writer.write(np.ascontiguousarray(frame[..., ::-1]))
    writer.release()
    return path


def frames_of(path: Path) -> int:
    film = cv2.VideoCapture(str(path))
    count = 0
    while film.read()[0]:
        count += 1
    film.release()
    return count


def test_a_film_becomes_a_film(call: Call, scene: Path) -> None:
    done = call("detect", DETECT, scene, "--out", "marked.avi", "--labels", "things.txt")
    assert done.code == 0, done.err
    head, columns, *rows = done.out.splitlines()
    assert head.startswith(f"{scene}: {FRAMES} frames in ") and head.endswith(
        "per second, written to marked.avi"
    )
    assert columns.split() == ["found", "frames"] and "coin" in done.out and len(rows) > 3
    assert frames_of(Path("marked.avi")) == FRAMES


def test_a_document_for_each_frame_and_one_at_the_end(call: Call, scene: Path) -> None:
    done = call("detect", DETECT, scene, "--json", "--workers", "2", "--out", "frames")
    *each, last = map(json.loads, done.out.splitlines())
    assert [one["index"] for one in each] == list(range(FRAMES)) and all(one["width"] == 480 for one in each)
    assert all(one["found"] and one["source"] == str(scene) for one in each)
    assert (last["frames"], last["dropped"], last["file"]) == (FRAMES, 0, "frames") and last["fps"] > 0
    assert len(list(Path("frames").iterdir())) == FRAMES


def test_tracks(call: Call, scene: Path) -> None:
    done = call("detect", DETECT, scene, "--track", "--json", "--labels", "things.txt", "--out", "tracks.avi")
    *each, _ = map(json.loads, done.out.splitlines())
    by_frame = [{one["track"]: one["label"] for one in frame["found"]} for frame in each]
    kept = set.intersection(*map(set, by_frame))
    assert len(kept) >= 3 and all(len({frame[track] for frame in by_frame}) == 1 for track in kept)
    assert frames_of(Path("tracks.avi")) == FRAMES
    alone = call("detect", DETECT, SCENE, "--track")
    assert alone.code == 2 and "name a film or a camera" in alone.err


def test_a_viewer_who_closes_the_window_ends_it(
    call: Call, scene: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed(show.Browser):
        def show(self, pixels: Any) -> bool:
            super().show(pixels)
            return False

    monkeypatch.setattr(show, "Browser", Closed)
    done = call("detect", DETECT, scene, "--show")
    assert done.code == 0 and f"{scene}: 1 frames" in done.out


@pytest.mark.parametrize(("live", "code"), [(False, 130), (True, 0)])
def test_ctrl_c_keeps_what_was_made(
    call: Call, scene: Path, monkeypatch: pytest.MonkeyPatch, live: bool, code: int
) -> None:
    """Of a camera it is the usual end."""
    drawn: list[Any] = []

    def draw(picture: Any, *others: Any) -> Any:
        if len(drawn) == 2:
            raise KeyboardInterrupt
        drawn.append(picture)
        return picture

    monkeypatch.setattr(film, "draw", draw)
    if live:
        monkeypatch.setattr(
            "rknnlite_vision.commands.look.sources_of", lambda words: StreamSource(str(scene), True)
        )
    done = call("detect", DETECT, scene, "--out", "part.avi")
    assert done.code == code and f"{scene}: 2 frames" in done.out, done.err
    assert frames_of(Path("part.avi")) == 2 and not list(Path().glob(".*"))


def test_a_reader_who_has_had_enough_ends_it_quietly(
    call: Call, scene: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(Console, "report", gone)
    done = call("detect", DETECT, scene, "--json", "--out", "marked.avi")
    assert done.code == 1 and "sink" not in done.err and not Path("marked.avi").exists()


def test_what_goes_wrong_on_the_way(call: Call, scene: Path) -> None:
    def broken() -> Any:
        raise InputInvalid("no good")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(looker, "recognise", standing_in(Task.DETECT, broken))
        done = call("detect", RESNET, scene, "--out", "marked.avi")
    assert done.code == 5 and "no good" in done.err and not Path("marked.avi").exists()
    assert not list(Path().glob(".*"))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["scene.avi", "--out", "scene.avi"], 2, "scene.avi would replace the film that is read"),
        (["scene.avi", "--out", "a.png"], 2, "is one picture, scene.avi has many"),
        (["scene.avi", "--out", "no/folder.mp4"], 1, "there is no folder no"),
        (["scene.avi", "--out", "a.webm"], 2, "a.webm"),
        (["text.mp4"], 5, "text.mp4"),
        (["empty.avi"], 5, "empty.avi"),
        (["cut.avi"], 5, "cut.avi"),
        (["no.mp4"], 5, "no.mp4 cannot be read"),
        (["63"], 5, "camera 63 cannot be opened"),
        (["/dev/video63"], 5, "/dev/video63"),
        (["rtsp://127.0.0.1:9/x"], 5, "rtsp://127.0.0.1:9/x"),
        (["scene.avi", str(DIGIT)], 2, "comes alone"),
    ],
)
def test_words(call: Call, scene: Path, words: list[str], code: int, said: str) -> None:
    before = scene.read_bytes()
    Path("text.mp4").write_text("text")
    Path("empty.avi").touch()
    Path("cut.avi").write_bytes(before[:400])
    done = call("detect", DETECT, *words)
    assert done.code == code and said in done.err and "Traceback" not in done.err, done.err
    assert scene.read_bytes() == before


def test_which_words_are_streams(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sources_of(["0"]) == StreamSource(0, live=True)
    assert sources_of(["/dev/video2"]) == StreamSource("/dev/video2", live=True)
    assert sources_of(["rtsp://camera/1"]) == StreamSource("rtsp://camera/1", live=True)
    assert sources_of(["https://x/film.mp4?a=1"]) == StreamSource("https://x/film.mp4?a=1", live=False)
    (place / "0").mkdir()
    (place / "0/a.png").touch()
    (found,) = sources_of(["0"])  # type: ignore[misc]  # a folder of that name
    assert isinstance(found, PictureSource) and found.path == Path("0/a.png")
    with pytest.raises(ParamInvalid, match="1 is a film, a camera or a stream, which comes alone"):
        sources_of(["1", str(SCENE)])


@contextmanager
def camera(answer: Callable[[Any], None]) -> Iterator[str]:
    """A camera in the network: its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=next")
            self.end_headers()
            with contextlib.suppress(OSError):  # whoever looked has gone
                answer(self.wfile)

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/live"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def part(pixels: Any) -> bytes:
    data = pictures.encode(pixels, ".jpg")
    return b"--next\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(data) + data + b"\r\n"


def test_a_camera_in_the_network_that_goes_off(call: Call) -> None:
    def answer(to: Any) -> None:
        for _ in range(6):
            to.write(part(pictures.read(DIGIT)))

    with camera(answer) as address, pytest.MonkeyPatch.context() as patched:
        patched.setattr(looker, "recognise", standing_in(Task.DETECT, boxes((9, 9, 50, 50)), 1))
        done = call("detect", RESNET, address, "--json")
    assert done.code == 0, done.err
    last = done.data
    assert last["frames"] + last["dropped"] >= 4 and "gives no more pictures" in done.err


def test_a_port_where_nobody_answers(call: Call) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/live"
        done = call("detect", DETECT, address)
    assert done.code == 5 and f"{address} cannot be read: " in done.err
