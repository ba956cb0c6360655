"""Masks of datasets: the pixels that pycocotools has."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_vision.evaluation.masks import polygon_mask, runs_mask


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


@pytest.mark.parametrize("counts", [[1, 2], [-1, 5], [4, 4], "\x00", "P", "1"])
def test_runs_that_are_none_are_told(counts):
    with pytest.raises(ValueError, match="runs"):
        runs_mask(counts, 2, 2)
