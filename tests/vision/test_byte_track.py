"""Tracks: the numbers that ultralytics' ByteTrack gives the same detections, and what is odd."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rknnlite_vision.results import Detections
from rknnlite_vision.streams import motion
from rknnlite_vision.streams.byte_track import ByteTrack

from rknnlite.errors import ParamInvalid

GOLDENS = Path(__file__).parent / "data" / "tracks.npz"


def found(boxes, scores) -> Detections:
    return Detections(np.array(boxes).reshape(-1, 4), np.array(scores), np.zeros(len(scores)))


@pytest.mark.parametrize("scene", ["default", "strict", "plain"])
def test_every_detection_gets_the_number_that_ultralytics_gives_it(scene):
    golden = {name.partition(".")[2]: a for name, a in np.load(GOLDENS).items() if name.startswith(scene)}
    high, low, new, match, patience, fuse = golden["settings"].tolist()
    tracker = ByteTrack(high, low, new, match, int(patience), bool(fuse))
    start = 0
    for picture, count in enumerate(golden["counts"]):
        rows = slice(start, start + count)
        boxes, scores = golden["boxes"][rows] / 8, golden["scores"][rows].astype(np.float32) / np.float32(100)
        expected = golden["numbers"][rows]
        got = tracker(found(boxes, scores))
        assert got.tracks.tolist() == expected[expected > 0].tolist(), f"picture {picture}"
        assert np.array_equal(got.boxes, boxes[expected > 0])
        start += count
    last = {int(row[0]): row[1:] for row in golden["last"]}
    seen = {track.number: track.box for track in tracker.tracks if track.sure and not track.lost}
    assert seen.keys() == last.keys()
    for number, box in seen.items():
        np.testing.assert_allclose(box, last[number], atol=0.02)  # theirs begin with float32


def test_two_that_cross_keep_their_numbers():
    tracker = ByteTrack()
    for x in range(0, 200, 5):
        got = tracker(found([[x, 0, x + 30, 60], [200 - x, 20, 240 - x, 70]], [0.9, 0.8]))
        assert got.tracks.tolist() == [1, 2]


def test_one_that_is_unsure_for_a_while_keeps_its_number_and_none_begins_so():
    tracker = ByteTrack(high=0.5, low=0.1, new=0.6)
    box = [[10, 10, 50, 90]]
    assert tracker(found(box, [0.9])).tracks.tolist() == [1]
    assert tracker(found(box, [0.2])).tracks.tolist() == [1]
    assert tracker(found([[200, 10, 240, 90]], [0.2])).tracks.tolist() == []
    assert tracker(found(box, [0.9])).tracks.tolist() == [1]


def test_one_that_stays_away_for_too_long_is_another():
    tracker = ByteTrack(patience=3)
    box = [[10, 10, 50, 90]]
    tracker(found(box, [0.9]))
    for _ in range(6):
        assert len(tracker(found([], []))) == 0
    assert tracker.tracks == []
    tracker(found(box, [0.9]))
    assert tracker(found(box, [0.9])).tracks.tolist() == [2]


def test_rows_keep_what_belongs_to_them():
    tracker = ByteTrack()
    both = Detections(
        np.array([[0, 0, 20, 20], [100, 0, 140, 50]]),
        np.array([0.05, 0.9]),
        np.array([3, 4]),
        keypoints=np.arange(6).reshape(2, 1, 3),
    )
    got = tracker(both)
    assert (got.classes.tolist(), got.keypoints.tolist(), got.tracks.tolist()) == ([4], [[[3, 4, 5]]], [1])


@pytest.mark.parametrize(
    ("box", "score"),
    [
        ([np.nan, 0, 10, 10], 0.9),
        ([0, 0, np.inf, 10], 0.9),
        ([5, 5, 5, 9], 0.9),
        ([9, 9, 5, 5], 0.9),
        ([0, 0, 9, 9], np.nan),
    ],
)
def test_what_is_no_box_or_no_score_is_left_out(box, score):
    tracker = ByteTrack()
    for _ in range(3):
        got = tracker(found([box, [100, 0, 140, 50]], [score, 0.9]))
        assert got.tracks.tolist() == [1]


@pytest.mark.parametrize(
    "options", [{"high": 0.1, "low": 0.5}, {"match": 0}, {"patience": -1}, {"low": np.nan}]
)
def test_settings_without_sense_are_refused(options):
    with pytest.raises(ParamInvalid, match="0 <= low <= high <= 1"):
        ByteTrack(**options)


def test_four_small_filters_are_the_matrices_of_the_published_one():
    move, look = np.eye(8), np.eye(4, 8)
    move[:4, 4:] = np.eye(4)
    boxes = np.array([[[10, 20, 50, 100]], [[14, 21, 56, 103]], [[20, 19, 60, 99]]], float)
    places = [motion.measured(box)[0] for box in boxes]

    def noise(height, place, speed, aspect, aspect_speed):
        return np.diag([place * height, place * height, aspect, place * height, speed * height, speed * height,
                        aspect_speed, speed * height]) ** 2  # fmt: skip

    mean = np.concatenate([places[0], np.zeros(4)])
    spread = noise(80, 1 / 10, 1 / 16, 1e-2, 1e-5)
    state = motion.begun(places[0][None])
    for place in places[1:]:
        spread = move @ spread @ move.T + noise(mean[3], 1 / 20, 1 / 160, 1e-2, 1e-5)
        mean = move @ mean
        total = look @ spread @ look.T + np.diag([mean[3] / 20, mean[3] / 20, 0.1, mean[3] / 20]) ** 2
        gain = spread @ look.T @ np.linalg.inv(total)
        mean = mean + gain @ (place - look @ mean)
        spread = spread - gain @ total @ gain.T
        state = motion.updated(motion.predicted(state), place[None])
    np.testing.assert_allclose(state[0, :2].ravel(), mean, rtol=1e-12)
    np.testing.assert_allclose(state[0, 2], np.diag(spread)[:4], rtol=1e-9)
    np.testing.assert_allclose(state[0, 3], np.diag(spread[:4, 4:]), rtol=1e-9)
    np.testing.assert_allclose(state[0, 4], np.diag(spread)[4:], rtol=1e-9)
