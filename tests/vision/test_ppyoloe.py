"""PP-YOLOE: the zoo's maps beside LibreYOLO's head (tools/vision/detector_goldens.py), and exports with decoded boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rknnlite_vision.heads.head import Limits, UnknownHead

from rknnlite.tensor import QuantParams

from . import detector_outputs as made
from .detector_checks import ALL, broken, found, head, is_golden, quantised, same
from .yolo_outputs import CELLS, centres, logits, sigmoid

Array = np.ndarray[Any, Any]


def decoded() -> list[Array]:
    """Corners [1, cells, 4] and scores [1, classes, cells]."""
    middle, size = np.split(centres(95, CELLS), 2, axis=1)
    corners = np.concatenate([middle - size / 2, middle + size / 2], axis=1).transpose(0, 2, 1)
    return [np.ascontiguousarray(corners), sigmoid(logits(96))]


def joined() -> list[Array]:
    """Both in a row: [1, cells, 4 + classes]."""
    boxes, scores = decoded()
    return [np.concatenate([boxes, scores.transpose(0, 2, 1)], axis=2)]


@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize("hint", ["", "ppyoloe"])
def test_the_zoos_maps_are_decoded_as_those_of_yolov6(sums: bool, hint: str) -> None:
    is_golden(found(made.ppyoloe(sums=sums), hint), "ppyoloe")


def test_the_family_is_said() -> None:
    assert head(made.ppyoloe()).family == "YOLOv6 form (6, PP-YOLOE), 9 outputs, 5 classes"
    assert head(made.ppyoloe(), "ppyoloe").family == "PP-YOLOE, 9 outputs, 5 classes"
    assert head(decoded()).family == "PP-YOLOE form (also PicoDet), decoded, 2 outputs, 5 classes"


def test_decoded_boxes_are_given_as_they_are() -> None:
    boxes, scores = decoded()
    best = scores[0].max(axis=0)
    rows = np.argsort(-best, kind="stable")
    rows = rows[best[rows] >= ALL.score]
    for ours in (found([boxes, scores]), found([scores, boxes]), found(joined(), "ppyoloe")):
        np.testing.assert_array_equal(ours.boxes, boxes[0, rows])
        np.testing.assert_array_equal(ours.scores, best[rows])
        np.testing.assert_array_equal(ours.classes, scores[0].argmax(axis=0)[rows])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_stored_integers_give_what_their_real_numbers_give(dtype: str) -> None:
    for outputs in (made.ppyoloe(), decoded()):
        same(*quantised(outputs, "ppyoloe", dtype))


def test_half_floats_are_the_same() -> None:
    halves = [a.astype(np.float16) for a in decoded()]
    same(found(halves), found([a.astype(np.float32) for a in halves]))


def test_pixels_and_scores_in_one_coarse_scale_are_refused() -> None:
    with pytest.raises(UnknownHead, match=r"steps of 1: places and scores share"):
        head([joined()[0].astype(np.int8)], "ppyoloe", [QuantParams(1.0, -128)])


def test_numbers_that_are_none_take_their_boxes_with_them() -> None:
    for outputs in (made.ppyoloe(), made.ppyoloe(sums=False), joined()):
        broken(outputs, "ppyoloe")
    boxes, scores = decoded()
    boxes[0, ::2] = np.nan
    assert 0 < len(found([boxes, scores])) < len(found(decoded()))


def test_nothing_above_the_threshold_is_nothing_found() -> None:
    for outputs in (made.ppyoloe(), decoded(), joined()):
        assert len(found(outputs, "ppyoloe", Limits(1.0))) == 0
