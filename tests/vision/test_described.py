"""What was found as names and numbers: every kind of result, and numbers that are none."""

from __future__ import annotations

import json

import numpy as np
import pytest
from rknnlite_vision.described import described, runs_of
from rknnlite_vision.results import Classes, Detections, Embedding, Segments, Words

from rknnlite.spi.command import as_json

from .standins import boxes

NAMES = ["cat", "dog", "cup"].__getitem__


def test_things() -> None:
    masks = np.zeros((2, 4, 5), bool)
    masks[0, 1:3, 1:3] = True
    found = boxes((1, 1, 3, 3), (0, 0, 4.5, 2), masks=masks, tracks=np.array([7, 9]))
    first, second = described(found, NAMES)
    assert first == {
        "class": 0, "label": "cat", "score": 0.9, "box": [1, 1, 3, 3], "mask": {"shape": [4, 5], "counts": [5, 2, 2, 2, 9]},
        "track": 7,
    }  # fmt: skip
    assert second["label"] == "dog" and second["box"] == [0, 0, 4.5, 2] and second["mask"]["counts"] == [20]


def test_keypoints_and_turned_boxes() -> None:
    found = boxes(
        (0, 0, 9, 9), keypoints=np.array([[[1, 2, 0.5], [3, 4, 0.25]]]), rotated=np.array([[4, 5, 2, 1, 0.5]])
    )
    (thing,) = described(found, NAMES)
    assert thing["keypoints"] == [[1, 2, 0.5], [3, 4, 0.25]] and thing["rotated"] == [4, 5, 2, 1, 0.5]


def test_classes_regions_words_vectors() -> None:
    assert described(Classes(np.array([2]), np.array([0.5])), NAMES) == [
        {"class": 2, "label": "cup", "score": 0.5}
    ]
    most, least = described(Segments(np.array([[1, 1], [1, 2]])), NAMES)
    assert (most["label"], most["share"], least["label"], least["share"]) == ("dog", 0.75, "cup", 0.25)
    assert most["mask"] == {"shape": [2, 2], "counts": [0, 3, 1]}
    assert described(Words("A1", 0.98765), NAMES) == [{"text": "A1", "score": 0.9877}]
    assert described(Embedding(np.array([[3.0, 4.0]])), NAMES) == [{"vector": [3.0, 4.0]}]


def test_nothing_and_numbers_that_are_none() -> None:
    empty = Detections(np.zeros((0, 4)), np.zeros(0), np.zeros(0))
    assert described(empty, NAMES) == []
    found = Detections(np.array([[np.nan, 0, np.inf, 1]]), np.array([np.nan]), np.array([0]))
    text = json.dumps(as_json(described(found, NAMES)), allow_nan=False)
    assert '"box": [null, 0.0, null, 1.0]' in text and '"score": null' in text


@pytest.mark.parametrize("seed", range(8))
def test_runs_give_the_mask_back(seed: int) -> None:
    random = np.random.default_rng(seed)
    mask = random.random(random.integers(0, 7, 2)) < 0.5
    values = np.arange(len(counts := runs_of(mask))) % 2 == 1
    assert (np.repeat(values, counts).reshape(mask.shape, order="F") == mask).all() and sum(
        counts
    ) == mask.size
    assert all(counts[1:]), "no run but the first is empty"
