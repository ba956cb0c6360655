"""How a broken promise is told: what was seen, and what the author should do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from rknnlite import Context
from rknnlite.errors import RknnError

__all__ = ["MASK", "given", "optional", "promise", "refused", "same"]


MASK = 1 << 20
"""A core that no SoC has."""


def promise(kept: object, broken: str) -> None:
    """Fail the test with ``broken`` ("what was seen; what to do") unless ``kept``."""
    if not kept:
        pytest.fail(broken, pytrace=False)


@contextmanager
def refused(*kinds: type[RknnError], call: str, remedy: str) -> Iterator[None]:
    """The block raises one of these errors."""
    names = " or ".join(kind.__name__ for kind in kinds)
    try:
        yield
    except kinds:
        return
    except Exception as error:
        pytest.fail(
            f"{call} raised {type(error).__name__} ({error}) and not {names}; {remedy}", pytrace=False
        )
    pytest.fail(f"{call} raised nothing; raise {names}: {remedy}", pytrace=False)


@contextmanager
def optional(backend: str, what: str) -> Iterator[None]:
    """The block asks for what a backend need not have; the test is skipped where it says that it has not."""
    try:
        yield
    except RknnError as error:
        pytest.skip(f"backend {backend} has no {what}: {error}")


def given(context: Context, seed: int = 0) -> list[Any]:
    """One array per input: pixels for pictures, small whole numbers for integers, else real numbers. All are read-only."""
    drawn = np.random.default_rng(seed)
    arrays = []
    for attr in context.inputs:
        if len(attr.dims) == 4:
            array = drawn.integers(0, 256, attr.dims).astype(np.uint8)
        elif attr.quant is not None or attr.dtype.is_float:
            array = drawn.normal(size=attr.dims).astype(np.float32)
        else:
            array = drawn.integers(0, 2, attr.dims).astype(attr.dtype.numpy)
        array.flags.writeable = False
        arrays.append(array)
    return arrays


def same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether two lists of outputs hold the same numbers; NaN is NaN."""
    return len(some) == len(others) and all(
        a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for a, b in zip(some, others)
    )
