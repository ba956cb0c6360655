"""YOLO's decoders beside what ultralytics, YOLOv5 and torchvision make of the same outputs (tools/vision/yolo_goldens.py,
yolov5_goldens.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision.heads.head import Head, Limits, Task
from rknnlite_vision.heads.recognise import recognise
from rknnlite_vision.results import Detections

from rknnlite.errors import InputInvalid
from tests.support.needs import needs

from . import yolo_outputs as made

Array = np.ndarray[Any, Any]
GOLDENS: dict[str, Array] = {}
for _name in ("yolo", "yolov5"):
    GOLDENS.update(np.load(Path(__file__).parent / "data" / f"{_name}.npz"))
LIMITS = Limits(score=0.25, overlap=0.45, most=300)
ANGLE = (made.angles() - np.float32(0.25)) * np.float32(np.pi)
WEIGHTS = made.normal(3, 1, made.PROTOTYPES, made.CELLS)
HEADS: dict[str, tuple[list[Array], str]] = {
    "separate": (made.separate(), ""),
    "plain sides": (made.separate(11, 1), ""),
    "never suppressed": (made.separate(sums=False), "yolov10"),
    "masked": (made.masked(), ""),
    "pose": ([*made.joined(21, 1), made.points()], ""),
    "rotated": ([*made.joined(), made.angles()], ""),
    "table": ([made.table(31)], ""),
    "table masked": ([made.table(31, more=WEIGHTS), made.prototypes()], ""),
    "table pose": ([made.table(41, 1, made.points().reshape(1, -1, made.CELLS))], "yolov8-pose"),
    "table rotated": ([made.table(31, more=ANGLE)], "yolov8-obb"),
    "rows": ([made.rows()], "yolov10"),
    "yolov5": (made.anchored(), "yolov5"),
    "yolov7": (made.anchored(), "yolov7"),
    "objectness 3": ([made.with_objectness(51, 3)], ""),
    "objectness masked": ([made.with_objectness(51, 3, made.table_weights()), made.prototypes()], ""),
    "rows masked": ([GOLDENS["rows masked output"], made.prototypes()], "yolo26-seg"),
    "rows pose": ([GOLDENS["rows pose output"]], "yolo26-pose"),
    "rows rotated": ([GOLDENS["rows rotated output"]], "yolo26-obb"),
    "yolov5 masked": (
        [*(m for both in zip(made.anchored(), made.anchored_weights()) for m in both), made.prototypes()],
        "yolov5-seg",
    ),
    "objectness 1": ([made.with_objectness(51, 1)], "yolov6"),
}
"""Golden -> outputs, and the hint where shapes do not tell."""


def head(outputs: list[Array], hint: str = "", quants: Any = None, **options: Any) -> Head:
    """What is recognised."""
    return recognise(made.images(len(outputs[0])), made.attributes(outputs, quants), hint, **options)


def found(outputs: list[Array], hint: str = "", limits: Limits = LIMITS, **options: Any) -> Detections:
    """What is found in the one picture."""
    (result,) = head(outputs, hint, **options).decode(outputs, limits)
    assert isinstance(result, Detections)
    return result


def same(ours: Detections, theirs: Detections) -> None:
    """Nothing differs but the last bits of floats."""
    np.testing.assert_array_equal(ours.classes, theirs.classes)
    np.testing.assert_allclose(ours.boxes, theirs.boxes, rtol=0, atol=1e-3)
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", HEADS)
def test_boxes_scores_and_classes_are_ultralytics_and_torchvisions(name: str) -> None:
    golden, ours = GOLDENS[name], found(*HEADS[name])
    assert len(ours) == len(golden)
    if ours.rotated is None:
        np.testing.assert_allclose(ours.boxes, golden[:, :4], rtol=0, atol=0.01)
    else:
        np.testing.assert_allclose(ours.rotated, golden[:, [0, 1, 2, 3, 6]], rtol=0, atol=0.01)
    np.testing.assert_allclose(ours.scores, golden[:, 4], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(ours.classes, golden[:, 5])


@pytest.mark.parametrize("name", ["pose", "table pose", "rows pose"])
def test_keypoints_are_ultralytics(name: str) -> None:
    ours = found(*HEADS[name]).keypoints
    assert ours is not None
    np.testing.assert_allclose(ours.reshape(len(ours), -1), GOLDENS[name][:, 6:], rtol=0, atol=0.01)


@pytest.mark.parametrize(
    "name", ["masked", "table masked", "rows masked", "yolov5 masked", "objectness masked"]
)
def test_masks_are_ultralytics_but_pixels_that_rounding_decides(name: str) -> None:
    ours = found(*HEADS[name]).masks
    assert ours is not None
    theirs = np.unpackbits(GOLDENS[name.replace("masked", "masks")]).reshape(-1, *ours.shape[1:])
    assert (ours[: len(theirs)] != theirs).sum() <= theirs.size * 1e-5
    assert theirs.any()


def test_a_head_tells_what_it_is() -> None:
    seen = head(made.masked())
    assert seen.family == "YOLOv8 form (8, 11), 13 outputs, 5 classes, masks of 32 prototypes"
    assert (seen.task, seen.classes, seen.size) == (Task.INSTANCE, 5, made.SIZE)
    assert head(*HEADS["pose"]).task == Task.POSE
    assert head(*HEADS["rotated"]).task == Task.ROTATED


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize(
    "name",
    ["separate", "plain sides", "never suppressed", "masked", "pose", "rotated", "yolov5", "yolov5 masked"],
)
def test_stored_integers_give_what_their_real_numbers_give(name: str, dtype: str) -> None:
    outputs, hint = HEADS[name]
    stored, quants = made.quantised(outputs, dtype)
    real = [(a.astype(np.float32) - q.zero_point) * np.float32(q.scale) for a, q in zip(stored, quants)]
    seen = head(stored, hint, quants)
    ours, theirs = (seen.decode(arrays, LIMITS)[0] for arrays in (stored, real))
    assert isinstance(ours, Detections) and isinstance(theirs, Detections) and len(ours) > 3
    same(ours, theirs)


@pytest.mark.parametrize(
    "limits", [LIMITS, Limits(0.01, 0.3, 20), Limits(0.9), Limits(1.0, most=0), Limits(0.3, across=True)]
)
def test_the_library_gives_what_numpy_gives(limits: Limits) -> None:
    needs("gcc")
    for dtype in ("int8", "uint8"):
        for outputs in (made.separate(), made.separate(sums=False), made.separate(11, 1), made.masked()):
            stored, quants = made.quantised(outputs, dtype)
            seen: Any = head(stored, quants=quants)
            assert seen.compiled.best(stored, LIMITS) is not None
            compiled = seen.decode(stored, limits)[0]
            seen.compiled = None
            same(compiled, seen.decode(stored, limits)[0])


def test_half_floats_and_channels_last_are_the_same() -> None:
    outputs = [a.astype(np.float16) for a in made.separate()]
    wide = found([a.astype(np.float32) for a in outputs])
    same(found(outputs), wide)
    last = [np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in made.separate()]
    attrs = [a.__class__(a.index, a.name, a.dims, a.dtype, a.layout.NHWC) for a in made.attributes(last)]
    (ours,) = recognise(made.IMAGE, attrs).decode(last, LIMITS)
    assert isinstance(ours, Detections)
    same(ours, found(made.separate()))


def test_the_order_of_the_outputs_does_not_matter() -> None:
    outputs = made.masked()
    same(found([outputs[n] for n in (12, 9, 8, 10, 11, 1, 0, 2, 3, 5, 4, 6, 7)]), found(outputs))


def test_every_picture_of_a_batch_is_decoded() -> None:
    one, other = made.separate(), made.separate(5)
    both = [np.concatenate(pair) for pair in zip(one, other)]
    first, second = head(both).decode(both, LIMITS)
    assert isinstance(first, Detections) and isinstance(second, Detections)
    same(first, found(one))
    same(second, found(other))


def times(name: str, table: Array, factor: tuple[float, float]) -> Array:
    """A table whose places are multiplied: boxes, and x and y of keypoints."""
    moved = table.copy()
    moved[:, :4] *= np.array(factor * 2, np.float32)[:, None]
    if "pose" in name:
        moved[:, 5::3] *= np.float32(factor[0])
        moved[:, 6::3] *= np.float32(factor[1])
    return moved


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("name", ["table", "table masked", "table pose", "table rotated"])
def test_integers_of_a_table_that_cannot_be_pixels_are_shares_of_the_picture(name: str, dtype: str) -> None:
    """As ultralytics divides places where it exports for RKNN in 8 bits, and multiplies them again behind the network."""
    (table, *others), hint = HEADS[name]
    shares = times(name, table, (1 / made.SIZE[0], 1 / made.SIZE[1]))
    stored, quants = made.quantised([shares, *others], dtype)
    real = [(a.astype(np.float32) - q.zero_point) * np.float32(q.scale) for a, q in zip(stored, quants)]
    seen = head(stored, hint, quants)
    assert ", shares of the picture" in seen.family
    (ours,), pixels = seen.decode(stored, LIMITS), found([times(name, real[0], made.SIZE), *real[1:]], hint)
    assert isinstance(ours, Detections) and len(ours) > 3
    same(ours, pixels)
    for column in ("rotated", "keypoints"):
        one, other = getattr(ours, column), getattr(pixels, column)
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-3)


def without_sigmoid(name: str) -> list[Array]:
    """Outputs of a family whose scores are still to be made."""
    if name == "yolov8":
        outputs = made.separate(sums=False)
        outputs[1::2] = made.split(made.logits(2))
        return outputs
    if name == "yolov5":
        return made.anchored(activated=False)
    (table,) = HEADS[name][0]
    part = slice(4, None) if name == "table" else (Ellipsis, slice(4, None))
    raw = table.copy()
    raw[0][part] = np.log(raw[0][part]) - np.log1p(-raw[0][part])
    return [raw]


LACKING = {
    "yolov8": (made.separate(sums=False), "yolov8"),
    "yolov5": HEADS["yolov5"],
    "table": ([made.table(31)], "yolov8"),
    "objectness 3": (HEADS["objectness 3"][0], "yolov5"),
}


@pytest.mark.parametrize("name", LACKING)
def test_scores_before_the_sigmoid_are_told_by_hint_or_name_and_else_refused(name: str) -> None:
    outputs, hint = LACKING[name]
    raw = without_sigmoid(name)
    seen = head(raw, f"{hint}-logits")
    assert seen.family.endswith(", sigmoid to come")
    (ours,) = seen.decode(raw, LIMITS)
    assert isinstance(ours, Detections) and len(ours) > 3
    same(ours, found(outputs, hint))
    with pytest.raises(
        InputInvalid, match=r"a score is -.*must be 0 to 1: its sigmoid is still to come.*yolov8-logits"
    ):
        found(raw, hint)


@pytest.mark.parametrize("name", ["yolov8", "yolov5"])
def test_integers_tell_by_what_they_can_mean_that_a_sigmoid_is_to_come(name: str) -> None:
    stored, quants = made.quantised(without_sigmoid(name))
    assert head(stored, name, quants).family.endswith(", sigmoid to come")
    stored, quants = made.quantised(LACKING[name][0])
    assert not head(stored, name, quants).family.endswith(", sigmoid to come")


def test_given_anchors_are_used_and_make_a_hint_needless() -> None:
    twice = np.array(
        [
            [[20, 26], [32, 60], [66, 46]],
            [[60, 122], [124, 90], [118, 238]],
            [[232, 180], [312, 396], [746, 652]],
        ]
    )
    ours, own = (
        found(made.anchored(), anchors=twice, limits=Limits(0.25, 1.0)),
        found(made.anchored(), "yolov5", Limits(0.25, 1.0)),
    )
    np.testing.assert_allclose(
        ours.boxes[:, 2:] - ours.boxes[:, :2], 2 * (own.boxes[:, 2:] - own.boxes[:, :2]), atol=1e-3
    )


def test_numbers_that_are_none_take_their_boxes_with_them() -> None:
    for name, (outputs, hint) in HEADS.items():
        whole = found(outputs, hint, Limits(0.25, 1.0))
        for fill in (np.nan, np.inf):
            broken = [a.copy() for a in outputs]
            for a in broken[:-1] or broken:
                a[..., : a.shape[-1] // 2 or 1] = fill
            some = found(broken, hint, Limits(0.25, 1.0))
            assert np.isfinite(some.boxes).all() and np.isfinite(some.scores).all(), name
            assert len(some) <= max(len(whole), 300)


def test_outputs_of_another_family_are_refused_by_their_scores() -> None:
    pose = made.table(41, 1, made.points().reshape(1, -1, made.CELLS))
    with pytest.raises(InputInvalid, match=r"a score is .* must be 0 to 1.*hint"):
        found([pose], "yolov8")


def test_nothing_above_the_threshold_is_nothing_found() -> None:
    for outputs, hint in HEADS.values():
        assert len(found(outputs, hint, Limits(1.0))) == 0


def test_rows_of_shares_are_not_taken_for_pixels() -> None:
    """RT-DETR's rows have YOLOv10's shape; their boxes would all be smaller than a pixel."""
    rows = np.zeros((1, 300, 6), np.float32)
    rows[0, :2] = [[0.5, 0.5, 0.2, 0.3, 0.9, 1], [0.1, 0.2, 0.1, 0.1, 0.8, 0]]
    with pytest.raises(
        InputInvalid, match=r"all 2 boxes lie within 0\.5 pixels of the corner; these are shares"
    ):
        found([rows], "yolov10")
    assert len(found([rows * np.array([99, 99, 99, 99, 1, 1], np.float32)], "yolov10")) == 2
