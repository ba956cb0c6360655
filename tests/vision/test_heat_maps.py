"""Heat maps and axes of keypoints, beside mmpose and rtmlib on the same outputs (tools/vision/heat_map_goldens.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision.heads.head import Limits, Task, UnknownHead
from rknnlite_vision.heads.recognise import recognise

from rknnlite.tensor import DType, Layout, TensorAttr

from . import heat_map_outputs as made
from .yolo_outputs import attributes, quantised

GOLDENS = np.load(Path(__file__).parent / "data" / "heat_maps.npz")
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


def axes_of(outputs: list[Any], quants: Any = None, hint: str = "", size: tuple[int, int] = made.SIZE) -> Any:
    image = [TensorAttr(0, "image", (1, size[1], size[0], 3), DType.UINT8, Layout.NHWC)]
    head = recognise(image, attributes(outputs, quants), hint)
    assert head.family == f"SimCC, {outputs[0].shape[1]} keypoints of one person" and head.task == Task.POSE
    return head.decode(outputs, Limits(0))[0]


def test_heat_maps_are_decoded_as_mmpose_does() -> None:
    np.testing.assert_allclose(decoded(made.MAPS).keypoints[0], GOLDENS["maps"], rtol=0, atol=1e-5)


def test_axes_are_decoded_as_rtmlib_does() -> None:
    np.testing.assert_allclose(axes_of(made.AXES).keypoints[0], GOLDENS["axes"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(axes_of(made.AXES[::-1]).keypoints[0], GOLDENS["axes"], rtol=0, atol=1e-5)


def test_axes_as_old_runtimes_tell_them_have_a_last_dimension_of_1() -> None:
    ours = axes_of([a[..., None] for a in made.AXES], hint="rtmpose")
    np.testing.assert_allclose(ours.keypoints[0], GOLDENS["axes"], rtol=0, atol=1e-5)


def test_of_a_square_picture_the_first_axis_goes_across_unless_names_say_other() -> None:
    across, down = np.zeros((2, 1, 21, 512), np.float32)
    across[..., 100], down[..., 300] = 1, 1
    assert axes_of([across, down], size=(256, 256)).keypoints[0, 20].tolist() == [50, 150, 1]
    image = [TensorAttr(0, "image", (1, 256, 256, 3), DType.UINT8, Layout.NHWC)]
    attrs = [
        TensorAttr(n, f"simcc_{axis}", (1, 21, 512), DType.FLOAT32, Layout.UNDEFINED)
        for n, axis in enumerate("yx")
    ]
    assert recognise(image, attrs).decode([down, across])[0].keypoints[0, 20].tolist() == [50, 150, 1]


def test_integers_and_broken_numbers_of_axes() -> None:
    stored, quants = quantised(made.AXES)
    real = [(a.astype(np.float32) - q.zero_point) * np.float32(q.scale) for a, q in zip(stored, quants)]
    np.testing.assert_allclose(axes_of(stored, quants).keypoints, axes_of(real).keypoints, rtol=0, atol=1e-6)
    broken = [a.copy() for a in made.AXES]
    broken[0][0, 3] = np.nan
    broken[1][0, 4, 7] = np.inf
    found = axes_of(broken)
    assert found.keypoints[0, 3].tolist() == [0, 0, 0] and np.isfinite(found.keypoints).all()
    np.testing.assert_allclose(found.keypoints[0, 5:], GOLDENS["axes"][5:], atol=1e-5)


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
