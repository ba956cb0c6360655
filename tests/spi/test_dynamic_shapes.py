"""Following a dynamic shape: what every backend with several shapes does with the arrays of a frame."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from rknnlite_backend.running import find_shapes

from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.spi import Input
from rknnlite.spi.inputs import ShapesRefused
from rknnlite.tensor import DType, Layout, TensorAttr

from .test_spi import Echo

SMALL, LARGE = [(1, 4, 6, 3), (1, 5)], [(1, 8, 12, 3), (1, 7)]


def attrs(shapes: Sequence[tuple[int, ...]]) -> list[TensorAttr]:
    image, state = shapes
    return [
        TensorAttr(0, "image", image, DType.INT8, Layout.NHWC),
        TensorAttr(1, "state", state, DType.FLOAT16, Layout.UNDEFINED),
    ]


class Dynamic(Echo):
    """Takes pictures of two sizes."""

    shapes = [SMALL, LARGE]  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.inputs = attrs(SMALL)
        self.chosen: list[int] = []

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        number = find_shapes("model.rknn", shapes, self.shapes, self.inputs)
        self.chosen.append(number)
        self.inputs = attrs(self.shapes[number])


def given(shapes: Sequence[tuple[int, ...]], pass_through: bool = False) -> list[Input]:
    image, state = (np.zeros(shape, np.int8) for shape in shapes)
    return [Input(1, state, Layout.UNDEFINED), Input(0, image, Layout.NHWC, pass_through)]


def test_shapes_are_selected_when_they_change() -> None:
    context = Dynamic()
    for shapes in (SMALL, SMALL, LARGE, LARGE, SMALL):
        context.follow_shapes(given(shapes))
    assert context.chosen == [0, 1, 0]


def test_images_may_be_nchw() -> None:
    context = Dynamic()
    context.follow_shapes([Input(0, np.zeros((1, 3, 8, 12)), Layout.NCHW), given(LARGE)[0]])
    assert context.chosen == [1]


def test_shapes_that_the_model_lacks() -> None:
    with pytest.raises(
        ShapesRefused, match=r"model.rknn: .* are not among the model's: \[\[1, 4, 6, 3\], \[1, 5\]\]; "
    ) as caught:
        Dynamic().follow_shapes(given([(1, 4, 6, 3), (1, 7)]))
    assert isinstance(caught.value, InputInvalid)
    assert caught.value.given == [(1, 4, 6, 3), (1, 7)]


def test_data_that_is_passed_through_goes_with_the_selected_shape() -> None:
    context = Dynamic()
    with pytest.raises(InputInvalid, match="choose the shape of a dynamic model"):
        context.follow_shapes(given(SMALL, pass_through=True))
    context.follow_shapes(given(LARGE, pass_through=True), passed_through=True)
    context.follow_shapes(given(SMALL, pass_through=True))
    assert context.chosen == [1]


def test_a_static_model_has_nothing_to_follow() -> None:
    Echo().follow_shapes(given(SMALL))  # its set_shapes would raise
    with pytest.raises(ParamInvalid, match=r"has static shapes: \[\[1, 4, 6, 3\], \[1, 5\]\]"):
        find_shapes("model.rknn", SMALL, [], attrs(SMALL))


def test_shapes_that_the_model_has_not_are_refused_as_librknnrt_does() -> None:
    with pytest.raises(ParamInvalid, match="are not among the model's") as caught:
        find_shapes("model.rknn", [(9, 9, 9, 9), (1, 5)], [SMALL, LARGE], attrs(SMALL))
    assert caught.value.code == -1
