"""Products with packed weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from rknnlite_cpu.llm import linear, lora
from rknnlite_cpu.llm.linear import half_bits, make_linear
from rknnlite_llm.weights import pack

STEP = {"f32": 1e-6, "f16": 2.0**-11, "bf16": 2.0**-8, "w8": 1 / 127, "w4": 1 / 8}
"""Largest relative error of a weight, against the largest of its group for the integer formats."""


def _linear(matrix: np.ndarray, weights: str):
    parts = pack("m", matrix, weights)
    scale = parts.get("m.scale")
    return make_linear(weights, parts["m"][1], scale[1] if scale else None, matrix.shape[1], matrix.shape[0])


@pytest.mark.parametrize("weights", list(STEP))
@pytest.mark.parametrize(("inputs", "outputs"), [(32, 64), (40, 100), (96, 5), (1, 1), (256, 700)])
def test_products_are_right_within_the_step_of_the_format(weights: str, inputs: int, outputs: int) -> None:
    random = np.random.default_rng(0)
    matrix = random.normal(0, 0.02, (outputs, inputs)).astype(np.float32)
    x = random.normal(0, 1, (3, inputs)).astype(np.float32)
    linear = _linear(matrix, weights)
    bound = STEP[weights] * np.abs(x).sum(axis=1).max() * np.abs(matrix).max() + 1e-6
    assert np.abs(linear(x) - x @ matrix.T).max() <= bound
    one = np.concatenate([linear(row[None]) for row in x])
    assert np.abs(one - linear(x)).max() < 1e-5


@pytest.mark.parametrize("weights", ["w8", "w4"])
def test_codes_reproduce_weights_that_lie_on_the_grid(weights: str) -> None:
    top = 127 if weights == "w8" else 7
    codes = np.random.default_rng(0).integers(-top, top + 1, (64, 64)).astype(np.float32)
    codes[:, ::32] = -8 if weights == "w4" else 127  # the largest of each group fixes the scale
    matrix = codes * np.float32(0.125)
    assert np.array_equal(_linear(matrix, weights)(np.eye(64, dtype=np.float32)).T, matrix)


@given(hnp.arrays(np.float16, 8, elements=st.floats(-65504, 65504, width=16)))
def test_half_bits_widen_every_finite_value_exactly(values: np.ndarray) -> None:
    out = np.empty(8, np.float32)
    half_bits(values.view(np.int16), out)
    assert np.array_equal(out.astype(np.float64) * 2.0**112, values.astype(np.float64))


def test_large_activations_survive_half_weights() -> None:
    matrix = np.full((4, 32), 0.5, np.float32)
    x = np.full((1, 32), 60000.0, np.float32)
    assert np.allclose(_linear(matrix, "f16")(x), x @ matrix.T)


@pytest.mark.parametrize("weights", ["w8", "w4"])
@pytest.mark.parametrize("rows", [2, 5, 16, 17])
def test_rows_together_are_what_they_are_alone(weights: str, rows: int) -> None:
    random = np.random.default_rng(rows)
    linear = _linear(random.normal(0, 0.02, (300, 896)).astype(np.float32), weights)
    x = random.normal(0, 1, (rows, 896)).astype(np.float32)
    alone = np.concatenate([linear(row[None]) for row in x])
    assert np.abs(linear(x) - alone).max() < 5e-6


@pytest.mark.parametrize("weights", ["w8", "w4"])
def test_few_rows_round_as_one_does_because_products_are_scaled(weights: str) -> None:
    """The way of many rows scales the weights, which takes longer and rounds elsewhere."""
    random = np.random.default_rng(0)
    linear = _linear(random.normal(0, 0.02, (300, 896)).astype(np.float32), weights)
    x = random.normal(0, 1, (4, 896)).astype(np.float32)
    alone = np.concatenate([linear(row[None]) for row in x])
    assert np.abs(linear(x) - alone).max() < np.abs(linear._many(x) - alone).max()


def test_buffers_are_lent_to_one_computation_at_a_time() -> None:
    """The inner one is a signal handler's, in the middle of the outer one's product."""
    scratch = linear.Scratch()
    with scratch.lent() as outer:
        mine = outer.get("wide", (4, 8))
        with scratch.lent() as inner:
            assert not np.shares_memory(inner.get("wide", (4, 8)), mine)
    with scratch.lent() as outer, scratch.lent() as inner:
        assert np.shares_memory(inner.get("wide", (4, 8)), mine) or outer.get("wide", (4, 8)) is mine


def test_adapters_of_an_interrupted_pass_come_back() -> None:
    pairs = {"q": (np.ones((3, 1), np.float32), np.ones((1, 2), np.float32))}
    enabled = ((lora.Adapter("a", "digest", pairs), 1.0),)
    product = lora.Adapted("q", linear.Plain(np.zeros((3, 2), np.float32), 3, 2))
    x = np.ones((1, 3), np.float32)
    with lora.adapting([(slice(0, 1), enabled)]):
        with lora.adapting([]):  # a signal handler's, of a session without adapters
            assert not product(x).any()
        assert (product(x) == 3).all()
    assert not product(x).any()
