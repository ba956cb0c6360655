"""The old ``rknn_set_input_shape``: shapes of all inputs from that of one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rknnlite_capi import shapes_with

from rknnlite import errors
from rknnlite.abi.rknn_op import TensorAttrStruct

Shapes = list[tuple[int, ...]]
LEGAL: list[Shapes] = [
    [(1, 8), (1, 4), (1, 2)], [(1, 8), (1, 5), (1, 3)], [(1, 9), (1, 4), (1, 3)], [(1, 9), (1, 5), (1, 2)],
]  # fmt: skip


def opened(legal: list[Shapes]) -> Any:
    return SimpleNamespace(inputs=[SimpleNamespace(dims=dims) for dims in LEGAL[0]], shapes=legal)


def asked(index: int, *dims: int) -> TensorAttrStruct:
    struct = TensorAttrStruct(index=index, n_dims=len(dims), name=b"x")
    struct.dims[: len(dims)] = dims
    return struct


def test_one_input_after_the_other_ends_at_the_shapes_that_are_meant() -> None:
    chosen: dict[int, tuple[int, ...]] = {}
    context = opened(LEGAL)
    for wanted in (LEGAL[3], LEGAL[0], LEGAL[2], LEGAL[1], LEGAL[3]):
        for order in ((0, 1, 2), (2, 0, 1)):
            for index in order:
                shapes = shapes_with(asked(index, *wanted[index]), context, chosen)
                assert shapes in LEGAL and shapes[index] == wanted[index]
            assert shapes == wanted


def test_one_alone_takes_the_first_that_fit() -> None:
    assert shapes_with(asked(1, 1, 5), opened(LEGAL), {}) == LEGAL[1]
    assert shapes_with(asked(1, 1, 5), opened(LEGAL), {0: (1, 9)}) == LEGAL[3]


@pytest.mark.parametrize("legal", [LEGAL, []])
def test_what_there_is_not_is_left_to_the_context_to_refuse(legal: list[Shapes]) -> None:
    chosen = {0: (1, 9)}
    assert shapes_with(asked(1, 7, 7), opened(legal), chosen) == [(1, 8), (7, 7), (1, 2)]
    assert chosen == {0: (1, 9)}
    with pytest.raises(errors.ParamInvalid, match="input 3, the model has 3"):
        shapes_with(asked(3, 1, 8), opened(legal), chosen)
