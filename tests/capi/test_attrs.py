"""``rknn_tensor_attr`` given by programs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rknnlite.capi import attr_struct, shapes_with
from rknnlite.errors import ParamInvalid
from rknnlite.tensor import DType, Layout, TensorAttr

SMALL, WIDE, LARGE = (1, 8, 8, 3), (1, 8, 16, 3), (1, 16, 16, 3)
CHOICES = [[SMALL, SMALL], [LARGE, LARGE], [LARGE, WIDE]]


def given(index: int, dims: tuple[int, ...]) -> Any:
    return attr_struct(TensorAttr(index, f"in{index}", dims, DType.INT8, Layout.NHWC))


def test_shapes_set_for_one_input_after_the_other() -> None:
    """Each call leaves a combination that the model has, and the last one that which was meant."""
    model: Any = SimpleNamespace(shapes=CHOICES, inputs=[])
    chosen = CHOICES[0]
    for wanted in (CHOICES[2], CHOICES[0], CHOICES[1], CHOICES[2]):
        for index in (0, 1):
            model.inputs = [SimpleNamespace(dims=dims) for dims in chosen]
            chosen = shapes_with(given(index, wanted[index]), model)
            assert chosen in CHOICES and chosen[index] == wanted[index]
        assert chosen == wanted
    assert shapes_with(given(1, (1, 9, 9, 3)), model) not in CHOICES  # refused where it is to be used
    with pytest.raises(ParamInvalid, match="input 2 does not exist, the model has 2 inputs"):
        shapes_with(given(2, SMALL), model)
