"""Dynamic shapes: what ``Context.shapes`` lists can be chosen, and a frame chooses by its arrays."""

from __future__ import annotations

import pytest

from rknnlite import Context
from rknnlite.errors import ParamInvalid

from .promises import given, promise, refused, same

__all__: list[str] = []  # pytest collects what is here


@pytest.fixture
def dynamic(context: Context) -> Context:
    """A context with shapes to choose from."""
    if not context.shapes:
        pytest.skip("the model has static shapes")
    return context


def test_shapes_are_one_for_each_input(context: Context) -> None:
    shapes = context.shapes
    promise(
        isinstance(shapes, list) and all(len(entry) == len(context.inputs) for entry in shapes),
        f"Context.shapes is {shapes!r:.120}; list entries of one tuple per input, [] for a static model",
    )
    legal = [[tuple(dims) for dims in entry] for entry in shapes]
    promise(
        not shapes or [attr.dims for attr in context.inputs] in legal,
        f"the inputs of a fresh context are {[attr.dims for attr in context.inputs]}, none of "
        "Context.shapes; begin with one of them",
    )


def test_a_static_model_takes_no_other_shapes(context: Context) -> None:
    if context.shapes:
        pytest.skip("the model has dynamic shapes")
    remedy = "leave set_shapes as the class has it"
    with refused(ParamInvalid, call="set_shapes of a static model", remedy=remedy):
        context.set_shapes([(*attr.dims[:-1], attr.dims[-1] + 1) for attr in context.inputs])


def test_chosen_shapes_are_in_force(dynamic: Context) -> None:
    for entry in dynamic.shapes:
        dynamic.set_shapes(entry)
        found = [attr.dims for attr in dynamic.inputs]
        promise(
            found == list(map(tuple, entry)),
            f"behind set_shapes({entry}) inputs are {found}; make the attributes anew there",
        )


def test_outputs_follow_the_chosen_shapes(dynamic: Context) -> None:
    for entry in dynamic.shapes:
        dynamic.set_shapes(entry)
        told = [attr.dims for attr in dynamic.outputs]
        found = [array.shape for array in dynamic.infer(given(dynamic))]
        promise(
            told == found,
            f"behind set_shapes({entry}) outputs say {told}, and a run gives {found}; make them anew there",
        )


def test_a_frame_has_the_shapes_of_its_arrays(dynamic: Context) -> None:
    arrays, expected = [], []
    for entry in dynamic.shapes:
        dynamic.set_shapes(entry)
        arrays.append(given(dynamic))
        expected.append(dynamic.infer(arrays[-1]))
    for number, each in enumerate(arrays):
        try:
            found = dynamic.infer(each)
        except Exception as error:
            promise(
                False,
                f"a frame of other shapes raised {type(error).__name__} ({error}); call self.follow_shapes(inputs) in set_inputs",
            )
        else:
            promise(
                same(found, expected[number]),
                "a frame of other shapes gives other outputs than after set_shapes; call self.follow_shapes(inputs) in set_inputs",
            )


def test_shapes_that_the_model_lacks_are_refused(dynamic: Context) -> None:
    wrong = [(*attr.dims, 1) for attr in dynamic.inputs]
    remedy = "rknnlite_backend.running.find_shapes does so"
    with refused(ParamInvalid, call=f"set_shapes({wrong})", remedy=remedy):
        dynamic.set_shapes(wrong)
