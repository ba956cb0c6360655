"""YOLOX beside Megvii's own head on the same outputs (tools/vision/detector_goldens.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rknnlite_vision.heads.head import Limits, UnknownHead
from rknnlite_vision.heads.recognise import recognise

from rknnlite.errors import InputInvalid
from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr

from . import detector_outputs as made
from .detector_checks import ALL, GOLDENS, broken, found, head, is_golden, quantised, same
from .yolo_outputs import IMAGE

Array = np.ndarray[Any, Any]


def table(maps: list[Array]) -> Array:
    """What the official export gives: [1, cells, numbers]."""
    return np.concatenate(made.flat(maps), axis=1)


def decoded(maps: list[Array]) -> Array:
    """Likewise with ``decode_in_inference``: centres and sizes are pixels."""
    rows = table(maps).astype(np.float64)
    grids = [np.stack(np.meshgrid(np.arange(w), np.arange(h)), 2).reshape(-1, 2) for h, w in made.grids()]
    strides = np.concatenate([np.full((len(g), 1), s) for g, s in zip(grids, (8, 16, 32))])
    rows[0, :, :2] = (rows[0, :, :2] + np.concatenate(grids)) * strides
    rows[0, :, 2:4] = np.exp(rows[0, :, 2:4]) * strides
    return rows.astype(np.float32)


HINTS = pytest.mark.parametrize(("activated", "hint"), [(True, "yolox"), (False, "yolox-logits")])


@HINTS
def test_maps_are_decoded_as_megvii_does_with_a_sigmoid_in_the_network_or_without(
    activated: bool, hint: str
) -> None:
    is_golden(found(made.yolox(activated=activated), hint), "yolox")


@HINTS
def test_so_is_the_table_of_the_official_export(activated: bool, hint: str) -> None:
    is_golden(found([table(made.yolox(activated=activated))], hint), "yolox")


@pytest.mark.parametrize("form", [list, lambda maps: [table(maps)]])
def test_a_frame_does_not_decide_whether_a_sigmoid_is_to_come(form: Any) -> None:
    """One with scores above 0.5 alone looks the same before and behind it."""
    seen = head(form(made.yolox(activated=False)), "yolox-logits")
    assert seen.family.endswith(", sigmoid to come")
    high = form([np.abs(m) for m in made.yolox(activated=False)])
    ours = seen.decode(high, ALL)[0]
    assert len(ours) > 20 and ours.scores.max() <= 1
    with pytest.raises(InputInvalid, match=r"a score is -.*must be 0 to 1: its sigmoid.*hint logits"):
        found(form(made.yolox(activated=False)), "yolox")


def test_a_table_in_pixels_is_known_by_its_centres() -> None:
    is_golden(found([decoded(made.yolox())], "yolox"), "yolox")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@HINTS
def test_stored_integers_give_what_their_real_numbers_give(dtype: str, activated: bool, hint: str) -> None:
    maps = made.yolox(activated=activated)
    for outputs in (maps, [table(maps)]):
        same(*quantised(outputs, hint, dtype))


def test_half_floats_and_channels_last_are_the_same() -> None:
    halves = [a.astype(np.float16) for a in made.yolox()]
    same(found(halves, "yolox"), found([a.astype(np.float32) for a in halves], "yolox"))
    last = [np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in made.yolox()]
    attrs = [TensorAttr(n, str(n), a.shape, DType.FLOAT32, Layout.NHWC) for n, a in enumerate(last)]
    (ours,) = recognise(IMAGE, attrs, "yolox").decode(last, ALL)
    is_golden(ours, "yolox")


def test_few_channels_need_no_hint() -> None:
    maps = [m[:, :8] for m in made.yolox()]
    same(found(maps), found(maps, "yolox"))


def test_every_picture_of_a_batch_is_decoded() -> None:
    for form in (list, lambda maps: [table(maps)]):
        one, other = form(made.yolox()), form(made.yolox(171))
        both = [np.concatenate(two) for two in zip(one, other)]
        first, second = head(both, "yolox").decode(both, ALL)
        same(first, found(one, "yolox"))
        same(second, found(other, "yolox"))


def test_numbers_that_are_none_take_their_boxes_with_them() -> None:
    for outputs in (made.yolox(), [table(made.yolox())]):
        broken(outputs, "yolox")
    broken(made.yolox(activated=False), "yolox-logits")


def test_a_frame_of_nothing_but_nan_is_nothing_found() -> None:
    assert len(found([np.full_like(table(made.yolox()), np.nan)], "yolox")) == 0


def test_pixels_and_scores_in_one_coarse_scale_are_refused() -> None:
    coarse = [TensorAttr(0, "output", (1, 420, 10), DType.INT8, Layout.UNDEFINED, QuantParams(1.0, -128))]
    with pytest.raises(UnknownHead, match=r"steps of 1: places and scores share"):
        recognise(IMAGE, coarse, "yolox")


def test_nothing_above_the_threshold_is_nothing_found() -> None:
    assert len(found(made.yolox(), "yolox", Limits(1.0))) == 0


def test_boxes_that_overlap_are_suppressed() -> None:
    assert 0 < len(found(made.yolox(), "yolox", Limits())) < len(GOLDENS["yolox"])
