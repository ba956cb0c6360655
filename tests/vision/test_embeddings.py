"""Embeddings: only by hint, and only of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_vision.heads.recognise import recognise
from rknnlite_vision.results import Embedding

from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr

IMAGE = [TensorAttr(0, "images", (1, 112, 112, 3), DType.UINT8, Layout.NHWC)]
VECTOR = [TensorAttr(0, "fc1", (1, 4), DType.INT8, Layout.UNDEFINED, QuantParams(0.5, 2))]


def test_a_vector_is_real_numbers() -> None:
    head = recognise(IMAGE, VECTOR, hint="arcface")
    assert head.family == "embedding, 4 numbers"
    found = head.decode([np.array([[2, 4, 0, 8]], np.int8)])[0]
    assert found.vector.tolist() == [0, 1, -1, 3]


def test_a_vector_with_nan_is_refused() -> None:
    with pytest.raises(InputInvalid, match="1 of them are NaN"):
        recognise(IMAGE, VECTOR, hint="embedding").decode([np.array([[0, np.nan, 1, 1]], np.float32)])


def test_distances() -> None:
    assert Embedding(np.array([3.0, 4.0])).l2(Embedding(np.zeros(2))) == 5
    with pytest.raises(ParamInvalid, match="2 numbers and 3"):
        Embedding(np.zeros(2)).l2(Embedding(np.zeros(3)))
