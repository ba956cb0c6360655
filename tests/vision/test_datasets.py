"""Datasets: COCO's JSON, YOLO's texts, folders and tables; and everything that is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision.evaluation.coco_json import read_coco
from rknnlite_vision.evaluation.labelled import read_folders, read_table
from rknnlite_vision.evaluation.yolo_labels import read_yolo
from rknnlite_vision.pictures import write

from rknnlite.errors import InputInvalid
from tests.support.needs import needs


def picture(path: Path, size: tuple[int, int] = (8, 4)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, np.zeros((size[1], size[0], 3), np.uint8))


def coco(folder: Path, **changes: Any) -> Path:
    """Two pictures, categories 1 and 90, two things in the second picture."""
    data = {
        "images": [{"id": 7, "file_name": "b.png"}, {"id": 3, "file_name": "a.png"}],
        "categories": [{"id": 90, "name": "toothbrush"}, {"id": 1, "name": "person"}],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 90, "bbox": [1, 2, 3, 4], "area": 5, "iscrowd": 1},
            {"id": 2, "image_id": 7, "category_id": 1, "bbox": [0, 0, 2, 2]},
        ],
    }
    data.update(changes)
    for name in ("a.png", "b.png"):
        picture(folder / name)
    path = folder / "instances.json"
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not None}))
    return path


def test_categories_and_pictures_come_in_the_order_of_their_numbers(tmp_path):
    truth = read_coco(coco(tmp_path))
    assert (truth.names, truth.ids) == (["person", "toothbrush"], [1, 90])
    assert [path.name for path in truth.pictures] == ["a.png", "b.png"]
    none, two = truth.things
    assert len(none.kinds) == 0
    assert two.kinds.tolist() == [1, 0]
    assert two.boxes.tolist() == [[1, 2, 3, 4], [0, 0, 2, 2]]
    assert two.areas.tolist() == [5, 4], "that of the box where none is told"
    assert two.crowd.tolist() == [True, False]


@pytest.mark.parametrize("folder", ["images", "val2017", "../images/val2017"])
def test_pictures_lie_where_people_keep_them(tmp_path, folder):
    (tmp_path / "annotations").mkdir()
    path = coco(tmp_path / "annotations")
    for name in ("a.png", "b.png"):
        (path.parent / name).unlink()
        picture(path.parent / folder / name)
    assert len(read_coco(path).pictures) == 2


def test_pictures_that_nobody_has_are_listed(tmp_path):
    path = coco(tmp_path)
    (tmp_path / "a.png").unlink()
    truth = read_coco(path)
    assert (truth.absent, len(truth.pictures), len(truth.things)) == (["a.png"], 1, 1)
    (tmp_path / "b.png").unlink()
    with pytest.raises(InputInvalid, match=r"none of its 2 pictures \(.*is in .*say --pictures FOLDER"):
        read_coco(path)


def test_keypoints(tmp_path):
    points = {"image_id": 3, "category_id": 1, "bbox": [0, 0, 2, 2], "keypoints": [1, 2, 2, 0, 0, 0]}
    path = coco(
        tmp_path,
        categories=[{"id": 1, "name": "person", "keypoints": ["nose", "eye"]}, {"id": 2, "name": "cup"}],
        annotations=[points, {"image_id": 3, "category_id": 2, "bbox": [0, 0, 1, 1]}],
    )
    truth = read_coco(path, keypoints=True)
    assert truth.names == ["person"]
    assert truth.things[0].keypoints.tolist() == [[[1, 2, 2], [0, 0, 0]]]
    assert truth.things[1].keypoints.shape[0] == 0


ONE = {"image_id": 3, "category_id": 1, "bbox": [0, 0, 1, 1]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"annotations": None}, "annotations is not there; results of a detector have no truth"),
        ({"annotations": {}}, "annotations is no list of objects"),
        ({"images": [1]}, "images is no list of objects"),
        ({"images": []}, "has no images"),
        ({"categories": []}, "has no categories"),
        ({"images": [{"id": 3}]}, r"images\[0\] has no file_name"),
        ({"images": [{"id": "x", "file_name": "a.png"}]}, r"images\[0\]: id is 'x'"),
        (
            {"images": [{"id": 3, "file_name": "../../etc/passwd"}], "annotations": []},
            "outside of the folder",
        ),
        (
            {"annotations": [{**ONE, "image_id": 5}]},
            r"annotations\[0\] is of image 5, which images does not have",
        ),
        ({"annotations": [{**ONE, "category_id": 5}]}, "category 5, which categories does not have"),
        ({"annotations": [{**ONE, "bbox": [1, 2, 3]}]}, r"bbox is \[1, 2, 3\], must be 4 numbers"),
        ({"annotations": [{**ONE, "bbox": [1, 2, 3, float("nan")]}]}, "must be 4 numbers"),
        ({"annotations": [{**ONE, "bbox": [10**400, 2, 3, 4]}]}, "must be 4 numbers"),
        ({"annotations": [{**ONE, "bbox": [0, 0, 1e308, 1e308]}]}, "must be 4 numbers"),
        ({"annotations": [{**ONE, "area": "x"}]}, "area is"),
        (
            {"images": [{"id": 7, "file_name": "a.png"}, {"id": 7, "file_name": "b.png"}]},
            r"images\[1\]: id 7 is that of 'a.png' already; number them anew",
        ),
        (
            {"categories": [{"id": 1, "name": "cat"}, {"id": 1, "name": "dog"}]},
            r"categories\[1\]: id 1 is that of 'cat' already",
        ),
        ({"images": [{"id": 7, "file_name": "a" * 5000}], "annotations": []}, r"pictures \(a{100}, "),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, changes, message):
    with pytest.raises(InputInvalid, match=message):
        read_coco(coco(tmp_path, **changes))


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 1000, "\x00"])
def test_what_is_no_dataset_of_coco(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputInvalid, match=r"x\.json"):
        read_coco(tmp_path / "x.json")
    with pytest.raises(InputInvalid, match=r"none\.json cannot be read"):
        read_coco(tmp_path / "none.json")


# -- YOLO -------------------------------------------------------------------------------------------------


def yolo(folder: Path, text: str = "1 0.5 0.5 0.25 0.5\n") -> Path:
    picture(folder / "images" / "a.png")
    picture(folder / "images" / "b.png")
    (folder / "labels").mkdir(exist_ok=True)
    (folder / "labels" / "a.txt").write_text(text)
    return folder


def test_parts_of_a_picture_become_pixels(tmp_path):
    truth = read_yolo(yolo(tmp_path), ["cat", "dog"])
    truth.sized(0, 8, 4)
    truth.sized(0, 8, 4)  # of a second network
    (box,) = truth.things[0].boxes.tolist()
    assert box == [3, 1, 2, 2]
    assert truth.things[0].areas.tolist() == [4]
    assert len(truth.things[1].kinds) == 0, "no text: nothing is in it"


def test_of_a_polygon_the_box_around_it_counts(tmp_path):
    truth = read_yolo(yolo(tmp_path, "0 0.25 0.5 0.75 0.5 0.5 1.0\n\n"))
    assert truth.things[0].boxes.tolist() == [[0.25, 0.5, 0.5, 0.5]]


def test_names_come_from_the_description_beside_it(tmp_path):
    pytest.importorskip("ruamel.yaml")
    (tmp_path / "data.yaml").write_text("train: x\nnames: [cat, dog]\n")
    assert read_yolo(yolo(tmp_path)).names == ["cat", "dog"]
    assert read_yolo(tmp_path / "images").names == ["cat", "dog"], "from the folder of pictures, too"


def test_without_names_classes_are_numbered(tmp_path):
    assert read_yolo(yolo(tmp_path)).names == ["class 0", "class 1"]


@pytest.mark.parametrize(
    "line",
    [
        "1 0.5 0.5",
        "x 1 2 3 4",
        "-1 0 0 1 1",
        "1.5 0 0 1 1",
        "0 nan 0 1 1",
        "0 1e300 0 1e300 1e300",
        "9999999 0 0 1 1",
    ],
)
def test_a_line_that_is_no_label_is_told(tmp_path, line):
    with pytest.raises(InputInvalid, match=r"a.txt, line 2: .* is no label: give class x y width height"):
        read_yolo(yolo(tmp_path, f"0 0 0 1 1\n{line}\n"))


def test_too_few_names_and_no_labels_are_told(tmp_path):
    with pytest.raises(InputInvalid, match="has class 1, and there are names for 1 classes"):
        read_yolo(yolo(tmp_path), ["cat"])
    with pytest.raises(InputInvalid, match="has a label"):
        read_yolo(yolo(tmp_path, ""))


# -- one answer for each picture -------------------------------------------------------------------------


def test_a_folder_for_each_class(tmp_path):
    needs("PIL")
    for name in ("dog/1.png", "cat/2.png", "cat/3.jpg"):
        picture(tmp_path / name)
    (tmp_path / "cat" / "notes.txt").write_text("none")
    data = read_folders(tmp_path)
    assert data.answers == ["cat", "cat", "dog"]
    assert [path.name for path in data.pictures] == ["2.png", "3.jpg", "1.png"]
    with pytest.raises(InputInvalid, match="no folders of pictures"):
        read_folders(tmp_path / "cat")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", 'file,class\na.png,cat\n"b.png","dog, large"\n'),
        ("t.tsv", "a.png\tcat\n\nb.png\tdog, large\n"),
        ("t.txt", "\ufeffa.png\tcat\nb.png\tdog, large"),
        ("old.csv", 'a.png,cat\rb.png,"dog, large"\r'),
    ],
)
def test_a_table_of_files_and_answers(tmp_path, name, text):
    for file in ("a.png", "b.png"):
        picture(tmp_path / "images" / file)
    (tmp_path / name).write_bytes(text.encode())
    assert read_table(tmp_path / name).answers == ["cat", "dog, large"]
    (tmp_path / "images" / "a.png").unlink()
    data = read_table(tmp_path / name)
    assert (data.absent, data.answers) == (["a.png"], ["dog, large"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a.png", r"line 1: 'a.png' has no answer; give file, tab, answer"),
        (b"", "names no pictures"),
        (b"\xff\xfe", "cannot be read"),
        (b"/etc/passwd\tx", "outside of the folder"),
    ],
)
def test_a_table_that_is_none(tmp_path, text, message):
    (tmp_path / "t.tsv").write_bytes(text)
    with pytest.raises(InputInvalid, match=message):
        read_table(tmp_path / "t.tsv")


def test_a_table_with_a_field_beyond_all_bounds(tmp_path):
    (tmp_path / "t.csv").write_text(f'a.png,"{"a" * 200_000}"\n')
    with pytest.raises(InputInvalid, match=r"t\.csv is no table of file, comma, answer: field larger than"):
        read_table(tmp_path / "t.csv")
