"""Faces: each published formula, place by place, beside the decoders."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from rknnlite_vision.heads.head import Limits
from rknnlite_vision.heads.recognise import recognise

from rknnlite.tensor import DType, Layout, TensorAttr

IMAGE = [TensorAttr(0, "images", (1, 64, 96, 3), DType.UINT8, Layout.NHWC)]
CELLS = [8 * 12, 4 * 6, 2 * 3]


def zeros(*shapes: tuple[int, ...], hint: str = "") -> tuple[Any, list[Any]]:
    """The head for outputs of such shapes, and the outputs."""
    attrs = [TensorAttr(n, f"o{n}", s, DType.FLOAT32, Layout.UNDEFINED) for n, s in enumerate(shapes)]
    return recognise(IMAGE, attrs, hint), [np.zeros(s, np.float32) for s in shapes]


def test_retinaface_moves_its_priors() -> None:
    n = 2 * sum(CELLS)
    head, (boxes, scores, points) = zeros((1, n, 4), (1, n, 2), (1, n, 10), hint="retinaface-logits")
    assert head.family == "RetinaFace, 3 outputs, faces with 5 points"
    scores[..., 0] = 9
    place = 2 * CELLS[0] + 2 * (6 * 1 + 3) + 1  # stride 16, row 1, column 3, the prior of 128 pixels
    scores[0, place] = 0, 2
    boxes[0, place], points[0, place] = (1, -1, 2, -2), 0.5
    found = head.decode([boxes, scores, points])[0]
    x, y, w, h = 56 + 12.8, 24 - 12.8, 128 * math.exp(0.4), 128 * math.exp(-0.4)
    assert found.boxes[0] == pytest.approx([x - w / 2, y - h / 2, x + w / 2, y + h / 2], abs=1e-4)
    assert found.scores == pytest.approx([1 / (1 + math.exp(-2))], abs=1e-6)
    assert found.keypoints[0, 4, :2] == pytest.approx([56 + 6.4, 24 + 6.4], abs=1e-4)


def test_retinaface_takes_probabilities_as_they_are() -> None:
    n = 2 * sum(CELLS)
    head, (boxes, scores, points) = zeros((1, n, 4), (1, n, 2), (1, n, 10))
    scores[..., 0], scores[0, 5] = 1, (0.25, 0.75)
    assert head.decode([boxes, scores, points])[0].scores.tolist() == [0.75]


@pytest.mark.parametrize("batch", [(1,), ()])
def test_scrfd_measures_from_the_corner_of_a_cell(batch: tuple[int, ...]) -> None:
    head, outputs = zeros(*((*batch, 2 * c, k) for k in (1, 4, 10) for c in CELLS))
    assert head.family == "SCRFD, 9 outputs, faces with 5 points"
    place = 2 * (6 * 2 + 4)  # stride 16, row 2, column 4
    outputs[1][..., place, 0] = 0.5
    outputs[4][..., place, :], outputs[7][..., place, :] = (1, 0.5, 2, 1), 0.25
    found = head.decode(outputs)[0]
    assert found.boxes.tolist() == [[48, 24, 96, 48]]
    assert found.keypoints[0, 0].tolist() == [68, 36, 0.5]


def test_scrfd_without_points() -> None:
    head, outputs = zeros(*((1, 2 * c, k) for k in (1, 4) for c in CELLS))
    found = head.decode(outputs)[0]
    assert head.family == "SCRFD, 6 outputs, faces" and found.keypoints is None and len(found) == 0


def test_yunet_multiplies_class_and_objectness() -> None:
    head, outputs = zeros(*((1, c, k) for k in (1, 1, 4, 10) for c in CELLS))
    assert head.family == "YuNet, 12 outputs, faces with 5 points"
    outputs[2][0, 4], outputs[5][0, 4] = 0.64, 2.0  # stride 32, row 1, column 1; objectness is cut at 1
    outputs[8][0, 4] = 0.5, 0.25, 0, math.log(2)
    found = head.decode(outputs)[0]
    assert found.scores == pytest.approx([0.8], abs=1e-6)
    assert found.boxes[0] == pytest.approx([32, 8, 64, 72], abs=1e-4)


def test_faces_of_numbers_that_are_none_are_left_out() -> None:
    head, outputs = zeros(*((1, 2 * c, k) for k in (1, 4) for c in CELLS))
    outputs[0][0, :3, 0] = 0.9, 0.9, np.nan
    outputs[3][0, 1, 0] = np.nan
    assert len(head.decode(outputs, Limits(overlap=1.0))[0]) == 1
