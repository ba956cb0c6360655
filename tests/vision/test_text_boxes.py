"""Where lines of text are: rapidocr's boxes on the same maps, and maps that nobody trained a network for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_vision.heads.connected import connected
from rknnlite_vision.heads.head import ASKED, Head, Limits, Task, UnknownHead
from rknnlite_vision.heads.recognise import recognise
from rknnlite_vision.placement import Placement
from rknnlite_vision.rectangles import corners_of, least_rectangle, lying
from rknnlite_vision.results import Detections, Segments

from rknnlite.errors import InputInvalid
from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr
from tools.vision.text_goldens import EIGHTHS, PICTURES, SETTINGS

GOLDENS = np.load(Path(__file__).parent / "data" / "text_boxes.npz")
STORED = QuantParams(1 / 255, -128)


def head(height: int, width: int, part: int = 1, quant: Any = None, **more: Any) -> Head:
    image = TensorAttr(0, "image", (1, height * part, width * part, 3), DType.UINT8, Layout.NHWC)
    kind = DType.INT8 if quant else DType.FLOAT32
    likely = TensorAttr(0, "sigmoid_0", (1, 1, height, width), kind, Layout.NCHW, quant)
    return recognise([image], [likely], **(more or {"hint": "dbnet"}))


def found_in(likely: Any, score: float = 0.5, most: int = 1000) -> Any:
    likely = np.asarray(likely, np.float32)
    return head(*likely.shape).decode([likely[None, None]], Limits(score, most=most))[0]


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", ["", ".fine"])
def test_lines_are_where_rapidocr_sees_them(picture: str, setting: str, kind: str) -> None:
    """To the unit in which they were kept; rapidocr itself rounds corners down to whole pixels before a box grows."""
    likely = GOLDENS[f"{picture}.map"]
    one: Any = head(*likely.shape)
    one.growth = SETTINGS[setting]["unclip_ratio"]
    limits = Limits(SETTINGS[setting]["box_thresh"], most=1000)
    (found,) = one.decode([(likely / np.float32(255))[None, None]], limits)
    wanted = GOLDENS[f"{picture}.{setting}{kind}.boxes"] / EIGHTHS
    ours = np.array([corners_of(row) for row in found.rotated]).clip(0, likely.shape[::-1])
    assert len(ours) == len(wanted) > 0
    apart = abs(ours[:, None] - wanted).max(axis=(2, 3))
    pairs = apart.argmin(axis=0)
    assert sorted(pairs) == list(range(len(ours)))
    assert apart.min(axis=0).max() <= (0.0626 if kind else 1.5)
    assert np.allclose(found.scores[pairs], GOLDENS[f"{picture}.{setting}{kind}.scores"], atol=0.005)
    assert (np.diff(found.scores) <= 0).all(), "best first"


@pytest.mark.parametrize("picture", PICTURES)
def test_a_map_of_integers(picture: str) -> None:
    likely = GOLDENS[f"{picture}.map"]
    stored = (likely.astype(np.int16) - 128).astype(np.int8)
    floats, integers = found_in(likely / np.float32(255)), None
    (integers,) = head(*likely.shape, quant=STORED).decode([stored[None, None]], Limits(0.5))
    assert np.allclose(floats.rotated, integers.rotated, atol=1e-4)
    assert np.allclose(floats.scores, integers.scores, atol=1e-6)


def test_a_turned_bar() -> None:
    """A bar of 60 x 12 at 10 degrees grows by 1.6 * area / outline on each side."""
    y, x = np.mgrid[:100, :120] + 0.5
    angle = np.deg2rad(10)
    along = (x - 60) * np.cos(angle) + (y - 50) * np.sin(angle)
    down = (y - 50) * np.cos(angle) - (x - 60) * np.sin(angle)
    found = found_in((abs(along) < 30) & (abs(down) < 6))
    (row,) = found.rotated
    more = 2 * 1.6 * 60 * 12 / 144
    assert np.allclose(row[:4], [60, 50, 60 + more, 12 + more], atol=2.5) and np.isclose(
        row[4], angle, atol=0.02
    )
    corners = corners_of(row)
    assert np.allclose(found.boxes[0], [*corners.min(axis=0), *corners.max(axis=0)], atol=1e-4)


def test_coarse_maps_and_places_in_the_picture() -> None:
    likely = np.zeros((1, 1, 24, 32), np.float32)
    likely[..., 8:14, 5:25] = 1
    fine, coarse = found_in(likely[0, 0]), head(24, 32, part=4).decode([likely])[0]
    assert isinstance(coarse, Detections) and np.allclose(coarse.boxes, fine.boxes * 4)
    placed = coarse.placed(Placement.letterbox((256, 128), (128, 96)))
    assert np.allclose(placed.rotated[0, :4], (coarse.rotated[0, :4] - [0, 16, 0, 0]) * 2)


@pytest.mark.parametrize("degrees", [0, 25, -70, 90, 120])
@pytest.mark.parametrize("size", [(40, 6), (6, 40)])
def test_turned_boxes_of_a_stretched_picture(degrees: float, size: tuple[int, int]) -> None:
    """The longer side goes where it lies in the picture, and the area is that of what it was."""
    box = np.array([[50, 30, *size, np.deg2rad(degrees)]], np.float32)
    placement = Placement.stretch((300, 120), (100, 80))
    (moved,) = placement.rotated_back(box)
    assert np.allclose(moved[:2], [150, 45]) and np.isclose(moved[2] * moved[3], 240 * 3 * 1.5, rtol=1e-5)
    ends = [np.roll(corners_of(row), 1 if size[0] > size[1] else 0, axis=0) for row in (box[0], moved)]
    sides = [(c[0] + c[1] - c[2] - c[3]) / 2 for c in ends]
    assert np.allclose(sides[0] * [3, 1.5], sides[1], atol=1e-3)


def test_parts_that_one_pixel_parts_are_one() -> None:
    likely = np.zeros((40, 60))
    likely[10:20, 5:25] = likely[10:20, 26:50] = 1
    assert len(found_in(likely)) == 1
    likely[10:20, 26] = 0
    assert len(found_in(likely)) == 2


def test_scores_and_the_most() -> None:
    likely = np.zeros((60, 60))
    likely[5:15, 5:55], likely[25:35, 5:55], likely[45:55, 5:55] = 0.4, 0.9, 0.6
    shown = (
        50 * 10 / (51 * 11)
    )  # a rectangle goes to the corners of its last pixels, and so over one pixel more
    found = found_in(likely, score=0.3)
    assert np.allclose(found.scores, np.array([0.9, 0.6, 0.4]) * shown, atol=1e-6) and set(
        found.classes.tolist()
    ) == {0}
    assert len(found_in(likely)) == 2 and len(found_in(likely, score=0.3, most=1)) == 1


@pytest.mark.parametrize(("value", "count"), [(0.0, 0), (1.0, 1), (0.29, 0), (np.float32(0.3), 0)])
def test_maps_of_one_value(value: float, count: int) -> None:
    found = found_in(np.full((32, 48), value))
    assert len(found) == count and found.rotated.shape == (count, 5)
    placed = found.placed(Placement.stretch((48, 32), (48, 32)))
    assert not count or placed.boxes.tolist() == [[0, 0, 48, 32]]


def test_the_smallest_maps() -> None:
    assert len(found_in(np.ones((2, 2)))) == 0
    with pytest.raises(UnknownHead):
        head(1, 1)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_numbers_that_are_none(wrong: float) -> None:
    likely = np.zeros((32, 48))
    likely[3, 4] = wrong
    for hint in ("dbnet", "binary-mask"):
        with pytest.raises(InputInvalid, match="output sigmoid_0: 1 of 1536 numbers are NaN or infinite"):
            head(32, 48, hint=hint).decode([likely[None, None].astype(np.float32)])


def _odd(size: int) -> dict[str, Any]:
    y, x = np.mgrid[:size, :size]
    noise = np.random.default_rng(0).random((size, size))
    return {
        "specks": noise < 0.03,
        "noise": noise < 0.5,
        "blocks": (x % 8 < 5) & (y % 8 < 5),
        "checkers": (x + y) % 2,
        "stripes": x % 5 < 3,
        "rings": np.maximum(abs(x - size // 2), abs(y - size // 2)) % 6 < 4,
        "comb": (x % 4 < 2) | (y == 0),
    }


@pytest.mark.parametrize("name", _odd(8))
def test_noise_ends_soon(name: str) -> None:
    """Thousands of regions in a map of 960 x 960; 20 times of what it takes."""
    likely = _odd(960)[name]
    started = time.thread_time()
    found = found_in(likely)
    assert time.thread_time() - started < 20 and len(found) <= 1000


def test_one_map_is_text_or_a_mask() -> None:
    """What is asked for decides; else the caller must say it, or the name of the file."""
    with pytest.raises(UnknownHead, match="mask of one channel or DB"):
        head(32, 48, tasks=())
    assert head(32, 48, tasks=ASKED["segment"]).task is Task.SEMANTIC
    assert head(32, 48, tasks=ASKED["detect"]).task is Task.LINES
    with pytest.raises(UnknownHead, match="this is for another task: read"):
        head(32, 48, tasks=ASKED["read"])
    assert head(32, 48, name="ppocrv4_det.rknn").family == "DB (map of text) (ppocr-det by the file's name)"
    assert head(32, 48, name="unet.rknn").task is Task.SEMANTIC


@pytest.mark.parametrize("part", [1, 4])
def test_a_mask_of_one_channel(part: int) -> None:
    likely = np.zeros((1, 1, 24, 32), np.float32)
    likely[..., 8:14, 5:25], likely[..., 3, 3] = 0.5, 0.49
    found = head(24, 32, part, hint="binary-mask").decode([likely])[0]
    assert isinstance(found, Segments) and (found.classes == (likely[0, 0] == 0.5)).all()
    one = head(24, 32, part, hint="binary-mask-logits")
    assert one.family == "mask of one channel, sigmoid to come" and one.classes == 2
    assert (one.decode([likely - 0.25])[0].classes == (likely[0, 0] > 0.25)).all()  # type: ignore[union-attr]


def test_a_mask_of_integers() -> None:
    stored = np.arange(-128, 128).reshape(1, 1, 16, 16).astype(np.int8)
    (found,) = head(16, 16, quant=STORED, hint="binary-mask").decode([stored])
    assert found.classes.ravel().tolist() == [0] * 128 + [1] * 128  # type: ignore[union-attr]
    (found,) = head(16, 16, quant=QuantParams(0.1, 5), hint="binary-mask").decode([stored])
    assert found.classes.ravel().tolist() == [0] * 133 + [1] * 123, "logits, as they reach beyond 0 to 1"  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(6))
def test_regions(seed: int) -> None:
    """As a flood from each pixel finds them."""
    mask = np.random.default_rng(seed).random((17, 23)) < 0.1 + 0.1 * seed
    regions, left, sizes = connected(mask), mask.copy(), []
    while left.any():
        flood = [tuple(int(n) for n in np.argwhere(left)[0])]
        left[flood[0]] = False
        for y, x in flood:
            for place in [(y + j, x + i) for j in (-1, 0, 1) for i in (-1, 0, 1)]:
                if min(place) >= 0 and place[0] < 17 and place[1] < 23 and left[place]:
                    left[place] = False
                    flood.append(place)
        sizes.append(len(flood))
    assert regions.pixels().tolist() == sizes


@pytest.mark.parametrize("seed", range(6))
def test_the_least_rectangle(seed: int) -> None:
    """No angle gives a smaller one."""
    random = np.random.default_rng(seed)
    angles = np.sort(random.uniform(0, 2 * np.pi, 9))
    points = np.stack([30 * np.cos(angles), 9 * np.sin(angles)], axis=1) + 50
    least = least_rectangle(points)
    turned = np.linspace(0, np.pi / 2, 2000)
    x, y = (
        np.outer(np.cos(turned), points[:, k]) + s * np.outer(np.sin(turned), points[:, 1 - k])
        for k, s in ((0, 1), (1, -1))
    )
    areas = (x.max(1) - x.min(1)) * (y.max(1) - y.min(1))
    assert areas.min() * (1 - 1e-2) < least[2] * least[3] <= areas.min() * (1 + 1e-9)
    corners = corners_of(least)
    sides = np.roll(corners, -1, axis=0) - corners
    away = points[:, None] - corners
    assert (sides[:, 0] * away[..., 1] - sides[:, 1] * away[..., 0] > -1e-6).all(), "all points are inside"


@pytest.mark.parametrize("turn", range(-4, 5))
def test_a_lying_rectangle_is_the_same(turn: int) -> None:
    rotated = np.array([5.0, 6.0, 8.0, 3.0, 0.3 + turn * np.pi / 2])
    wide = lying(rotated)
    assert wide[2] * np.cos(wide[4]) >= wide[3] * abs(np.sin(wide[4]))
    assert np.allclose(
        *(corners[np.lexsort(corners.round(6).T)] for corners in map(corners_of, (rotated, wide)))
    )
