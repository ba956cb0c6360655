"""Least-cost pairs: against all that there are, and against scipy's where it is installed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rknnlite_vision.streams.assignment import assign

from tests.support.examples import examples

LIMIT = 0.8


def worth(cost: np.ndarray, pairs, limit: float) -> float:
    """What pairs save."""
    return sum(cost[row, column] - limit for row, column in pairs)


def best_of_all(cost: np.ndarray, limit: float) -> float:
    rows, columns = cost.shape
    if rows > columns:
        return best_of_all(cost.T, limit)
    gain = np.where(cost < limit, cost - limit, 0)
    return min(
        sum(gain[n, column] for n, column in enumerate(picked))
        for picked in itertools.permutations(range(columns), rows)
    )


@settings(deadline=None, max_examples=examples(60))
@given(st.data())
def test_no_other_pairs_save_more(data):
    shape = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    # coarse, so that there are ties
    cost = data.draw(arrays(np.float64, shape, elements=st.integers(0, 12).map(lambda n: n / 10)))
    pairs = assign(cost, LIMIT)
    assert len({row for row, _ in pairs}) == len({column for _, column in pairs}) == len(pairs)
    assert all(cost[pair] < LIMIT for pair in pairs)
    assert worth(cost, pairs, LIMIT) == pytest.approx(best_of_all(cost, LIMIT))


@pytest.mark.parametrize("shape", [(40, 40), (60, 25), (25, 60), (1, 90)])
def test_as_scipy_pairs_them(shape):
    optimize = pytest.importorskip("scipy.optimize")
    cost = np.random.default_rng(3).random(shape)
    rows, columns = optimize.linear_sum_assignment(np.minimum(cost - LIMIT, 0))
    expected = [(r, c) for r, c in zip(rows.tolist(), columns.tolist()) if cost[r, c] < LIMIT]
    assert worth(cost, assign(cost, LIMIT), LIMIT) == pytest.approx(worth(cost, expected, LIMIT))


def test_nothing_and_not_a_number_are_never_paired():
    assert assign(np.zeros((0, 3)), LIMIT) == []
    assert assign(np.zeros((3, 0)), LIMIT) == []
    assert assign(np.array([[np.nan, 0.1], [np.nan, np.inf]]), LIMIT) == [(0, 1)]
    assert assign(np.array([[LIMIT]]), LIMIT) == []
