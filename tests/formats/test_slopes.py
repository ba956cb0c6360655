"""Slopes of PRelu behind a convolution: for each channel, for all, or for each position."""

from __future__ import annotations

import numpy as np
import pytest

from rknnlite.errors import ModelInvalid
from rknnlite.formats.convolutions import _spread_slopes
from rknnlite.graph import Node

NODE = Node(1, "ConvPRelu", "layer", [0], [1])
SHAPE = (1, 3, 2, 4)


@pytest.mark.parametrize("shape", [(1, 3, 1, 1), (3, 1, 1), (3,)])
def test_per_channel(shape: tuple[int, ...]) -> None:
    slopes = np.array([1, 2, 3], np.float32)
    assert _spread_slopes(slopes.reshape(shape), SHAPE, NODE).tolist() == [1, 2, 3]


def test_one_for_all() -> None:
    assert _spread_slopes(np.full((1, 1, 1, 1), 0.25, np.float32), SHAPE, NODE).tolist() == [0.25] * 3


@pytest.mark.parametrize("shape", [(1, 1, 2, 4), (1, 1, 1, 4), (1, 3, 2, 4), (1, 1, 2, 1)])
def test_per_position(shape: tuple[int, ...]) -> None:
    slopes = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    assert np.array_equal(_spread_slopes(slopes, SHAPE, NODE), np.broadcast_to(slopes, SHAPE)[0])


def test_what_does_not_fit() -> None:
    with pytest.raises(
        ModelInvalid, match=r'ConvPRelu "layer": slopes of shape \[5, 1, 1\] for a result of shape'
    ):
        _spread_slopes(np.ones(5, np.float32), SHAPE, NODE)
