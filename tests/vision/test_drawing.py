"""Drawing: where colours go and where they do not, whatever a network gives; letters with and without Pillow."""

from __future__ import annotations

import string
import sys
from typing import Any

import numpy as np
import pytest
from rknnlite_vision import font, system_fonts
from rknnlite_vision.canvas import contrast, line, text_size
from rknnlite_vision.drawing import PALETTE, Trails, draw
from rknnlite_vision.rectangles import corners_of
from rknnlite_vision.results import Classes, Detections, Embedding, Segments, Words

from .standins import boxes

GREY = np.full((120, 160, 3), 90, np.uint8)


@pytest.fixture(params=["Pillow", "own letters"])
def letters(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """With the letters of either."""
    forget()
    if request.param == "Pillow":
        pytest.importorskip("PIL")
    else:
        monkeypatch.setitem(sys.modules, "PIL", None)
    yield request.param
    forget()


def forget() -> None:
    """What was found out about fonts."""
    for cached in (
        font.letters,
        font._lacking,
        system_fonts._has,
        system_fonts._opened,
        system_fonts._broadest,
    ):
        cached.cache_clear()


def changed(picture: Any, source: Any = GREY) -> Any:
    """[height, width]: which pixels are others."""
    return (picture != source).any(axis=2)


def test_a_box_and_its_label(letters: str) -> None:
    marked = draw(GREY, boxes((40, 50, 140, 100)), lambda _: "cat")
    touched = changed(marked)
    assert (marked[50, 45:135] == PALETTE[0]).all() and (marked[60:90, 40] == PALETTE[0]).all()
    assert not touched[55:95, 45:135].any(), "nothing inside"
    rows, columns = np.nonzero(touched)
    assert rows.min() >= 30 and rows.max() <= 100 and columns.min() >= 39 and columns.max() <= 140
    assert (touched & (marked != PALETTE[0]).any(axis=2))[30:50].any(), "letters on the label"
    assert (GREY == 90).all(), "the source is as it was"


def test_a_label_stays_in_the_picture(letters: str) -> None:
    corner = draw(GREY, boxes((150, 0, 160, 60)), lambda _: "a long name")
    width, height = text_size("a long name 0.90", 8)
    assert changed(corner)[2:height, 160 - width : 150].any()


@pytest.mark.parametrize(
    "place",
    [
        (np.nan, 0, 9, 9),
        (np.inf, -np.inf, 1, 1),
        (-1e30, -1e30, 1e30, 1e30),
        (500, 500, 600, 600),
        (9, 9, 2, 2),
        (3, 3, 3, 3),
    ],
)
def test_any_number(place: Any) -> None:
    keypoints = np.array([[[*place[:2], 0.9]] * 17])
    found = boxes(place, keypoints=keypoints, rotated=np.array([[*place, np.nan]]))
    for one in (found, boxes(place)):
        assert draw(GREY, one, str).shape == GREY.shape


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1), (2, 3)])
def test_the_smallest_pictures(shape: tuple[int, int]) -> None:
    picture = np.zeros((*shape, 3), np.uint8)
    height, width = shape
    results = [
        boxes((0, 0, width, height), masks=np.ones((1, *shape), bool), keypoints=np.ones((1, 5, 3))),
        Segments(np.zeros(shape, np.uint8)),
        Classes(np.array([1]), np.array([0.5])),
        Words("text", 0.5),
    ]
    for result in results:
        assert draw(picture, result, str).shape == picture.shape


def test_masks_cover_half_and_nothing_else() -> None:
    mask = np.zeros((1, 120, 160), bool)
    mask[0, 60:80, 60:80] = True
    marked = draw(GREY, boxes((50, 50, 100, 100), masks=mask), str)
    inside = marked[60:80, 60:80].reshape(-1, 3)
    assert (inside == np.rint(90 + (np.array(PALETTE[0]) - 90) * 0.45)).all()
    assert not changed(marked)[55:60, 55:95].any() and not changed(marked)[82:95, 55:95].any()
    empty = draw(GREY, boxes((50, 50, 100, 100), masks=np.zeros_like(mask)), str)
    assert not changed(empty)[55:95, 55:95].any()


def test_points_that_are_sure_and_their_limbs() -> None:
    points = np.zeros((1, 17, 3))
    points[0, 5], points[0, 6], points[0, 9] = (60, 60, 0.9), (100, 60, 0.9), (80, 100, 0.1)
    marked = draw(GREY, boxes((40, 40, 130, 110), keypoints=points), str)
    assert changed(marked)[60, 60] and changed(marked)[60, 80] and changed(marked)[60, 100], (
        "shoulders are joined"
    )
    assert not changed(marked)[95:105, 75:85].any(), "an unsure point is none"


def test_a_turned_box() -> None:
    turned = np.array([80, 60, 60, 20, np.pi / 2])
    assert np.allclose(
        sorted(corners_of(turned).tolist()), [[70, 30], [70, 90], [90, 30], [90, 90]], atol=1e-5
    )
    marked = draw(GREY, boxes((10, 10, 20, 20), rotated=turned[None]), str)
    assert (
        changed(marked)[40:80, 70].all()
        and changed(marked)[40:80, 89].all()
        and not changed(marked)[40:80, 75:85].any()
    )
    assert not changed(marked)[12:18, 12:18].all(), "the upright box around it is not drawn"


def test_trails() -> None:
    trails = Trails(length=3)
    for x in (20, 40, 60, 80):
        trails.add(boxes((x, 50, x + 10, 60), tracks=np.array([4])))
    assert trails.points == {4: [(45, 55), (65, 55), (85, 55)]}
    marked = draw(GREY, boxes((80, 50, 90, 60), tracks=np.array([4])), str, trails)
    assert changed(marked)[55, 45:78].all() and not changed(marked)[55, 20:40].any()
    trails.add(boxes())
    assert trails.points == {}


def test_regions_classes_words(letters: str) -> None:
    halves = np.zeros((120, 160), np.uint8)
    halves[:, 80:] = 1
    marked = draw(GREY, Segments(halves), ["road", "sky"].__getitem__)
    assert (marked[100, 10] != marked[100, 150]).any() and (marked[100, :80] == marked[100, 10]).all()
    for result in (Classes(np.array([1, 0]), np.array([0.9, 0.1])), Words("AB-12", 0.9)):
        assert changed(draw(GREY, result, ["road", "sky"].__getitem__))[:40].any()
    assert not changed(draw(GREY, Embedding(np.ones(4)), str)).any()


def test_own_letters_differ() -> None:
    masks = {char: font._bitmap(char, 8).tobytes() for char in string.printable[:94]}
    assert len(set(masks.values())) == 94 and bytes(48) not in masks.values()
    assert (font._bitmap("é", 8) == font._bitmap("漢", 8)).all() and font._bitmap("é", 8).any()
    assert font._bitmap("ab", 24).shape == (24, 36)


def test_a_line_has_smooth_edges_and_its_thickness() -> None:
    picture = np.zeros((40, 40, 3), np.uint8)
    line(picture, (5, 20), (35, 20), (255, 255, 255), 4)
    assert (picture[18:22, 8:32] == 255).all() and not picture[:17].any() and not picture[23:].any()
    slanted = np.zeros_like(picture)
    line(slanted, (5, 5), (35, 30), (255, 255, 255), 3)
    assert len(np.unique(slanted)) > 10


def test_labels_can_be_read() -> None:
    assert contrast((250, 250, 120)) == (0, 0, 0) and contrast((60, 60, 160)) == (255, 255, 255)


def test_detections_are_drawn_from_the_last_to_the_best() -> None:
    """Where two lie on each other the surer is on top."""
    found = Detections(np.array([[20, 40, 90, 100]] * 2), np.array([0.9, 0.3]), np.array([2, 3]))
    assert (draw(GREY, found, str)[60:90, 20] == PALETTE[2]).all()
