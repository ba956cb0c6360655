"""Names of classes: files of every usual form, the model's own text, and numbers that clash."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from rknnlite_vision.heads.head import Task
from rknnlite_vision.labels import COCO, labels_for, labels_of_text, read_labels

from rknnlite.errors import ParamInvalid

from .standins import boxes, standing_in


def head(classes: int, task: Task = Task.DETECT) -> Any:
    from rknnlite.tensor import DType, Layout, TensorAttr

    attr = TensorAttr(0, "image", (1, 8, 8, 3), DType.INT8, Layout.NHWC)
    return standing_in(task, boxes(), classes)([attr], [attr])


@pytest.mark.parametrize(
    ("name", "text"),
    {
        "lines.txt": "cat\ndog\nhot dog, with mustard\n\n",
        "windows.txt": "\ufeffcat\r\ndog\r\nhot dog, with mustard\r\n",
        "list.yaml": "names: [cat, dog, 'hot dog, with mustard']\n",
        "dash.yml": "names:\n- cat\n- dog\n- hot dog, with mustard\n",
        "data.yaml": "path: ../coco\ntrain: images\nnames:\n  0: cat\n  1: dog\n  2: hot dog, with mustard\n",
        "list.json": '["cat", "dog", "hot dog, with mustard"]',
        "object.json": '{"classes": {"0": "cat", "2": "hot dog, with mustard", "1": "dog"}}',
    }.items(),
)
def test_forms(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert read_labels(tmp_path / name) == ["cat", "dog", "hot dog, with mustard"]


def test_coco() -> None:
    assert len(COCO) == 80 and read_labels("coco") == list(COCO)
    assert (COCO[0], COCO[16], COCO[79]) == ("person", "dog", "toothbrush")


def test_characters_of_a_dictionary(tmp_path: Path) -> None:
    """A blank and brackets are characters; one class more is that of no character, another the space."""
    (tmp_path / "keys.txt").write_text("[\n]\n \n漢\n", "utf-8")
    assert labels_for(head(5, Task.READ), tmp_path / "keys.txt", "") == ["[", "]", " ", "漢"]


def test_as_many_characters_as_a_head_reads() -> None:
    for classes in (2, 3, 4):
        assert labels_for(head(classes, Task.READ), ["a", "b"], "") == ["a", "b"]
    with pytest.raises(
        ParamInvalid, match="labels name 2 classes, the model has 5, one of which is the blank"
    ):
        labels_for(head(5, Task.READ), ["a", "b"], "")


ALIASES = b"x0: &x0 [a]\n" + b"".join(
    b"x%d: &x%d [%s]\n" % (n, n, b", ".join([b"*x%d" % (n - 1)] * 9)) for n in range(1, 26)
)
"""A few lines of YAML, which written out are more text than there is memory."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("none.txt", None, "check its name"),
        ("empty.txt", b"\n\n", "holds no labels"),
        ("bytes.txt", b"\xff\xfe\x00", "cannot be read"),
        ("gap.yaml", b"names: {0: a, 2: b}", "not numbered from 0 to 1"),
        ("other.yaml", b"train: images\nval: more", "there is none of names, labels, classes"),
        ("broken.yaml", b"names: [a, b", "it is no YAML"),
        ("deep.yaml", b"names: " + b"[" * 5000, "it is no YAML"),
        ("nested.yaml", b"names: [[a], [b]]", "is no list of labels"),
        ("aliases.yaml", ALIASES + b"names: *x25\n", "a list with other things in it is no list of labels"),
        (
            "aliased.yaml",
            ALIASES + b"names: {0: *x25}\n",
            "a list with other things in it is no list of labels",
        ),
        ("endless.yaml", b".inf: a", "there is none of names"),
        ("object.json", b'{"a": ', "cannot be read"),
        ("large.yaml", b"# " + bytes(300 << 10), "may be read"),
    ],
)
def test_what_is_no_file_of_labels(tmp_path: Path, name: str, data: bytes | None, said: str) -> None:
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ParamInvalid, match=name) as caught:
        read_labels(path)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_as_many_as_classes(tmp_path: Path) -> None:
    (tmp_path / "two.txt").write_text("cat\ndog\n")
    assert labels_for(head(2), tmp_path / "two.txt", "") == ["cat", "dog"]
    with pytest.raises(ParamInvalid, match=r"two\.txt names 2 classes, the model has 3 \(a stand-in"):
        labels_for(head(3), tmp_path / "two.txt", "")
    with pytest.raises(ParamInvalid, match="coco names 80 classes, the model has 2"):
        labels_for(head(2), "coco", "")
    with pytest.raises(ParamInvalid, match="labels name 1 classes"):
        labels_for(head(2), ["cat"], "")


@pytest.mark.parametrize("stored", ["cat,dog", '["cat", "dog"]', '{"names": ["cat", "dog"]}', "cat\ndog"])
def test_those_of_the_model_file(stored: str) -> None:
    assert labels_for(head(2), None, stored) == ["cat", "dog"]
    assert labels_for(head(2), ["a", "b"], stored) == ["a", "b"], "what is given goes before"


@pytest.mark.parametrize(
    "stored", ["", "made on a Friday", '{"author": "me", "version": 2}', "{broken, json", "[1"]
)
def test_a_text_of_something_else(stored: str) -> None:
    assert labels_of_text(stored) == []


def test_the_model_file_names_others(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rknnlite"):
        assert labels_for(head(3), None, "cat,dog") == []
    assert "names 2 classes, its head has 3" in caplog.text
