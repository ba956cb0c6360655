"""What tests of YOLOX, PP-YOLOE and NanoDet ask of each decoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_vision.heads.head import Head, Limits
from rknnlite_vision.heads.recognise import recognise
from rknnlite_vision.results import Detections

from . import yolo_outputs as made

__all__ = ["ALL", "GOLDENS", "broken", "found", "head", "is_golden", "quantised", "same"]

Array = NDArray[Any]
GOLDENS = np.load(Path(__file__).parent / "data" / "detectors.npz")
ALL = Limits(score=0.25, overlap=1.0, most=10_000)
"""Whatever passes: goldens are not suppressed."""


def head(outputs: list[Array], hint: str = "", quants: Any = None) -> Head:
    """What is recognised."""
    return recognise(made.images(len(outputs[0])), made.attributes(outputs, quants), hint)


def found(outputs: list[Array], hint: str = "", limits: Limits = ALL) -> Detections:
    """What is found in the one picture."""
    (result,) = head(outputs, hint).decode(outputs, limits)
    assert isinstance(result, Detections)
    return result


def is_golden(ours: Any, name: str) -> None:
    """As the other project's head decodes it: within 0.01 pixel, and 1e-6 of the score."""
    golden = GOLDENS[name]
    assert len(ours) == len(golden) > 20
    np.testing.assert_allclose(ours.boxes, golden[:, :4], rtol=0, atol=0.01)
    np.testing.assert_allclose(ours.scores, golden[:, 4], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(ours.classes, golden[:, 5])


def same(ours: Any, theirs: Any) -> None:
    """Nothing differs but the last bits of floats."""
    assert len(ours) == len(theirs) > 3
    np.testing.assert_array_equal(ours.classes, theirs.classes)
    np.testing.assert_allclose(ours.boxes, theirs.boxes, rtol=0, atol=1e-3)
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=0, atol=1e-6)


def quantised(outputs: list[Array], hint: str, dtype: str) -> tuple[Any, Any]:
    """What is found in stored integers, and in the real numbers that they mean."""
    stored, quants = made.quantised(outputs, dtype)
    real = [(a.astype(np.float32) - q.zero_point) * np.float32(q.scale) for a, q in zip(stored, quants)]
    seen = head(stored, hint, quants)
    return seen.decode(stored, ALL)[0], seen.decode(real, ALL)[0]


def broken(outputs: list[Array], hint: str) -> None:
    """Cells with numbers that are none are left out; the others are found as before."""
    whole = found(outputs, hint)
    for fill in (np.nan, np.inf, -np.inf):
        spoilt = [a.copy() for a in outputs]
        for array in spoilt:
            array[..., : array.shape[-2] // 2, :] = fill  # the first cells of tables, the upper half of maps
        some = found(spoilt, hint)
        assert np.isfinite(some.boxes).all() and np.isfinite(some.scores).all()
        assert 0 < len(some) < len(whole)
        kept = {tuple(box) for box in whole.boxes.tolist()}
        assert {tuple(box) for box in some.boxes.tolist()} <= kept
