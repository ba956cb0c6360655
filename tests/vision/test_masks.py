"""Masks of datasets: the pixels that pycocotools has."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_vision.evaluation.masks import drawn, polygon_mask, runs_mask


@pytest.mark.parametrize("seed", range(120))
def test_polygons_are_drawn_as_pycocotools_draws_them(seed):
    mask = pytest.importorskip("pycocotools.mask")
    rng = np.random.default_rng(seed)
    height, width = (int(n) for n in rng.integers(1, 60, 2))
    points = rng.uniform(-4, (width + 4, height + 4), (int(rng.integers(3, 9)), 2))
    points = [points, np.round(points), np.round(points * 2) / 2][seed % 3]
    (runs,) = mask.frPyObjects([points.ravel().tolist()], height, width)
    expected = mask.decode(runs).astype(bool)
    np.testing.assert_array_equal(polygon_mask(points, height, width), expected)


@pytest.mark.parametrize("seed", range(20))
def test_runs_are_read_as_pycocotools_writes_them(seed):
    mask = pytest.importorskip("pycocotools.mask")
    rng = np.random.default_rng(seed)
    pixels = rng.random((37, 53)) < rng.choice([0.02, 0.5, 0.99])
    pixels[: int(rng.integers(0, 37))] = False
    text = mask.encode(np.asfortranarray(pixels.astype(np.uint8)))["counts"].decode()
    np.testing.assert_array_equal(runs_mask(text, 37, 53), pixels)
    column = pixels.T.ravel().astype(int)
    changes = np.flatnonzero(np.diff(np.concatenate([[0], column, [2]])))
    plain = np.diff(np.concatenate([[0], changes])).tolist()
    np.testing.assert_array_equal(runs_mask(plain, 37, 53), pixels)


@pytest.mark.parametrize(
    ("outline", "message"),
    [
        (None, "neither polygons nor runs"),
        ([[1, 2, 3]], "no list of x, y"),
        ([[10**400] * 6], "no list of numbers"),
        ([{}], "no list of numbers"),
        ([[1e7] * 6], "far outside"),
        ([[9e5, 0, -9e5, 1, 5, 9e5]], "edges of more than 1000000 pixels"),
        ([[0, 0, 640, 0, 640, 480, 0, 480]] * 3000, "edges of more than 1000000 pixels together"),
    ],
)
def test_outlines_that_are_none_are_told(outline, message):
    with pytest.raises(ValueError, match=message):
        drawn(outline, 4, 4)


TURNED = [1 << 62] * 4 + [4]
"""Runs whose sum of 64 bits is 4."""


@pytest.mark.parametrize(
    "counts",
    [[1, 2], [-1, 5], [4, 4], TURNED, [10**30], [[4]], [None], [{}], "\x00", "P", "1", "o" * 20 + "0"],
)
def test_runs_that_are_none_are_told(counts):
    with pytest.raises(ValueError, match="run"):
        runs_mask(counts, 2, 2)
