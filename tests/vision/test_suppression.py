"""Which boxes stay, beside torchvision and ultralytics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rknnlite_vision.heads import suppression
from rknnlite_vision.heads.head import Limits
from rknnlite_vision.heads.suppression import best_rotated, nms, rotated_overlaps, upright

from .yolo_outputs import centres, normal

GOLDENS = np.load(Path(__file__).parent / "data" / "yolo.npz")


@pytest.mark.parametrize("pairs", [0, suppression._PAIRS, 10**7])
@pytest.mark.parametrize("count", [40, 900])
def test_rows_and_their_order_are_torchvisions(
    count: int, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suppression, "_PAIRS", pairs)
    boxes = centres(61, count)[0].T.copy()
    boxes[:, 2:] += boxes[:, :2]
    boxes[: count // 10, 2:] = boxes[: count // 10, :2]
    scores = (np.random.default_rng(62).integers(1, 20, count) / 20).astype(np.float32)
    assert nms(boxes, scores, 0.3).tolist() == GOLDENS[f"nms {count}"].tolist()


@pytest.mark.parametrize("pairs", [0, suppression._PAIRS])
def test_boxes_of_other_classes_suppress_nothing(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suppression, "_PAIRS", pairs)
    boxes = np.repeat([[0, 0, 10, 10]], 6, axis=0).astype(np.float32)
    scores = np.array([0.5, 0.9, 0.7, 0.9, 0.1, 0.6], np.float32)
    assert nms(boxes, scores, 0.5, np.array([1, 2, 1, 2, 3, 1])).tolist() == [1, 2, 4]
    assert nms(boxes, scores, 0.5, np.array([1, 2, 1, 2, 3, 1]), most=2).tolist() == [1, 2]


def test_no_boxes_are_no_rows() -> None:
    nothing = np.zeros((0, 4), np.float32)
    assert nms(nothing, np.zeros(0, np.float32), 0.5).tolist() == []
    assert len(best_rotated(np.zeros((0, 5), np.float32), np.zeros(0), np.zeros(0), Limits())) == 0


def test_turned_boxes_overlap_as_ultralytics_says() -> None:
    turned = np.concatenate([centres(63, 30)[0].T, normal(64, 30, 1)], axis=1)
    np.testing.assert_allclose(rotated_overlaps(turned, turned), GOLDENS["probiou"], rtol=0, atol=1e-4)


def test_an_upright_box_lies_around_the_turned_one() -> None:
    turned = np.array([[50, 40, 20, 10, 0], [50, 40, 20, 10, np.pi / 2]])
    np.testing.assert_allclose(upright(turned), [[40, 35, 60, 45], [45, 30, 55, 50]], atol=1e-9)
