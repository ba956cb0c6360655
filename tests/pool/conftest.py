"""Fixtures of the pool's tests: models of the test double, and pools that are closed after a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rknnlite
from tests.doubles.double import Double, model
from tests.rknnrt.conftest import double, library  # noqa: F401  fixtures

LINES = ("input image int8 4 1 4 6 3 1 0", "output scores float32 4 1 3 4 6", "op affine 2 1")
"""Twice the image plus one; the float output lets a test tell the calls apart."""


@pytest.fixture
def pool_of(double: Double) -> Iterator[Callable[..., rknnlite.Pool]]:  # noqa: F811
    """``pool_of(*lines, **arguments)``: a pool on a model of the double."""
    made: list[rknnlite.Pool] = []

    def make(*lines: str, **arguments: Any) -> rknnlite.Pool:
        made.append(rknnlite.Pool(model(*LINES, *lines), **arguments))
        return made[-1]

    yield make
    for pool in made:
        pool.close()
    made.clear()


def image(value: int) -> np.ndarray:
    """An input that is ``value`` all over."""
    return np.full((1, 4, 6, 3), value, np.int8)


def answer(value: int) -> float:
    """What the model makes of it."""
    return 2.0 * value + 1
