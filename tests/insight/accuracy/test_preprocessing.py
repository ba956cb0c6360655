"""Mean, deviation and order of colours from pixels and what a network got for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_insight.causes.preprocessing import Preprocessing, fitted

from .networks import nchw, pictures

PIXELS = [nchw(picture) for picture in pictures(range(3))]
TOLD = Preprocessing((0.0, 0.0, 0.0), (255.0, 255.0, 255.0), (0, 1, 2))


def found(how: Preprocessing, noise: float = 0.0) -> Any:
    random = np.random.default_rng(0)
    given: list[NDArray[Any]] = [how(each) + random.normal(0, noise, each.shape) for each in PIXELS]
    return fitted(TOLD, PIXELS, given)


def test_the_same_is_nothing_to_tell() -> None:
    assert found(TOLD) is None and found(TOLD, 0.001) is None


def test_mean_and_order() -> None:
    wanted = found(Preprocessing((104.0, 117.0, 123.0), (1.0, 1.0, 1.0), (2, 1, 0)))
    assert wanted.mean and wanted.order and wanted.exact
    assert wanted.network.order == (2, 1, 0)
    assert np.allclose(wanted.network.mean, (104, 117, 123), atol=0.01)
    assert np.allclose(wanted.network.std, 1, atol=0.001)
    assert str(wanted.network) == "mean 104, 117, 123, deviation 1, BGR"


def test_other_pictures_fit_nothing() -> None:
    others = [nchw(picture) for picture in pictures(range(50, 53))]
    assert fitted(TOLD, PIXELS, others) is None
    assert fitted(TOLD, PIXELS, [each[:, :, 1:] for each in PIXELS]) is None
