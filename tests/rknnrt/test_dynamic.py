"""Models with several input shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.spi import AttrKind
from rknnlite.tensor import Layout
from tests.doubles.double import Double

from .models import AFFINE, DYNAMIC, identity, picture

Start = Callable[..., Any]
SMALL, LARGE = [(1, 4, 6, 3), (1, 4)], [(1, 8, 12, 3), (1, 6)]


def data(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    return [picture(0, shapes[0]), np.zeros(shapes[1], np.float16)]


def test_the_arrays_choose_the_shape(start: Start, double: Double) -> None:
    context = start(*DYNAMIC)
    for shapes in (LARGE, LARGE, SMALL, LARGE):
        assert np.array_equal(context.infer(data(shapes))[0], identity(picture(0, shapes[0])))
    assert double.count("rknn_set_input_shapes") == 3  # not again for the same one


def test_nchw_arrays_choose_it_too(start: Start) -> None:
    context = start(*DYNAMIC)
    image, extra = data(LARGE)
    got = context.infer([np.ascontiguousarray(image.transpose(0, 3, 1, 2)), extra], layout=["nchw", None])
    assert np.array_equal(got[0], identity(image))


def test_attributes_follow_the_shape(start: Start) -> None:
    context = start(*DYNAMIC)
    assert [attr.dims for attr in context.inputs] == SMALL
    context.set_shapes(LARGE)
    assert [attr.dims for attr in context.inputs] == LARGE
    assert [attr.dims for attr in context.outputs] == [(1, 3, 8, 12)]
    assert context.native_outputs[0].dims == (1, 1, 8, 12, 16)
    (current,) = context.attrs(AttrKind.CURRENT_OUTPUT)
    assert (current.layout, current.dims) == (Layout.NHWC, (1, 8, 12, 3))


@pytest.mark.parametrize("shapes", [[(1, 4, 6, 3), (1, 6)], [(1, 5, 6, 3), (1, 4)], [(1, 4, 6, 3)]])
def test_shapes_that_the_model_lacks(start: Start, shapes: list[tuple[int, ...]]) -> None:
    context = start(*DYNAMIC)
    with pytest.raises(
        ParamInvalid, match=r"are not among the model's: .*\[1, 4, 6, 3\].*; .*\[1, 8, 12, 3\]"
    ):
        context.set_shapes(shapes)
    if len(shapes) == 2:
        with pytest.raises(InputInvalid, match=r"are not among the model's"):
            context.infer(data(shapes))
    context.infer(data(SMALL))


def test_static_models_have_one_shape(start: Start) -> None:
    context = start(*AFFINE)
    with pytest.raises(ParamInvalid, match=r"has static shapes: \[\[1, 4, 6, 3\]\]"):
        context.set_shapes([(1, 4, 6, 3)])


def test_no_duplicates(start: Start) -> None:
    with pytest.raises(ParamInvalid, match=r"has dynamic shapes: such contexts cannot be duplicated"):
        start(*DYNAMIC).dup()


def test_a_library_that_fails_half_way(start: Start, double: Double) -> None:
    """The first answer says that the model is dynamic; an error after that is no answer."""
    double.fault("rknn_query", -7, nth=3)
    with pytest.raises(Exception, match=r"rknn_query\(INPUT_DYNAMIC_RANGE\) failed"):
        start(*DYNAMIC)
