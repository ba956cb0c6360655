"""``rknnlite detect``, ``classify``, ``segment``, ``pose``, ``read``: pictures in; tables, documents and marked pictures out."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision import pictures, show
from rknnlite_vision.commands import look, looker, read
from rknnlite_vision.heads.head import Task
from rknnlite_vision.results import Segments, Words

from tests.cli.conftest import DIGIT, RESNET, Call, call
from tests.support.corpus import EXAMPLES
from tests.support.file_server import serving

from .standins import boxes, standing_in

__all__ = ["call"]

Image = pytest.importorskip("PIL.Image")
DETECT = EXAMPLES / "detect" / "detect_for_RK3588.rknn"
SCENE = EXAMPLES / "detect" / "scene.jpg"
THINGS = ("astronaut", "cat", "coin", "cup", "photographer", "rocket", "shuttle")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with labels in it; no display."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    (tmp_path / "things.txt").write_text("\n".join(THINGS))
    (tmp_path / "names.yaml").write_text(f"names: {list(THINGS)}")
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    threads, handles = working(), open_files()
    yield
    for thread in working() - threads:
        thread.join(20)
    gc.collect()  # files stay mapped as long as somebody may look at an error
    assert working() <= threads and open_files() <= handles


def working() -> set[threading.Thread]:
    """Threads but those of the CPU reference, which stay for the next model."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("rknnlite-cpu")}


def open_files() -> int:
    """But folders of compiled libraries, which are held until the process ends."""
    return sum(not handle.is_dir() for handle in Path("/proc/self/fd").iterdir())


@contextmanager
def standing(task: Task, result: Any, classes: int = 0) -> Iterator[None]:
    """The head of every network is a stand-in."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(looker, "recognise", standing_in(task, result, classes))
        yield


def documents(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


# -- the real small networks ------------------------------------------------------------------------------


def test_things_in_a_picture(call: Call) -> None:
    done = call("detect", DETECT, SCENE, "--labels", "things.txt", "--score", "0.5", "--out", "found.png")
    assert done.code == 0, done.err
    head, columns, *rows = done.out.splitlines()
    assert head == f"{SCENE}, 640 x 480, written to found.png"
    assert columns.split() == ["label", "score", "x1", "y1", "x2", "y2"]
    assert {row.split()[0] for row in rows} == set(THINGS)
    marked, source = pictures.read(Path("found.png")), pictures.read(SCENE)
    assert marked.shape == source.shape and 0.01 < (marked != source).any(axis=2).mean() < 0.3


def test_a_document_for_each(call: Call) -> None:
    done = call("detect", DETECT, SCENE, "--labels", "names.yaml", "--json", "--most", "3")
    (data,) = documents(done.out)
    assert (data["model"], data["source"], data["width"], data["height"]) == (
        str(DETECT),
        str(SCENE),
        640,
        480,
    )
    assert (
        data["task"] == "detect" and data["backend"] == "cpu" and data["file"] is None and data["run_us"] > 0
    )
    assert len(data["found"]) == 3 and "YOLO" in data["head"]
    best = data["found"][0]
    assert set(best) == {"class", "label", "score", "box"} and best["label"] == THINGS[best["class"]]
    assert 0.9 < best["score"] <= 1 and all(0 <= value <= 640 for value in best["box"])


def test_thresholds(call: Call) -> None:
    scores = [one["score"] for one in call("detect", DETECT, SCENE, "--score", "0.9", "--json").data["found"]]
    assert scores == sorted(scores, reverse=True) and min(scores) >= 0.9
    few = len(call("detect", DETECT, SCENE, "--overlap", "0", "--json").data["found"])
    assert len(scores) <= few <= len(call("detect", DETECT, SCENE, "--overlap", "1", "--json").data["found"])
    assert call("detect", DETECT, SCENE, "--score", "2").code == 2


def test_the_likeliest_classes(call: Call) -> None:
    done = call(
        "classify",
        RESNET,
        DIGIT,
        "--labels",
        EXAMPLES / "resnet18" / "labels.txt",
        "--top",
        "2",
        "--out",
        "a.png",
    )
    assert (
        done.code == 0 and done.out.splitlines()[2].split()[0] == "seven" and len(done.out.splitlines()) == 4
    )
    assert (pictures.read(Path("a.png")) != pictures.read(DIGIT)).any()


def test_a_folder_in_its_order_on_several_workers(call: Call, place: Path) -> None:
    folder = place / "in"
    folder.mkdir()
    source = Image.open(SCENE)
    for number in range(6):
        source.crop((0, 0, 320 + 20 * number, 480)).save(folder / f"{number}.png")
    done = call("detect", DETECT, folder, "--workers", "2", "--out", "out/deep", "--json")
    found = documents(done.out)
    assert [one["source"] for one in found] == [str(folder / f"{number}.png") for number in range(6)]
    assert [one["width"] for one in found] == [320 + 20 * number for number in range(6)]
    assert sorted(p.name for p in (place / "out/deep").iterdir()) == [f"{number}.png" for number in range(6)]
    assert found[0]["file"] == "out/deep/0.png" and "6 pictures in" in done.err and "per second" in done.err


# -- other tasks, by stand-ins ------------------------------------------------------------------------------


def test_people_with_keypoints(call: Call) -> None:
    points = np.zeros((1, 17, 3))
    points[0, :4] = (50, 60, 0.9)
    with standing(Task.POSE, boxes((10, 20, 100, 110), keypoints=points), 1):
        table = call("pose", RESNET, DIGIT)
        document = call("pose", RESNET, DIGIT, "--json").data
        assert call("detect", RESNET, DIGIT).code == 0, "boxes are boxes"
    assert table.out.splitlines()[1].split()[-1] == "keypoints" and table.out.splitlines()[2].endswith(
        "4 of 17"
    )
    assert document["task"] == "pose" and len(document["found"][0]["keypoints"]) == 17


def test_outlines_and_regions(call: Call) -> None:
    mask = np.zeros((1, 224, 224), bool)
    mask[0, 50:60, 50:70] = True
    with standing(Task.INSTANCE, boxes((50, 50, 70, 60), masks=mask), 3):
        assert call("segment", RESNET, DIGIT).out.splitlines()[2].split()[-1] == "200"
        found = call("segment", RESNET, DIGIT, "--json").data["found"]
        assert found[0]["mask"]["shape"] == [224, 224] and sum(found[0]["mask"]["counts"]) == 224 * 224
    halves = np.zeros((224, 224), np.uint8)
    halves[:, 56:] = 1
    with standing(Task.SEMANTIC, Segments(halves), 2):
        done = call("segment", RESNET, DIGIT, "--out", "regions.png")
    assert [line.split()[-1] for line in done.out.splitlines()[2:]] == ["75.0%", "25.0%"]
    assert (pictures.read(Path("regions.png")) != pictures.read(DIGIT)).any()


def test_text(call: Call) -> None:
    with standing(Task.READ, Words("HELLO 7", 0.75)):
        assert call("read", RESNET, DIGIT).out.splitlines()[1:] == ["text     score", "HELLO 7  0.750"]
        assert call("read", RESNET, DIGIT, "--json").data["found"] == [{"text": "HELLO 7", "score": 0.75}]


def test_text_where_a_detector_finds_it(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the top down, each line with its box; a text is what the reader makes of the piece."""
    places = ((10, 100, 90, 130), (10, 20, 200, 50))
    turned = np.array([[50, 115, 80, 30, 0.0], [105, 35, 190, 30, 0.0]])
    seen: list[tuple[int, ...]] = []
    cut = read.cut_out

    def noted(*arguments: Any) -> Any:
        piece = cut(*arguments)
        seen.append(piece.shape)
        return piece

    monkeypatch.setattr(read, "cut_out", noted)
    reader = standing_in(Task.READ, lambda: Words(f"line {len(seen)}", 0.5))
    detector = standing_in(Task.DETECT, boxes(*places, rotated=turned), 2)

    def either(inputs: Any, outputs: Any, hint: str, name: str, tasks: Any) -> Any:
        return (detector if len(outputs) > 1 else reader)(inputs, outputs)

    monkeypatch.setattr(looker, "recognise", either)
    done = call("read", RESNET, DIGIT, "--detector", DETECT, "--workers", "1", "--json")
    found = done.data["found"]
    assert [one["box"] for one in found] == [[7, 14, 140, 35], [7, 70, 63, 91]], done.err
    assert seen == [(21, 133, 3), (21, 56, 3)]
    assert all(one["text"].startswith("line") and one["score"] == 0.5 for one in found)
    table = call("read", RESNET, DIGIT, "--detector", DETECT, "--out", "read.png")
    assert table.out.splitlines()[1].split() == ["text", "score", "x1", "y1", "x2", "y2"]
    assert (pictures.read(Path("read.png")) != pictures.read(DIGIT)).any()


def test_lines_of_text_are_read_in_their_order(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of lines those with a score of 0.5 are read, unless another is said; a picture shows what was read."""
    places = ((10, 100, 90, 130), (120, 22, 200, 50), (10, 20, 100, 50))
    turned = np.array([[50, 115, 80, 30, 0.1], [160, 35, 80, 30, 0.0], [55, 35, 90, 30, 0.0]])
    limits: list[float] = []
    reader = standing_in(Task.READ, Words("A1", 0.5))
    detector = standing_in(Task.LINES, boxes(*places, rotated=turned), 1)

    def either(inputs: Any, outputs: Any, hint: str, name: str, tasks: Any) -> Any:
        if len(outputs) == 1:
            return reader(inputs, outputs)
        head = detector(inputs, outputs)
        decode = head.decode
        head.decode = lambda outputs, given: limits.append(given.score) or decode(outputs, given)
        return head

    monkeypatch.setattr(looker, "recognise", either)
    done = call("read", RESNET, DIGIT, "--detector", DETECT, "--json", "--out", "a.png")
    found = done.data["found"]
    assert [one["box"] for one in found] == [[7, 14, 70, 35], [84, 15.4, 140, 35], [7, 70, 63, 91]], done.err
    assert [one["rotated"][4] for one in found] == [0, 0, 0.1] and {one["text"] for one in found} == {"A1"}
    assert (pictures.read(Path("a.png")) != pictures.read(DIGIT)).any()
    call("read", RESNET, DIGIT, "--detector", DETECT, "--detector-score", "0.7")
    assert limits == [0.5, 0.7]


def test_nothing_found(call: Call) -> None:
    with standing(Task.DETECT, boxes()):
        done = call("detect", RESNET, DIGIT)
    assert done.out == f"{DIGIT}, 224 x 224: nothing found\n" and done.code == 0


def test_numbers_that_are_none(call: Call) -> None:
    with standing(Task.DETECT, boxes((np.nan, 1, 2, np.inf)), 1):
        done = call("detect", RESNET, DIGIT, "--out", "a.png")
        assert done.code == 0 and "nan" in done.out
        assert call("detect", RESNET, DIGIT, "--json").data["found"][0]["box"][0] is None


# -- what is refused ------------------------------------------------------------------------------------


def test_the_wrong_command_names_the_right_one(call: Call) -> None:
    done = call("pose", RESNET, DIGIT)
    assert (
        done.code == 3 and "is for another task: classify" in done.err and "use rknnlite classify" in done.err
    )
    assert "use rknnlite detect" in call("classify", DETECT, SCENE).err


def test_a_detector_and_a_reader_the_wrong_way_round(call: Call) -> None:
    remedy = "give a network that finds text as --detector, and one that reads a line as MODEL"
    done = call("read", DETECT, SCENE)
    assert done.code == 3 and "is for another task: detect" in done.err and remedy in done.err
    with standing(Task.READ, Words("A1", 0.5)):
        done = call("read", RESNET, SCENE, "--detector", DETECT)
    assert done.code == 3 and "is for another task: read" in done.err and remedy in done.err


def test_a_head_that_nobody_knows(call: Call) -> None:
    model = EXAMPLES / "custom_op" / "dual_for_RK3588.rknn"
    done = call("detect", model, SCENE, "--custom-op", EXAMPLES / "custom_op" / "dual_residual.py")
    assert done.code == 3 and done.err.splitlines()[-1].startswith("rknnlite: ")


def test_labels_that_do_not_match(call: Call) -> None:
    done = call("detect", DETECT, SCENE, "--labels", "coco")
    assert done.code == 2 and "coco names 80 classes, the model has 7" in done.err
    assert "no.txt cannot be read" in call("detect", DETECT, SCENE, "--labels", "no.txt").err
    assert "7 classes: they are numbered" in call("detect", DETECT, SCENE).err


def test_one_broken_picture_among_others(call: Call, place: Path) -> None:
    (place / "in").mkdir()
    (place / "in/a.jpg").write_bytes(b"\xff\xd8\xff no more")
    (place / "in/b.jpg").write_bytes(SCENE.read_bytes())
    done = call("detect", DETECT, place / "in", "--json")
    broken, whole = documents(done.out)
    assert done.code == 5 and "a.jpg is no picture" in done.err and "a.jpg is no picture" in broken["error"]
    assert broken["found"] == [] and len(whole["found"]) >= 7
    alone = call("detect", DETECT, place / "in/a.jpg")
    assert alone.code == 5 and "a.jpg is no picture" in alone.err and not alone.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["no.jpg"], 5, "no.jpg cannot be read"),
        (["empty"], 5, "empty has no pictures"),
        ([str(SCENE), "--out", "no/such/a.jpg.txt/"], 0, ""),
        ([str(SCENE), str(DIGIT), "--out", "a.jpg"], 2, "is one picture, there are 2"),
        (["a.jpg", "--out", "a.jpg"], 2, "a.jpg would replace the picture that is read"),
        (["a.jpg", "--out", "."], 2, "would replace the picture that is read"),
        (["a.jpg", "in/a.jpg", "--out", "out"], 2, "would both become out/a.jpg"),
        ([str(SCENE), "--out", "things.txt"], 1, "things.txt"),
        ([str(SCENE), "--show", "--port", "70000"], 2, "70000"),
        (["0", str(SCENE)], 2, "comes alone"),
        (["film.mp4"], 5, "film.mp4 cannot be read"),
        (["http://127.0.0.1:9/a.jpg"], 5, "http://127.0.0.1:9/a.jpg cannot be read"),
        ([str(SCENE), "--bgr", "--fit", "crop"], 0, ""),
    ],
)
def test_words(call: Call, place: Path, words: list[str], code: int, said: str) -> None:
    (place / "empty").mkdir()
    (place / "in").mkdir()
    for copy in ("a.jpg", "in/a.jpg"):
        (place / copy).write_bytes(SCENE.read_bytes())
    done = call("detect", DETECT, *words)
    assert done.code == code and said in done.err and "Traceback" not in done.err, done.err
    assert (place / "a.jpg").read_bytes() == SCENE.read_bytes()


def test_an_address(call: Call) -> None:
    with serving(SCENE.parent) as server:
        server.own["picture"] = lambda request: _picture(request)
        done = call("detect", DETECT, f"{server.url}/picture", "--out", "out", "--json")
    assert done.code == 0, done.err
    assert done.data["source"].endswith("/picture") and done.data["file"] == "out/picture.png"


def _picture(request: Any) -> None:
    request.send_response(200)
    request.send_header("Content-Type", "image/jpeg")
    request.end_headers()
    request.wfile.write(SCENE.read_bytes())


def test_show(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []

    class Viewer(show.Browser):
        def show(self, pixels: Any) -> bool:
            shown.append(pixels)
            return super().show(pixels)

        def wait(self) -> None:
            pass

    monkeypatch.setattr(show, "Browser", Viewer)
    done = call("detect", DETECT, SCENE, "--show")
    assert done.code == 0 and "look at http://127.0.0.1:" in done.err and len(shown) == 1
    assert (shown[0] != pictures.read(SCENE)).any()


def test_ctrl_c_leaves_nothing(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(look, "draw", interrupted)
    done = call("detect", DETECT, SCENE, "--out", "a.png")
    assert done.code == 130 and not Path("a.png").exists()
