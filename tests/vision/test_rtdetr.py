"""RT-DETR: one table, or boxes and scores before the sigmoid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rknnlite_vision.heads.head import Limits
from rknnlite_vision.heads.recognise import recognise
from rknnlite_vision.heads.stored import sigmoid

from . import yolo_outputs as made

BOXES = np.random.default_rng(1).random((1, 300, 4)).astype(np.float32)
LOGITS = made.normal(2, 1, 300, 5, scale=2, middle=-3)
LIMITS = Limits(0.25)


def decoded(outputs: list[Any], hint: str = "", quants: Any = None) -> Any:
    return recognise(made.IMAGE, made.attributes(outputs, quants), hint).decode(outputs, LIMITS)[0]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_outputs_tell_every_class_that_passes(order: tuple[int, int]) -> None:
    found = decoded([[BOXES, LOGITS][n] for n in order])
    scores = sigmoid(LOGITS[0])
    rows, classes = np.nonzero(scores >= 0.25)
    best = np.argsort(-scores[rows, classes], kind="stable")
    assert len(found) == len(best) > 20
    np.testing.assert_allclose(found.scores, scores[rows, classes][best], atol=1e-6)
    np.testing.assert_array_equal(found.classes, classes[best])
    middle, size = BOXES[0, rows[best], :2], BOXES[0, rows[best], 2:]
    wanted = np.concatenate([middle - size / 2, middle + size / 2], axis=1) * (*made.SIZE, *made.SIZE)
    np.testing.assert_allclose(found.boxes, wanted, atol=0.01)


def test_a_table_tells_the_best_class_of_a_row() -> None:
    scores = sigmoid(LOGITS)
    found = decoded([np.concatenate([BOXES, scores], axis=2)], "rtdetr")  # so many rows has YOLOv5 here, too
    assert len(found) == (scores.max(axis=2) >= 0.25).sum()
    hinted = decoded([np.concatenate([BOXES, LOGITS], axis=2)], "rtdetr-logits")
    np.testing.assert_allclose(found.boxes, hinted.boxes)


@pytest.mark.parametrize("outputs", [[BOXES, LOGITS], [np.concatenate([BOXES, sigmoid(LOGITS)], axis=2)]])
def test_integers_give_what_their_real_numbers_give(outputs: list[Any]) -> None:
    stored, quants = made.quantised(outputs)
    real = [(a.astype(np.float32) - q.zero_point) * np.float32(q.scale) for a, q in zip(stored, quants)]
    ours, theirs = decoded(stored, "rtdetr", quants), decoded(real, "rtdetr")
    assert len(ours) == len(theirs) > 20
    np.testing.assert_allclose(ours.boxes, theirs.boxes, atol=1e-3)
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-6)


def test_numbers_that_are_none_take_their_rows_with_them() -> None:
    boxes, logits = BOXES.copy(), LOGITS.copy()
    boxes[:, :100] = np.nan
    logits[:, 100:200] = np.nan
    found = decoded([boxes, logits])
    assert 0 < len(found) < len(decoded([BOXES, LOGITS])) and np.isfinite(found.boxes).all()
