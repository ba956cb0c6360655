"""A network with what lies around it: one picture or many, places in their pixels, labels, and a context that is closed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision import model as module
from rknnlite_vision import pictures
from rknnlite_vision.before.preparation import Preparation, Way
from rknnlite_vision.crops import cut_out
from rknnlite_vision.heads.head import Head, Limits, Task
from rknnlite_vision.model import VisionModel, open_vision, way_of
from rknnlite_vision.results import Detections, Result

from rknnlite.errors import ContextInvalid, ModelInvalid, ParamInvalid
from rknnlite.spi.types import RawOutput
from rknnlite.tensor import DType, Layout, TensorAttr

from .standins import boxes, standing_in
from .test_commands import DETECT, SCENE, THINGS


class Batched:
    """A network that takes three pictures and gives their means; as much of a context as a model needs."""

    backend_name, custom_string, last_run_us = "fake", "", 0

    def __init__(self, count: int = 1) -> None:
        self.inputs = [
            TensorAttr(n, f"image{n}", (3, 8, 8, 3), DType.UINT8, Layout.NHWC) for n in range(count)
        ]
        self.outputs = [TensorAttr(0, "means", (3, 1), DType.FLOAT32, Layout.UNDEFINED)]
        self.runs = 0
        self.closed = False

    def infer(self, array: Any, raw: bool = False, **options: Any) -> list[RawOutput]:
        self.runs += 1
        return [RawOutput(array.mean((1, 2, 3), dtype=np.float32)[:, None], 1.0, 0)]

    def close(self) -> None:
        self.closed = True


class Means(Head):
    """One box as wide as the picture is light."""

    family, task, classes, size = "means", Task.DETECT, 2, (8, 8)

    def _picture(self, outputs: Sequence[Any], limits: Limits) -> Result:
        mean = float(outputs[0][0, 0])
        return Detections(np.array([[0, 0, mean / 32, 4]]), np.array([0.5]), np.array([0]))


def batched(**options: Any) -> tuple[VisionModel, Batched]:
    context: Any = Batched()
    head = Means(context.inputs, context.outputs)
    return VisionModel(context, head, Preparation((8, 8), Way.STRETCH), **options), context


def test_a_batch_is_filled_and_what_filled_it_is_left_out() -> None:
    model, context = batched()
    lights = [0, 32, 64, 96, 128, 160, 192]
    found = model.see_all([np.full((4, 16, 3), light, np.uint8) for light in lights])
    assert context.runs == 3 and len(found) == 7
    # stretched: x of the picture is twice that of the input
    assert [one.boxes[0, 2] for one in found] == [2 * light / 32 for light in lights]  # type: ignore[union-attr]
    assert model.see_all([]) == [] and context.runs == 3


def test_outputs_that_are_no_numbers_are_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Detectors leave them out; where nothing is found for that reason, a film goes on, and one hears of it."""
    picture = np.zeros((48, 64, 3), np.uint8)
    with open_vision(DETECT, backend="cpu") as model, caplog.at_level("WARNING", "rknnlite"):
        model.see(picture)
        assert not caplog.messages  # nothing is there
        real = [np.full(attr.dims, 0.1, np.float32) for attr in model.context.outputs]
        real[2][...] = np.nan
        monkeypatch.setattr(model.context, "infer", lambda *_, **__: [RawOutput(a, 1.0, 0) for a in real])
        for _ in range(3):
            found = model.see(picture)
            assert isinstance(found, Detections) and not len(found)
        (told,) = caplog.messages
    name = model.head.outputs[2].name
    assert told.startswith(f"output {name} holds NaN") and "rknnlite compare" in told


def test_the_two_steps_of_looking_give_what_one_gives() -> None:
    model, context = batched()
    picture = np.full((4, 16, 3), 96, np.uint8)
    found, both = model.decode(model.run(model.context, picture)), model.see(picture)
    assert context.runs == 2
    assert isinstance(found, Detections) and isinstance(both, Detections)
    np.testing.assert_array_equal(found.boxes, both.boxes)


def test_things_in_a_picture_with_labels() -> None:
    with open_vision(DETECT, labels=THINGS, backend="cpu") as model:
        found = model.see(pictures.read(SCENE), Limits(score=0.5))
        assert isinstance(found, Detections) and {model.name_of(n) for n in found.classes.tolist()} == set(
            THINGS
        )
        assert list(model.head.labels) == list(THINGS) and "YOLO" in repr(model)
    model.close()
    with pytest.raises(ContextInvalid):
        model.see(pictures.read(SCENE))


def test_names_where_nobody_says_any() -> None:
    model, _ = batched()
    assert model.labels == [] and model.name_of(7) == "class 7"
    named, _ = batched(labels=["cat", "dog"])
    assert [named.name_of(n) for n in (-1, 0, 1, 2)] == ["class -1", "cat", "dog", "class 2"]


def test_several_inputs() -> None:
    context: Any = Batched(2)
    with pytest.raises(ModelInvalid, match=r"2 inputs \(image0, image1\); a picture goes into one"):
        VisionModel(context)


@pytest.mark.parametrize(("labels", "error"), [("coco", ParamInvalid), ("no/such.txt", ParamInvalid)])
def test_what_is_refused_closes_the_context(
    labels: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    true = module.rknnlite.open

    def noted(*arguments: Any, **options: Any) -> Any:
        opened.append(true(*arguments, **options))
        return opened[0]

    monkeypatch.setattr(module.rknnlite, "open", noted)
    with pytest.raises(error):
        open_vision(DETECT, labels=labels, backend="cpu")
    with pytest.raises(ContextInvalid):
        opened[0].run()


def test_how_pictures_go_in() -> None:
    context = Batched()
    ways = {task: way_of(standing_in(task, boxes())(context.inputs, context.outputs)) for task in Task}
    assert ways[Task.DETECT] == ways[Task.POSE] == ways[Task.INSTANCE] == Way.LETTERBOX
    assert (ways[Task.CLASSIFY], ways[Task.READ]) == (Way.CROP, Way.STRETCH)


def test_pieces_of_pictures() -> None:
    picture = np.arange(20 * 30 * 3, dtype=np.uint32).reshape(20, 30, 3) % 251
    places = ((4.2, 5, 9, 8.5), (28, 18, 90, 90), (-5, -5, 0, 0), (np.nan, 0, np.inf, 3), (7, 7, 7, 7))
    found = boxes(*places)
    assert (cut_out(picture, found, 0) == picture[5:9, 4:9]).all()
    assert [cut_out(picture, found, n).shape[:2] for n in range(1, 5)] == [(2, 2), (1, 1), (3, 30), (1, 1)]


@pytest.mark.parametrize("turn", range(4))
def test_turned_pieces_lie(turn: int) -> None:
    """A box that stands is laid down, whatever quarter its angle says."""
    picture = np.zeros((20, 30, 3), np.uint8)
    picture[4:14, 10:14] = np.arange(1, 11)[:, None, None]
    width, height = (4, 10) if turn % 2 == 0 else (10, 4)
    found = boxes((10, 4, 14, 14), rotated=np.array([[12, 9, width, height, turn * np.pi / 2]]))
    piece = cut_out(picture, found, 0)
    assert piece.shape == (4, 10, 3) and sorted(piece[0, :, 0].tolist()) == list(range(1, 11))
    assert (piece == piece[:1]).all()


def test_a_picture_of_one_pixel() -> None:
    with open_vision(DETECT, backend="cpu") as model:
        for shape in ((1, 1, 3), (1, 700, 3), (900, 1, 3)):
            assert len(model.see(np.zeros(shape, np.uint8))) >= 0  # type: ignore[arg-type]


def test_a_path_of_any_kind() -> None:
    for source in (str(DETECT), Path(DETECT), DETECT.read_bytes()):
        with open_vision(source, backend="cpu") as model:
            assert model.head.classes == 7
