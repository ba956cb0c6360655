"""Slopes of PRelu behind a convolution: for each channel, for all, or for each position."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_graph.graph import Node, Tensor, TensorRole
from rknnlite_graph.reading.convolutions import ConvReader, _spread_slopes

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.tensor import DType

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


def test_int16_slopes_that_are_no_slopes() -> None:
    """rk3576 and rv1126b: int32 numbers that hold nothing of the slopes; they were taken for factors of 65,536."""
    reader = ConvReader.__new__(ConvReader)
    x = Tensor(0, "x", DType.INT16, SHAPE, TensorRole.ACTIVATION)
    reader._tensors = [x, Tensor(1, "y", DType.INT16, SHAPE, TensorRole.ACTIVATION)]
    stored = np.array([0, 65536, 0], np.int32).reshape(1, 3, 1, 1)
    slopes = Tensor(2, "s", DType.INT32, (1, 3, 1, 1), TensorRole.CONST, load=lambda: stored)
    with pytest.raises(
        ModelUnsupported, match="left the slopes of int16 PRelu out; convert this layer in float16"
    ):
        reader._slope(slopes, x, NODE)


def test_one_slope_for_all_channels_of_int16_is_a_float() -> None:
    """It is small, but not one that was rounded to a whole number; such files were refused."""
    reader = ConvReader.__new__(ConvReader)
    x = Tensor(0, "x", DType.INT16, SHAPE, TensorRole.ACTIVATION)
    reader._tensors = [x, Tensor(1, "y", DType.INT16, SHAPE, TensorRole.ACTIVATION)]
    stored = np.full((1, 1, 1, 1), 0.25, np.float32)
    slopes = Tensor(2, "s", DType.FLOAT32, stored.shape, TensorRole.CONST, load=lambda: stored)
    assert reader._slope(slopes, x, NODE).tolist() == [0.25] * 3
