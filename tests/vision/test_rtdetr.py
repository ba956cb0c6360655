"""RT-DETR beside ultralytics and transformers on the same outputs (tools/vision/rtdetr_goldens.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision.heads.head import Limits, UnknownHead
from rknnlite_vision.heads.recognise import recognise
from rknnlite_vision.heads.stored import sigmoid

from rknnlite.errors import InputInvalid
from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr

from . import yolo_outputs as made
from .rtdetr_outputs import BOXES, LOGITS, SCORE

GOLDENS = np.load(Path(__file__).parent / "data" / "rtdetr.npz")
LIMITS = Limits(SCORE)
TABLE = np.concatenate([BOXES, sigmoid(LOGITS)], axis=2)
ROWS = GOLDENS["rows output"]


def decoded(outputs: list[Any], hint: str = "", quants: Any = None, name: str = "") -> Any:
    head = recognise(made.IMAGE, made.attributes(outputs, quants), hint, name=name)
    return head.decode(outputs, LIMITS)[0]


def is_golden(found: Any, name: str) -> None:
    golden = GOLDENS[name]
    golden = golden[np.argsort(-golden[:, 4], kind="stable")]
    assert len(found) == len(golden) > 100
    np.testing.assert_allclose(found.boxes, golden[:, :4], rtol=0, atol=0.01)
    np.testing.assert_allclose(found.scores, golden[:, 4], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(found.classes, golden[:, 5])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_outputs_tell_every_class_that_passes_as_transformers_does(order: tuple[int, int]) -> None:
    is_golden(decoded([[BOXES, LOGITS][n] for n in order]), "two outputs")


def test_a_table_tells_the_best_class_of_a_row_as_older_ultralytics_does() -> None:
    is_golden(decoded([TABLE], "rtdetr"), "table")  # so many rows has YOLOv5 here, too
    is_golden(decoded([np.concatenate([BOXES, LOGITS], axis=2)], "rtdetr-logits"), "table")


def test_rows_are_those_of_newer_ultralytics() -> None:
    is_golden(decoded([ROWS], "rtdetr"), "rows")
    is_golden(decoded([ROWS], name="rtdetr-l_for_RK3588.rknn"), "rows")
    is_golden(decoded([ROWS], "rtdetr"), "two outputs")  # transformers chooses as the newer export does


def test_rows_that_are_taken_for_yolov10s_are_refused_with_the_hint() -> None:
    with pytest.raises(InputInvalid, match=r"shares of the picture and no pixels.*hint rtdetr"):
        decoded([ROWS], "yolov10")


def test_rows_of_yolo_are_refused_with_theirs() -> None:
    with pytest.raises(
        InputInvalid, match=r"a box has .* must be shares of the picture.*hint yolov10 or yolo26"
    ):
        decoded([made.rows()], "rtdetr")


def test_a_table_of_two_classes_has_the_shape_of_rows_and_hints_of_its_own() -> None:
    two = TABLE[:, :, :6]
    with pytest.raises(InputInvalid, match=r"a class is 0\..*must be a whole number.*rtdetr-probabilities"):
        decoded([two], "rtdetr")
    found = decoded([two], "rtdetr-probabilities")
    assert len(found) == (two[0, :, 4:].max(axis=1) >= SCORE).sum() > 20


@pytest.mark.parametrize("classes", [3, 53])
def test_a_hint_tells_tables_from_yolo26s_rows(classes: int) -> None:
    table = np.zeros((1, 300, 4 + classes), np.float32)
    table[0, 0, :4], table[0, 0, 6] = 0.5, 0.9
    assert decoded([table], "rtdetr").classes.tolist() == [2]


@pytest.mark.parametrize("hint", ["rtdetr", "yolov10"])
@pytest.mark.parametrize("number", [-1.0, 0.5, 1e30])
def test_what_is_no_class_is_refused(hint: str, number: float) -> None:
    rows = np.zeros((1, 300, 6), np.float32)
    rows[0, 7] = [0.1, 0.1, 0.1 if hint == "rtdetr" else 50, 0.1, 0.9, number]
    with pytest.raises(InputInvalid, match=r"a class is .*, must be a whole number from 0 on"):
        decoded([rows], hint)


def test_inputs_that_take_no_picture_are_passed_over() -> None:
    """PaddleDetection's networks want the picture's shape and scale besides."""
    more = [
        TensorAttr(n, name, (1, 2), DType.FLOAT32, Layout.UNDEFINED)
        for n, name in enumerate(("im_shape", "scale_factor"))
    ]
    head = recognise([more[0], *made.IMAGE, more[1]], made.attributes([BOXES, LOGITS]))
    is_golden(head.decode([BOXES, LOGITS], LIMITS)[0], "two outputs")


def test_rows_of_no_thing_are_nothing_found() -> None:
    assert len(decoded([np.zeros((1, 300, 6), np.float32)], "rtdetr")) == 0


def test_integers_too_coarse_for_shares_are_refused() -> None:
    rows = [TensorAttr(0, "rows", (1, 300, 6), DType.INT8, Layout.UNDEFINED, QuantParams(79 / 255, -128))]
    with pytest.raises(UnknownHead, match=r"steps of 0\.31: places and scores share them"):
        recognise(made.IMAGE, rows, "rtdetr")


@pytest.mark.parametrize(
    ("outputs", "hint", "dtype"),
    [([BOXES, LOGITS], "", "int8"), ([TABLE], "rtdetr", "uint8"), ([ROWS], "rtdetr", "int16")],
)
def test_integers_give_what_their_real_numbers_give(outputs: list[Any], hint: str, dtype: str) -> None:
    stored, quants = made.quantised(outputs, dtype)
    real = [(a.astype(np.float32) - q.zero_point) * np.float32(q.scale) for a, q in zip(stored, quants)]
    ours, theirs = decoded(stored, hint, quants), decoded(real, hint)
    assert len(ours) == len(theirs) > 20
    np.testing.assert_allclose(ours.boxes, theirs.boxes, atol=1e-3)
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-6)
    np.testing.assert_array_equal(ours.classes, theirs.classes)


def test_numbers_that_are_none_take_their_rows_with_them() -> None:
    boxes, logits, rows = BOXES.copy(), LOGITS.copy(), ROWS.copy()
    boxes[:, :100] = np.nan
    logits[:, 100:200] = np.nan
    rows[:, :100, 1] = np.inf
    for broken, whole, hint in (([boxes, logits], [BOXES, LOGITS], ""), ([rows], [ROWS], "rtdetr")):
        found = decoded(broken, hint)
        assert 0 < len(found) < len(decoded(whole, hint)) and np.isfinite(found.boxes).all()
