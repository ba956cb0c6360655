"""Every test runs on the CPU reference and on the test double of librknnrt; both play an RK3588."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rknnlite
from tests.rknnrt.conftest import double, library  # noqa: F401  fixtures

Make = Callable[..., rknnlite.Matmul]


@pytest.fixture(params=["cpu", "rknnrt"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """``make(M, K, N, type, ...)``: a product that is closed after the test."""
    if request.param == "rknnrt":
        request.getfixturevalue("double")
    made: list[rknnlite.Matmul] = []

    def open_(*arguments: Any, **options: Any) -> rknnlite.Matmul:
        made.append(rknnlite.Matmul(*arguments, backend=request.param, **options))
        return made[-1]

    yield open_
    for product in made:
        product.close()
    made.clear()
