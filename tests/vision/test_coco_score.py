"""The numbers of COCO: those of pycocotools to the last digit, on datasets made up of ties, crowds and empty pictures."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest
from rknnlite_vision.evaluation.coco_score import BOXES, KEYPOINTS, MASKS, CocoScore
from rknnlite_vision.evaluation.truth import Things, Truth
from rknnlite_vision.results import Detections


def made_up(seed: int, points: int = 0) -> tuple[Truth, list[Detections]]:
    """Things and what somebody found: near them, beside them, twice; scores in tenths, so that many are equal."""
    rng = np.random.default_rng(seed)
    kinds, pictures = int(rng.integers(1, 5)), int(rng.integers(1, 9))
    things, found = [], []
    for _ in range(pictures):
        count = int(rng.integers(0, 9))
        boxes = np.round(rng.uniform(0, 200, (count, 4)) * rng.choice([0.2, 1, 2], (count, 1)), 1)
        crowd = rng.random(count) < 0.2
        kind = rng.integers(0, kinds, count)
        keypoints = None
        if points:
            keypoints = np.zeros((count, points, 3))
            keypoints[..., :2] = (
                boxes[:, None, :2] + rng.uniform(0, 1, (count, points, 2)) * boxes[:, None, 2:]
            )
            keypoints[..., 2] = rng.integers(0, 3, (count, points)) * (rng.random((count, 1)) > 0.2)
        areas = boxes[:, 2] * boxes[:, 3] * rng.uniform(0.5, 1, count)
        things.append(Things.of(kind, boxes, areas, crowd, keypoints))
        again = rng.integers(0, count, int(rng.integers(0, 3 * count))) if count else np.zeros(0, int)
        near = boxes[again] * rng.choice([1, 1, 1.05, 1.2, 0.7], (len(again), 4))
        strange = rng.uniform(0, 300, (int(rng.integers(0 if found else 1, 4)), 4))
        rects = np.concatenate([near, strange])
        corners = np.concatenate([rects[:, :2], rects[:, :2] + rects[:, 2:]], axis=1)
        guesses = np.concatenate([kind[again], rng.integers(0, kinds, len(strange))])
        spots = None
        if points:
            spots = np.ones((len(rects), points, 3))
            spots[: len(again), :, :2] = keypoints[again, :, :2]
            spots[len(again) :, :, :2] = rng.uniform(0, 300, (len(strange), points, 2))
            spots[..., :2] += rng.normal(0, rng.choice([1, 6, 30]), (len(rects), points, 2))
        found.append(Detections(corners, rng.integers(1, 11, len(rects)) / 10, guesses, spots))
    names = [f"kind {n}" for n in range(kinds)]
    return Truth(names, list(range(1, kinds + 1)), [Path(f"{n}.jpg") for n in range(pictures)], things), found


def ours(truth: Truth, found: list[Detections], protocol=BOXES):
    score = CocoScore(truth, protocol)
    for picture in np.random.default_rng(0).permutation(len(found)):  # any order
        score.add(int(picture), found[picture])
    return score.result()


def theirs(truth: Truth, found: list[Detections], kind: str = "bbox") -> tuple[list[float], np.ndarray]:
    """``stats`` and ``precision`` of pycocotools."""
    coco_module = pytest.importorskip("pycocotools.coco")
    cocoeval = pytest.importorskip("pycocotools.cocoeval")
    annotations = []
    for picture, things in enumerate(truth.things):
        for n in range(len(things.kinds)):
            row = {
                "id": len(annotations) + 1,
                "image_id": picture + 1,
                "category_id": int(things.kinds[n]) + 1,
                "bbox": things.boxes[n].tolist(),
                "area": float(things.areas[n]),
                "iscrowd": int(things.crowd[n]),
            }
            if things.outlines:
                row["segmentation"] = things.outlines[n]
            if things.keypoints is not None:
                row["keypoints"] = things.keypoints[n].ravel().tolist()
                row["num_keypoints"] = int((things.keypoints[n, :, 2] > 0).sum())
            annotations.append(row)
    results = []
    for picture, one in enumerate(found):
        boxes = one.boxes.astype(float)
        for n in range(len(one)):
            row = {
                "image_id": picture + 1,
                "category_id": int(one.classes[n]) + 1,
                "score": float(one.scores[n]),
            }
            if kind == "keypoints":
                row["keypoints"] = one.keypoints[n].astype(float).ravel().tolist()
            elif kind == "segm":
                pixels = np.asfortranarray(one.masks[n].astype(np.uint8))
                row["segmentation"] = pytest.importorskip("pycocotools.mask").encode(pixels)
            else:
                row["bbox"] = [*boxes[n, :2], *(boxes[n, 2:] - boxes[n, :2])]
            results.append(row)
    with contextlib.redirect_stdout(io.StringIO()):
        coco = coco_module.COCO()
        coco.dataset = {
            "info": {},
            "images": [{"id": n + 1, "height": 90, "width": 120} for n in range(len(found))],
            "categories": [{"id": n} for n in truth.ids],
            "annotations": annotations,
        }
        coco.createIndex()
        evaluation = cocoeval.COCOeval(coco, coco.loadRes(results), kind)
        if kind == "keypoints":
            sigmas = truth.things[0].keypoints.shape[1]
            if sigmas != 17:
                evaluation.params.kpt_oks_sigmas = np.full(sigmas, 1 / sigmas)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation.stats.tolist(), evaluation.eval["precision"]


@pytest.mark.parametrize("seed", range(60))
def test_boxes_get_the_numbers_of_pycocotools(seed):
    truth, found = made_up(seed)
    stats, precision = theirs(truth, found)
    result = ours(truth, found)
    assert list(result.numbers.values()) == stats
    for kind in range(len(truth.names)):
        whole = precision[:, :, kind, 0, 2]
        assert result.ap[kind] == (whole[whole > -1].mean() if (whole > -1).any() else -1)


@pytest.mark.parametrize("points", [17, 5])
@pytest.mark.parametrize("seed", range(20))
def test_keypoints_get_the_numbers_of_pycocotools(seed, points):
    truth, found = made_up(seed, points)
    assert list(ours(truth, found, KEYPOINTS).numbers.values()) == theirs(truth, found, "keypoints")[0]


@pytest.mark.parametrize("seed", range(25))
def test_masks_get_the_numbers_of_pycocotools(seed):
    """Polygons and runs, drawn in pictures of 120 x 90; what is found are discs and boxes."""
    mask = pytest.importorskip("pycocotools.mask")
    rng = np.random.default_rng(seed)
    truth, found = made_up(seed)
    y, x = np.mgrid[:90, :120]
    for n, (things, one) in enumerate(zip(truth.things, found)):
        things.boxes[:] *= 0.4
        outlines = []
        for (left, top, width, height), crowd in zip(things.boxes, things.crowd):
            spots = rng.uniform(0, 1, (5, 2)) * (width + 1, height + 1) + (left, top)
            disc = (x - left) ** 2 + (y - top) ** 2 < width * height + 2
            runs = mask.encode(np.asfortranarray(disc.astype(np.uint8)))
            whole = {"size": [90, 120], "counts": runs["counts"].decode()}
            outlines.append(whole if crowd else [spots.ravel().tolist(), (spots + 3).ravel().tolist()])
        truth.things[n] = dataclasses.replace(things, outlines=tuple(outlines))
        boxes = one.boxes * np.float32(0.4)
        shapes = [(x >= a) & (y >= b) & (x < c) & (y < d) for a, b, c, d in boxes]
        found[n] = dataclasses.replace(one, boxes=boxes, masks=np.array(shapes, bool).reshape(-1, 90, 120))
    assert list(ours(truth, found, MASKS).numbers.values()) == theirs(truth, found, "segm")[0]


def test_more_than_a_hundred_of_a_class_are_cut():
    rng = np.random.default_rng(5)
    boxes = rng.uniform(0, 400, (150, 4))
    truth = Truth(["a"], [1], [Path("a.jpg")], [Things.of([0] * 150, boxes)])
    corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    found = [Detections(corners, rng.random(150), np.zeros(150))]
    result = ours(truth, found)
    assert list(result.numbers.values()) == theirs(truth, found)[0]
    assert result.numbers["AR100"] == pytest.approx(100 / 150)


def test_nothing_found_is_zero_and_nothing_there_is_minus_one():
    none = Detections(np.zeros((0, 4)), [], [])
    one = Things.of([0], [[0, 0, 50, 50]])
    result = ours(Truth(["a", "b"], [1, 2], [Path("a.jpg")], [one]), [none])
    assert result.numbers["AP"] == 0 == result.numbers["AR100"]
    assert result.numbers["AP small"] == -1
    assert (result.ap, result.ap50) == ([0, -1], [0, -1])


def test_scores_and_places_that_are_no_numbers_are_left_out_and_counted():
    boxes = np.array([[0, 0, 50, 50], [0, 0, 50, 50], [0, 0, np.inf, 50]])
    found = Detections(boxes, [np.nan, 0.5, 0.9], [0, 0, 0])
    result = ours(Truth(["a"], [1], [Path("a.jpg")], [Things.of([0], [[0, 0, 50, 50]])]), [found])
    assert (result.odd, result.numbers["AP"]) == (2, pytest.approx(1))
