"""NanoDet and PicoDet beside LibreYOLO's head of the same arithmetic (tools/vision/detector_goldens.py); NanoDet-Plus beside a
transcription of what is published."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rknnlite_vision.heads.head import Limits, UnknownHead

from rknnlite.errors import InputInvalid

from . import detector_outputs as made
from .detector_checks import ALL, broken, found, head, is_golden, quantised, same

Array = np.ndarray[Any, Any]
FOUR = (8, 16, 32, 64)


def pairs(rows: bool = False, **options: Any) -> list[Array]:
    """Scores, sides of each stride: maps, or the tables of the first exports."""
    scores, sides = made.gfl(**options)
    both = [array for pair in zip(scores, sides) for array in pair]
    return made.flat(both) if rows else both


def joined(**options: Any) -> list[Array]:
    """Scores before sides in one map of each stride."""
    return [np.concatenate(both, axis=1) for both in zip(*made.gfl(**options))]


def table(**options: Any) -> list[Array]:
    """What later exports give: [1, cells, classes + 32]."""
    return [np.concatenate(made.flat(joined(**options)), axis=1)]


FORMS = {"pairs": pairs(), "tables": pairs(rows=True), "joined": joined(), "table": table()}


@pytest.mark.parametrize("name", FORMS)
def test_boxes_of_nanodet_are_those_of_another_head_with_its_arithmetic(name: str) -> None:
    is_golden(found(FORMS[name], "nanodet"), "nanodet")


@pytest.mark.parametrize("form", [pairs, joined, table])
def test_scores_may_lack_their_sigmoid(form: Any) -> None:
    is_golden(found(form(activated=False), "nanodet-logits"), "nanodet")
    with pytest.raises(InputInvalid, match=r"a score is -.*sigmoid is still to come.*hint logits"):
        found(form(activated=False), "nanodet")


def test_the_order_of_outputs_does_not_matter_but_within_a_stride() -> None:
    scores, sides = made.gfl()
    is_golden(found([*sides, *scores], "nanodet"), "nanodet")
    is_golden(found([*scores[::-1], *sides[::-1]], "nanodet"), "nanodet")


def test_picodets_four_strides() -> None:
    """The picture is no multiple of 64: the last grid is rounded up."""
    for form in (pairs, joined, table):
        is_golden(found(form(strides=FOUR), "picodet"), "picodet")
    is_golden(found(pairs(rows=True, strides=FOUR), "picodet"), "picodet")
    assert head(pairs(rows=True, strides=FOUR), "picodet").family == "PicoDet, 8 outputs, 5 classes"


def test_four_strides_from_the_corner_or_the_middle_need_a_hint() -> None:
    with pytest.raises(UnknownHead, match="NanoDet-Plus or PicoDet, and shapes do not tell which"):
        head(pairs(rows=True, strides=FOUR))


def test_distributions_of_eleven_bins_have_outputs_of_their_own() -> None:
    scores, sides = made.gfl(bins=11)
    ours = found([*scores, *sides], "nanodet")
    boxes = transcribed(scores, sides, (8, 16, 32), 0.5)
    np.testing.assert_allclose(ours.boxes, boxes, rtol=0, atol=0.01)


def transcribed(scores: list[Array], sides: list[Array], strides: tuple[int, ...], offset: float) -> Array:
    """The published arithmetic of NanoDet in float64: boxes that pass, best first."""
    boxes, best = [], []
    for table, bins, stride in zip(scores, sides, strides):
        _, channels, h, w = bins.shape
        weights = np.exp(bins.astype(np.float64)).reshape(4, channels // 4, h, w)
        left, top, right, low = (
            stride * np.einsum("sbhw,b->shw", weights, range(channels // 4)) / weights.sum(1)
        )
        x, y = np.meshgrid((np.arange(w) + offset) * stride, (np.arange(h) + offset) * stride)
        boxes.append(np.stack([x - left, y - top, x + right, y + low], axis=-1).reshape(-1, 4))
        best.append(table[0].max(axis=0).ravel())
    every, score = np.concatenate(boxes), np.concatenate(best)
    rows = np.argsort(-score, kind="stable")
    return every[rows[score[rows] >= ALL.score]]


def test_nanodet_plus_measures_from_the_corner_of_a_cell() -> None:
    scores, sides = made.gfl(strides=FOUR)
    ours = found(table(strides=FOUR), "nanodet-plus")
    same(ours, found(pairs(rows=True, strides=FOUR), "nanodet-plus"))
    np.testing.assert_allclose(ours.boxes, transcribed(scores, sides, FOUR, 0), rtol=0, atol=0.01)
    same(ours, found(table(strides=FOUR), "nanodet"))  # four strides are those of Plus
    three = found(joined(), "nanodet-plus")
    np.testing.assert_allclose(three.boxes, transcribed(*made.gfl(), (8, 16, 32), 0), rtol=0, atol=0.01)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("activated", [True, False])
def test_stored_integers_give_what_their_real_numbers_give(dtype: str, activated: bool) -> None:
    for form in (pairs, joined, table):
        same(*quantised(form(activated=activated), "nanodet" if activated else "nanodet-logits", dtype))


def test_scores_of_as_many_channels_as_another_familys_sides_need_a_hint() -> None:
    outputs = pairs()
    outputs[::2] = [a[:, :4] for a in outputs[::2]]
    with pytest.raises(UnknownHead, match=r"YOLOv6.* or NanoDet, and shapes do not tell which"):
        head(outputs)
    assert head(outputs, "nanodet").classes == 4


def test_every_picture_of_a_batch_is_decoded() -> None:
    for form in (pairs, joined, table):
        both = [np.concatenate(two) for two in zip(form(), form(seed=181))]
        first, second = head(both, "nanodet").decode(both, ALL)
        same(first, found(form(), "nanodet"))
        same(second, found(form(seed=181), "nanodet"))


def test_numbers_that_are_none_take_their_boxes_with_them() -> None:
    for outputs in FORMS.values():
        broken(outputs, "nanodet")


def test_nothing_above_the_threshold_is_nothing_found() -> None:
    for outputs in FORMS.values():
        assert len(found(outputs, "nanodet", Limits(1.0))) == 0
