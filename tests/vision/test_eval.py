"""``rknnlite eval``: networks side by side on a dataset, and what does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rknnlite_vision import pictures
from rknnlite_vision.commands import contestants, looker
from rknnlite_vision.evaluation.measuring import measure
from rknnlite_vision.evaluation.truth import Things, Truth
from rknnlite_vision.heads.head import Task
from rknnlite_vision.results import Classes, Detections, Words

from tests.cli.conftest import RESNET, Call, call
from tests.support.corpus import EXAMPLES
from tests.support.needs import needs

from .standins import boxes, standing_in

__all__ = ["call"]

pytest.importorskip("PIL.Image")
DETECT = EXAMPLES / "detect" / "detect_for_RK3588.rknn"
SCENE = EXAMPLES / "detect" / "scene.jpg"
THINGS = ("astronaut", "cat", "coin", "cup", "photographer", "rocket", "shuttle")
THERE = {  # in scene.jpg, as one sees them: x, y, width, height
    "astronaut": [0, 137, 315, 343],
    "cat": [470, 200, 170, 130],  # somebody drew it too large
    "shuttle": [419, 48, 83, 212],
    "photographer": [266, 179, 159, 206],
    "cup": [465, 319, 160, 148],
}


@pytest.fixture(autouse=True)
def on_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """A dataset of the example picture."""
    (tmp_path / "scene.jpg").write_bytes(SCENE.read_bytes())
    categories = [{"id": n + 1, "name": name} for n, name in enumerate(THINGS)]
    annotations = [
        {"id": n + 1, "image_id": 1, "category_id": THINGS.index(name) + 1, "bbox": box}
        for n, (name, box) in enumerate(THERE.items())
    ]
    path = tmp_path / "instances.json"
    images = [{"id": 1, "file_name": "scene.jpg"}, {"id": 2, "file_name": "gone.jpg"}]
    path.write_text(json.dumps({"images": images, "categories": categories, "annotations": annotations}))
    return path


def plain(path: Path, shade: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures.write(path, np.full((10, 20, 3), shade, np.uint8))


def report(result: Any) -> dict[str, Any]:
    assert result.code == 0, result.err
    document: dict[str, Any] = json.loads(result.out)
    return document


def test_the_detector_finds_what_is_in_the_scene(call: Call, scene: Path) -> None:
    result = call("eval", DETECT, scene, "--json", "--float")
    document = report(result)
    assert "1 pictures of the dataset are not there and left out: gone.jpg" in result.err
    assert (document["pictures"], document["absent"]) == (1, ["gone.jpg"])
    here, real = document["models"]
    assert [(m["backend"], m["fidelity"]) for m in (here, real)] == [("cpu", None), ("cpu", "float")]
    assert here["head"].startswith("YOLO")
    for network in (here, real):
        assert network["scores"]["ap50"] > 0.9
        found = {row["label"]: row["ap50"] for row in network["classes"]}
        assert found["cat"] == pytest.approx(1)
        assert found["rocket"] is None, "there is none in the truth"
        assert 0.8 < network["scores"]["ap"] < 1


def test_the_table_has_a_column_for_each(call: Call, scene: Path) -> None:
    result = call("eval", DETECT, scene, "--float", "--classes")
    assert result.code == 0
    head = next(line for line in result.out.splitlines() if "detect_for_RK3588.rknn cpu" in line)
    assert "detect_for_RK3588.rknn float" in head
    assert [line.split()[0] for line in result.out.splitlines() if line.startswith("AR1")] == [
        "AR1",
        "AR10",
        "AR100",
    ]
    assert any(line.startswith("astronaut ") for line in result.out.splitlines())


def test_a_number_below_what_is_asked_for_is_told_by_the_exit_code(call: Call, scene: Path) -> None:
    assert call("eval", DETECT, scene, "--min", "0.99").code == 6
    assert call("eval", DETECT, scene, "--min", "0.3").code == 0


def test_yolo_labels_give_the_numbers_of_coco(call: Call, scene: Path, tmp_path: Path) -> None:
    (tmp_path / "y" / "images").mkdir(parents=True)
    (tmp_path / "y" / "labels").mkdir()
    (tmp_path / "y" / "images" / "scene.jpg").write_bytes(SCENE.read_bytes())
    height, width = pictures.read(SCENE).shape[:2]
    rows = [
        f"{THINGS.index(name)} {(x + w / 2) / width} {(y + h / 2) / height} {w / width} {h / height}"
        for name, (x, y, w, h) in THERE.items()
    ]
    (tmp_path / "y" / "labels" / "scene.txt").write_text("\n".join(rows))
    (tmp_path / "y" / "classes.txt").write_text("\n".join(THINGS))
    numbers = [
        report(call("eval", DETECT, data, "--json"))["models"][0]["scores"]
        for data in (scene, tmp_path / "y")
    ]
    assert numbers[0] == pytest.approx(numbers[1])


def test_the_network_in_float_stands_beside_it(call: Call, scene: Path, tmp_path: Path) -> None:
    float_file = tmp_path / "detect.onnx"
    assert call("export-onnx", DETECT, float_file).code == 0
    real, here = report(call("eval", float_file, DETECT, scene, "--json"))["models"]
    assert [m["backend"] for m in (real, here)] == ["onnxruntime", "cpu"]
    assert real["scores"]["ap50"] > 0.9


def test_a_board_stands_beside_the_reference_and_the_network_in_float(
    call: Call, scene: Path, tmp_path: Path
) -> None:
    """The board of the tests of ``remote``: a server in this process, which computes as the reference does."""
    needs("grpc", "starlette", "uvicorn")
    from tests.remote.conftest import served

    words = ("eval", DETECT, scene, "--float", "--device")
    with served(tmp_path / "uploads") as board:
        here, there, real = report(call(*words, board, "--json"))["models"]
        table = call(*words, board, "--soc", "rk3588")
    assert [(m["backend"], m["device"], m["fidelity"]) for m in (here, there, real)] == [
        ("cpu", None, None), ("remote", board, None), ("cpu", None, "float"),
    ]  # fmt: skip
    assert here["scores"] == there["scores"] and there["classes"] == here["classes"]
    assert real["scores"]["ap50"] > 0.9
    assert table.code == 0, table.err
    (head,) = [line for line in table.out.splitlines() if "rknn float" in line]
    assert f"{DETECT.name} cpu" in head and f"{DETECT.name} {board}" in head


# -- other tasks, on networks that stand in --------------------------------------------------------------


def stand_in(monkeypatch: pytest.MonkeyPatch, *arguments: Any, **more: Any) -> None:
    needs("onnx", "onnxruntime")
    for module in (contestants, looker):
        monkeypatch.setattr(module, "recognise", standing_in(*arguments, **more))


def test_classes_of_folders(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, Task.CLASSIFY, Classes(np.array([1, 0]), np.array([0.9, 0.1])), classes=3)
    for name in ("cat/1.png", "dog/2.png", "dog/3.png", "owl/4.png"):
        plain(tmp_path / "data" / name)
    (model,) = report(call("eval", RESNET, tmp_path / "data", "--json"))["models"]
    assert model["scores"] == {"top1": 0.5, "top5": 0.75}


def test_classes_go_by_their_names(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, Task.CLASSIFY, Classes(np.array([1]), np.array([0.9])), classes=3)
    (tmp_path / "labels.txt").write_text("n01 owl, bird\nn02 cat\nn03 Dog")
    (tmp_path / "data.csv").write_text("1.png,n02\n2.png,n02 CAT\n3.png,horse\n")
    for n in (1, 2, 3):
        plain(tmp_path / f"{n}.png")
    result = call("eval", RESNET, tmp_path / "data.csv", "--labels", tmp_path / "labels.txt", "--json")
    (model,) = report(result)["models"]
    assert model["scores"]["top1"] == pytest.approx(2 / 3)
    assert model["unknown_labels"] == ["horse"]
    assert "no class is called horse" in result.err


def test_words(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, Task.READ, Words("AB 12", 0.9))
    for n in (1, 2, 3):
        plain(tmp_path / f"{n}.png")
    (tmp_path / "words.tsv").write_text("1.png\tAB 12\n2.png\tab 12\n3.png\tAB 123\n")
    (model,) = report(call("eval", RESNET, tmp_path / "words.tsv", "--json"))["models"]
    assert model["scores"] == {"words": pytest.approx(1 / 3), "character_errors": pytest.approx(3 / 16)}
    (model,) = report(call("eval", RESNET, tmp_path / "words.tsv", "--json", "--ignore-case"))["models"]
    assert model["scores"]["words"] == pytest.approx(2 / 3)


def test_keypoints(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.array([[[4, 4, 0.9], [8, 8, 0.9]]])
    found = Detections(np.array([[2.0, 2, 18, 9]]), np.array([0.9]), np.array([0]), points)
    stand_in(monkeypatch, Task.POSE, lambda: found, classes=1)
    monkeypatch.setattr(Detections, "placed", lambda self, placement: self)
    plain(tmp_path / "a.png")
    truth = {
        "images": [{"id": 1, "file_name": "a.png"}],
        "categories": [{"id": 1, "name": "person", "keypoints": ["a", "b"]}],
        "annotations": [
            {
                "image_id": 1,
                "category_id": 1,
                "bbox": [2, 2, 40, 40],
                "keypoints": [4, 4, 2, 8, 8, 2],
                "area": 1600,
            }
        ],
    }
    (tmp_path / "t.json").write_text(json.dumps(truth))
    (model,) = report(call("eval", RESNET, tmp_path / "t.json", "--json"))["models"]
    assert list(model["scores"])[-1] == "ar_large"
    assert model["scores"]["ap"] == pytest.approx(1)


def masked(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outline: Any) -> Any:
    """A network that finds a mask of 4 x 4 pixels, and a truth with this outline."""
    mask = np.zeros((1, 10, 20), bool)
    mask[0, 2:6, 3:7] = True
    found = Detections(np.array([[3.0, 2, 7, 6]]), np.array([0.9]), np.array([0]), masks=mask)
    stand_in(monkeypatch, Task.INSTANCE, lambda: found, classes=1)
    monkeypatch.setattr(Detections, "placed", lambda self, placement: self)
    plain(tmp_path / "a.png")
    truth = {
        "images": [{"id": 1, "file_name": "a.png"}],
        "categories": [{"id": 1, "name": "cup"}],
        "annotations": [
            {"image_id": 1, "category_id": 1, "bbox": [3, 2, 4, 4], "area": 16, "segmentation": outline}
        ],
    }
    (tmp_path / "t.json").write_text(json.dumps(truth))
    return call("eval", RESNET, tmp_path / "t.json", "--json")


@pytest.mark.parametrize(
    "outline", [[[3, 2, 7, 2, 7, 6, 3, 6]], {"size": [10, 20], "counts": [32, 4, 6, 4, 6, 4, 6, 4, 134]}]
)
def test_masks(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outline: Any) -> None:
    (network,) = report(masked(call, tmp_path, monkeypatch, outline))["models"]
    assert network["scores"]["ap"] == network["scores"]["mask_ap"] == pytest.approx(1)


@pytest.mark.parametrize(
    "outline", [[], [[1, 2]], [["x"] * 6], {"counts": [1]}, {"counts": "P"}, 7, [[1e300] * 6]]
)
def test_an_outline_that_is_none_is_told(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outline: Any
) -> None:
    result = masked(call, tmp_path, monkeypatch, outline)
    assert result.code == 5
    assert "a.png: its annotations have a segmentation that is none" in result.err


# -- what does not fit -----------------------------------------------------------------------------------


def test_detections_that_are_no_numbers_are_left_out(
    call: Call, scene: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = Detections(np.array([[0, 0, 9, 9]]), np.array([np.nan]), np.array([0]))
    stand_in(monkeypatch, Task.DETECT, odd, classes=7)
    result = call("eval", DETECT, scene, "--json")
    assert report(result)["models"][0]["nan"] == 1
    assert "1 detections without a score or place (NaN) are left out" in result.err


def test_nothing_found_is_zero(call: Call, scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, Task.DETECT, boxes(), classes=7)
    assert report(call("eval", DETECT, scene, "--json"))["models"][0]["scores"]["ap"] == 0


def test_names_that_do_not_go_together_are_told(call: Call, scene: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("\n".join("abcdefg"))
    result = call("eval", DETECT, scene, "--labels", tmp_path / "labels.txt")
    assert result.code == 5
    assert "the model has called a, b, c, d, e, ..., the dataset 7: astronaut, cat" in result.err
    result = call("eval", DETECT, scene, "--labels", "coco")
    assert result.code == 2
    assert "coco names 80 classes, the model has 7" in result.err


def test_a_picture_that_is_none_is_left_out_and_told(call: Call, scene: Path) -> None:
    scene.with_name("gone.jpg").write_bytes(b"no picture")
    result = call("eval", DETECT, scene, "--json")
    (left,) = report(result)["models"][0]["left_out"]
    assert left["source"].endswith("gone.jpg")
    assert "left out: " in result.err
    scene.with_name("scene.jpg").write_bytes(b"no picture either")
    result = call("eval", DETECT, scene)
    assert (result.code, "none of the 2 pictures can be looked at" in result.err) == (5, True)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("none.rknn", "{scene}"), 3, "none.rknn cannot be read"),
        ((str(DETECT), "none"), 5, "none is no dataset: give COCO's .json, a folder, or a table"),
        ((str(DETECT), "none.json"), 5, "none.json cannot be read"),
        ((str(DETECT), "{folder}"), 5, "no folders of pictures"),
        ((str(DETECT), "{scene}", "--device", "nowhere"), 4, "no device 'nowhere'"),
        (("{scene}", "{scene}"), 3, "instances.json"),
        ((str(DETECT), "{scene}", "--limit", "0"), 2, "no whole number from 1"),
        ((str(DETECT), "{scene}", "--mean", "1,2"), 2, "give one number, or three"),
    ],
)
def test_what_cannot_be_is_told(
    call: Call, scene: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    result = call("eval", *(word.format(scene=scene, folder=scene.parent) for word in words))
    assert result.code == code, result.err
    assert message in result.err


def test_a_task_that_is_not_measured_is_told(call: Call, scene: Path, tmp_path: Path) -> None:
    plain(tmp_path / "d" / "cat" / "1.png")
    result = call("eval", DETECT, tmp_path / "d")
    assert result.code == 3
    assert "is for another task: detect" in result.err


def test_an_onnx_file_that_is_none_is_told(call: Call, scene: Path, tmp_path: Path) -> None:
    needs("onnx", "onnxruntime")
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    result = call("eval", tmp_path / "bad.onnx", scene)
    assert result.code == 3
    assert "bad.onnx cannot be opened as an ONNX network" in result.err


def test_an_onnx_file_whose_input_has_no_fixed_size_is_told(call: Call, scene: Path, tmp_path: Path) -> None:
    needs("onnx", "onnxruntime")
    import onnx

    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 3, "h", "w"]) for name in "xy"
    ]
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(tmp_path / "free.onnx"))
    result = call("eval", tmp_path / "free.onnx", scene)
    assert result.code == 3
    assert "input x is tensor(float) ['n', 3, 'h', 'w']; export it with float32 of a fixed size" in result.err


def test_an_onnx_file_that_gives_numbers_of_classes_is_refused(
    call: Call, scene: Path, tmp_path: Path
) -> None:
    needs("onnx", "onnxruntime")
    import onnx

    make, kinds = onnx.helper, onnx.TensorProto
    x = make.make_tensor_value_info("x", kinds.FLOAT, [1, 3, 32, 32])
    y = make.make_tensor_value_info("y", kinds.INT64, [1, 1, 32, 32])
    graph = make.make_graph([make.make_node("ArgMax", ["x"], ["y"], axis=1)], "g", [x], [y])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(tmp_path / "regions.onnx"))
    result = call("eval", tmp_path / "regions.onnx", scene)
    assert result.code == 3
    assert "output y [1, 1, 32, 32] is INT64 with no scale" in result.err


@pytest.mark.parametrize(("kind", "right"), [(0, 1.0), (5, 0.0)])
def test_a_class_without_a_label_is_not_taken_for_the_last_one(
    tmp_path: Path, kind: int, right: float
) -> None:
    plain(tmp_path / "one.png")
    truth = Truth(["cup"], [1], [tmp_path / "one.png"], [Things.of([0], [[2, 2, 8, 8]])])
    found = Detections(np.array([[2, 2, 10, 10]]), np.array([0.9]), np.array([kind]))
    head = SimpleNamespace(task=Task.DETECT, classes=0)  # rows, which name any number of a class
    looking = SimpleNamespace(
        model=SimpleNamespace(head=head, labels=["cup"]), results=lambda items: ((n, found) for n, _ in items)
    )
    measured = measure(looking, truth, lambda: None)
    assert measured.numbers["AP"] == pytest.approx(right)
