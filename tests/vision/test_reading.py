"""Text in pictures: lines are found, laid, read and put in order. A line is a bar of colours, networks compute with them."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision.before.frame import Frame
from rknnlite_vision.before.preparation import Preparation, Way
from rknnlite_vision.crops import cut_out
from rknnlite_vision.described import described
from rknnlite_vision.heads.head import Limits, Task
from rknnlite_vision.heads.recognise import recognise
from rknnlite_vision.model import VisionModel, way_of
from rknnlite_vision.placement import Placement
from rknnlite_vision.reading import TextReader, finding_limits, in_reading_order
from rknnlite_vision.rectangles import corners_of
from rknnlite_vision.results import Classes, Lines, Words

from rknnlite.errors import InputInvalid, ModelInvalid
from rknnlite.tensor import DType, Layout, TensorAttr
from tests.cli.conftest import RESNET
from tests.support.corpus import EXAMPLES

from .standins import boxes

DETECT = EXAMPLES / "detect" / "detect_for_RK3588.rknn"
ROOT = Path(__file__).resolve().parents[2]
LETTERS = {"r": (255, 0, 0), "g": (0, 255, 0), "b": (0, 0, 255)}
SIDE = 20  # of a letter


class Network:
    """A context that computes with pixels of 0 to 255."""

    custom_string, platform = "", "rknn"

    def __init__(self, size: tuple[int, int], name: str, compute: Any, batch: int = 1) -> None:
        width, height = size
        self.inputs = [TensorAttr(0, "image", (batch, height, width, 3), DType.UINT8, Layout.NHWC)]
        self._compute, self.runs = compute, 0
        made = compute(np.zeros((batch, height, width, 3)))
        self.outputs = [TensorAttr(0, name, made.shape, DType.FLOAT32, Layout.NCHW)]

    def infer(self, array: Any, raw: bool = True) -> list[Any]:
        self.runs += 1
        made = self._compute(array.astype(np.float32)).astype(np.float32)
        return [dataclasses.make_dataclass("Output", ["data"])(made)]

    def close(self) -> None:
        self.compute = None


def coloured(pixels: Any) -> Any:
    """The map of a detector: 1 where there is a colour."""
    return (pixels.max(axis=3) - pixels.min(axis=3) > 128)[:, None].astype(np.float32)


def spelled(pixels: Any) -> Any:
    """The output of a reader, [batch, steps, classes]: which colour each eight columns have in the middle rows; else the blank."""
    batch, height, width, _ = pixels.shape
    middle = (
        pixels[:, height // 3 : 2 * height // 3].mean(axis=1).reshape(batch, width // 8, 8, 3).mean(axis=2)
    )
    far = np.stack([abs(middle - colour).sum(axis=2) for colour in LETTERS.values()], axis=2)
    shares = np.concatenate([np.full((*far.shape[:2], 1), 0.5), far < 200], axis=2)
    return shares / shares.sum(axis=2, keepdims=True)


def reader_of_colours(batch: int = 1, width: int = 320) -> VisionModel:
    network: Any = Network((width, 48), "softmax", spelled, batch)
    return VisionModel(network, recognise(network.inputs, network.outputs, "ppocr"), labels=list(LETTERS))


def finder(size: tuple[int, int] = (320, 256)) -> VisionModel:
    network: Any = Network(size, "sigmoid", coloured)
    return VisionModel(network, hint="dbnet")


def picture_of(*lines: tuple[str, float, float, float]) -> Any:
    """White, with bars: text, centre x and y, degrees clockwise."""
    y, x = np.mgrid[:320, :400] + 0.5
    picture = np.full((320, 400, 3), 255, np.uint8)
    for text, at_x, at_y, degrees in lines:
        angle = np.deg2rad(degrees)
        along = (x - at_x) * np.cos(angle) + (y - at_y) * np.sin(angle) + len(text) * SIDE / 2
        down = (y - at_y) * np.cos(angle) - (x - at_x) * np.sin(angle)
        for n, letter in enumerate(text):
            picture[(along >= n * SIDE) & (along < (n + 1) * SIDE) & (abs(down) < SIDE / 2)] = LETTERS[letter]
    return picture


@pytest.mark.parametrize("batch", [1, 3])
def test_lines_are_found_and_read(batch: int) -> None:
    lines = [
        ("rgb", 80, 40, 0),
        ("gr", 300, 44, 0),
        ("brgb", 90, 120, 10),
        ("rbrg", 280, 140, -20),
        ("gbgr", 200, 240, 90),
        ("bg", 60, 285, 0),
    ]
    with TextReader(finder(), reader_of_colours(batch)) as reader:
        found = reader.read(picture_of(*lines))
    assert found.text.split() == ["rgb", "gr", "brgb", "rbrg", "gbgr", "bg"]
    for (text, x, y, degrees), row, box in zip(lines, found.places.rotated, found.places.boxes):  # type: ignore[arg-type]
        assert np.hypot(row[0] - x, row[1] - y) < 2 and row[2:4].max() > len(text) * SIDE
        assert degrees == 90 or abs(np.rad2deg(row[4]) - degrees) < 2
        assert box[0] < x < box[2] and box[1] < y < box[3]
    assert all(words.score > 0.6 for words in found.words)


@pytest.mark.parametrize("batch", [1, 4])
def test_a_long_line_is_read_in_parts(batch: int) -> None:
    """One of ten letters in a network with room for seven: no letter is cut, which would be read twice."""
    text = "rgbrgbrgbg"
    gaps = picture_of((text, 200, 100, 0))
    gaps[:, ::SIDE] = 255
    reader = reader_of_colours(batch, width=160)
    found = TextReader(finder((400, 320)), reader).read(gaps)
    assert found.text.replace(" ", "") == text and found.words[0].score > 0.6
    assert reader.see(gaps[80:120], Limits(score=0.99)) == Words("", pytest.approx(2 / 3))  # type: ignore[arg-type]
    frame = Frame("RGB", 400, 40, np.ascontiguousarray(gaps[80:120]).tobytes())
    runs = reader.context.runs  # type: ignore[attr-defined]
    assert isinstance(reader.see(frame), Words) and reader.context.runs == runs + 1, "a frame stays whole"  # type: ignore[attr-defined]
    whole = TextReader(finder((400, 320)), reader_of_colours()).read(gaps)
    assert whole.text == text


def test_what_is_no_picture_is_told() -> None:
    with pytest.raises(InputInvalid, match="must be uint8"):
        reader_of_colours().see(np.zeros((48, 320, 3)))


def test_nothing_to_read() -> None:
    reader = reader_of_colours()
    runs = reader.context.runs  # type: ignore[attr-defined]
    found = TextReader(finder(), reader).read(picture_of())
    assert found.text == "" and len(found.places) == 0 and reader.context.runs == runs  # type: ignore[attr-defined]


def test_networks_the_wrong_way_round() -> None:
    with pytest.raises(
        ModelInvalid, match=r"CTC text.*is for another task: read; give a network to find boxes"
    ):
        TextReader(reader_of_colours(), finder())
    with pytest.raises(
        ModelInvalid, match=r"DB .*is for another task: lines of text; give a network to read text"
    ):
        TextReader(finder(), finder())


def test_what_is_found_as_names_and_numbers() -> None:
    places = boxes((1, 2, 30, 12), rotated=np.array([[15.5, 7, 29, 10, 0.1]]))
    found = Lines(places, (Words("A1", 0.98765),)).placed(Placement.stretch((60, 24), (30, 12)))
    (line,) = described(found, str)
    assert line == {"text": "A1", "score": 0.9877, "box": [2, 4, 60, 24], "rotated": [31, 14, 58, 20, 0.1]}


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_order_of_reading(order: Sequence[int]) -> None:
    places = np.array([[10, 10, 100, 30], [120, 16, 200, 34], [14, 40, 90, 60], [100, 38, 190, 62]])
    found = in_reading_order(boxes(*places[list(order)]))
    assert found.boxes.tolist() == places.tolist()


def test_turned_lines_beside_each_other_are_no_row() -> None:
    """The upright boxes of steep lines overlap; the lines are thin."""
    rotated = np.array([[100, 60, 160, 16, -0.5], [120, 85, 160, 16, -0.5]])
    corners = [corners_of(row) for row in rotated]
    found = boxes(*((*c.min(axis=0), *c.max(axis=0)) for c in corners[::-1]), rotated=rotated[::-1])
    assert in_reading_order(found).rotated[:, 1].tolist() == [60, 85]  # type: ignore[index]


def test_order_of_none_of_numbers_that_are_none_and_of_no_boxes() -> None:
    assert len(in_reading_order(boxes())) == 0
    assert len(in_reading_order(boxes((np.nan, 0, np.inf, 1), (0, 0, 1, 1)))) == 2
    with pytest.raises(ModelInvalid, match="the detector finds no boxes"):
        in_reading_order(Classes(np.array([1]), np.array([0.5])))


def test_limits_of_what_is_found() -> None:
    assert finding_limits(Task.LINES).score == 0.5 and finding_limits(Task.DETECT).score == 0.3
    assert finding_limits(Task.LINES, 0.0).score == 0.0


def test_networks_are_opened_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both, or none: what was opened is closed where the other cannot be."""
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")
    closed: list[str] = []
    close = VisionModel.close
    monkeypatch.setattr(VisionModel, "close", lambda model: closed.append(model.head.family) or close(model))
    with pytest.raises(ModelInvalid, match=r"classification.*give a network to read text"):
        TextReader.open(DETECT, RESNET)
    assert [family.split()[0] for family in closed] == ["classification,", "YOLOv8"]
    with pytest.raises(ModelInvalid, match=r"none\.rknn"):
        TextReader.open(DETECT, "none.rknn")
    assert len(closed) == 3


@pytest.mark.parametrize(
    "module",
    ["reading", "rectangles", "crops", "lines", "results", "font", "heads.connected", "heads.text_boxes"],
)
def test_examples_run(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testmod(importlib.import_module(f"rknnlite_vision.{module}"))
    assert tried > 0 and failed == 0


def test_pieces_of_turned_boxes_are_smooth_and_bounded() -> None:
    picture = picture_of(("rgb", 200, 160, 30))

    def piece(*rotated: float) -> Any:
        return cut_out(picture, boxes((0, 0, 9, 9), rotated=np.array([rotated])), 0)

    upright = piece(200, 160, 60, 20, np.deg2rad(30))
    assert upright.shape == (20, 60, 3)
    assert [tuple(upright[10, x]) for x in (10, 30, 50)] == list(LETTERS.values())
    assert piece(200, 160, 20, 29, 0).shape == (29, 20, 3), "a letter stands"
    assert piece(200, 160, 20, 30, 0).shape == (20, 30, 3), "a line lies"
    assert piece(1e30, -1e30, 1e30, 1e30, 0.3).size <= picture.size * 1.1
    assert piece(5, 5, 0, 0, 0).shape == (1, 1, 3)


def test_lines_go_in_with_their_proportions() -> None:
    """As PaddleOCR puts them: at the left, as wide as they are, grey behind; too long ones squeezed."""
    reader = reader_of_colours()
    assert way_of(reader.head) is Way.LINE and reader.preparation.fill == 127
    array, placement = reader.preparation(np.full((32, 61, 3), 9, np.uint8))
    assert (array[0, :, :92] == 9).all() and (array[0, :, 92:] == 127).all() and placement.inner == (92, 48)
    array, placement = reader.preparation(np.full((8, 400, 3), 9, np.uint8))
    assert (array == 9).all() and placement.inner == (320, 48)
    assert Preparation((160, 16), Way.LINE)(np.zeros((900, 1, 3), np.uint8))[1].inner == (1, 16)


def test_which_readers_take_lines_as_they_are() -> None:
    def lines(width: int, hint: str = "", dims: tuple[int, ...] = (1, 12, 9)) -> bool:
        image = TensorAttr(0, "image", (1, 24, width, 3), DType.UINT8, Layout.NHWC)
        return recognise(
            [image], [TensorAttr(0, "output", dims, DType.FLOAT32, Layout.UNDEFINED)], hint
        ).lines

    assert [lines(96), lines(97), lines(96, "ppocr")] == [False, True, True]
    assert not lines(240, "lprnet", (1, 9, 12))
