"""Heat maps: where each is largest, and a quarter towards its larger neighbour."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rknnlite_vision.heads.head import Limits, Task, UnknownHead
from rknnlite_vision.heads.recognise import recognise

from rknnlite.tensor import DType, Layout, TensorAttr

from .yolo_outputs import attributes, quantised

IMAGE = [TensorAttr(0, "image", (1, 256, 192, 3), DType.UINT8, Layout.NHWC)]


def maps() -> Any:
    found = np.zeros((1, 17, 64, 48), np.float32)
    found[0, :, 20, 10] = 0.8
    found[0, :, 20, 11] = 0.4
    found[0, :, 19, 10] = 0.2
    found[0, 1] = 0
    found[0, 1, 63, 0] = 1.0  # in a corner
    return found


def decoded(array: Any, quants: Any = None) -> Any:
    return recognise(IMAGE, attributes([array], quants), "hrnet").decode([array], Limits(0.25))[0]


def test_points_are_in_pixels_of_the_input() -> None:
    found = decoded(maps())
    assert found.boxes.tolist() == [[0, 0, 192, 256]]
    np.testing.assert_allclose(found.keypoints[0, 0], [41, 79, 0.8])
    np.testing.assert_allclose(found.keypoints[0, 1], [0, 252, 1])


def test_integers() -> None:
    (stored,), quants = quantised([maps()])
    np.testing.assert_allclose(decoded(stored, quants).keypoints, decoded(maps()).keypoints, atol=1 / 255)


def test_nan_is_no_point() -> None:
    broken = maps()
    broken[0, 3] = np.nan
    found = decoded(broken)
    assert found.keypoints[0, 3].tolist() == [0, 0, 0] and np.isfinite(found.scores).all()
    assert len(decoded(np.full_like(broken, np.nan))) == 0


def test_17_classes_need_a_hint() -> None:
    with pytest.raises(UnknownHead, match="semantic masks or heat maps"):
        recognise(IMAGE, attributes([maps()]))
    assert recognise(IMAGE, attributes([maps()]), "semantic").task == Task.SEMANTIC
