"""A frame: set inputs, run, get outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rknnlite import Context
from rknnlite.errors import ContextInvalid, InputInvalid
from rknnlite.spi import Input
from rknnlite.spi.inputs import collect

from .promises import given, promise, refused, same

__all__: list[str] = []  # pytest collects what is here


def inputs_of(context: Context, arrays: list[Any]) -> list[Input]:
    return collect(arrays, context.inputs, shapes=context.shapes)


def test_outputs_are_float32_of_the_announced_shapes(context: Context) -> None:
    found = context.infer(given(context))
    told, real = [attr.dims for attr in context.outputs], [(array.shape, array.dtype.name) for array in found]
    promise(
        real == [(dims, "float32") for dims in told],
        f"get_outputs() gave {real} where Context.outputs say {told}; give float32 arrays of these shapes",
    )


def test_outputs_depend_on_the_inputs(context: Context) -> None:
    promise(
        not same(context.infer(given(context, 1)), context.infer(given(context, 2))),
        "runs on different inputs give the same outputs; take what set_inputs gives you for the next run",
    )


def test_planes_are_the_same_picture(context: Context) -> None:
    arrays = given(context)
    if all(array.ndim != 4 for array in arrays):
        pytest.skip("the model has no input of rank 4")
    planes = [array.transpose(0, 3, 1, 2) if array.ndim == 4 else array for array in arrays]
    words = ["nchw" if array.ndim == 4 else None for array in arrays]
    promise(
        same(context.infer(arrays), context.infer(planes, layout=words)),
        "a picture as NCHW gives other outputs than as NHWC; transpose data whose Input.layout is Layout.NCHW",
    )


def test_inputs_come_in_any_order(context: Context) -> None:
    arrays = given(context)
    expected = context.infer(arrays)
    context.set_inputs(inputs_of(context, arrays)[::-1])
    context.run()
    promise(
        same(expected, context.get_outputs()),
        "inputs in another order give other outputs; pair them by Input.index (rknnlite_backend.running.in_order)",
    )


def test_inputs_are_left_as_they_are(context: Context) -> None:
    arrays = [array.copy() for array in given(context)]
    context.infer(arrays)
    promise(same(arrays, given(context)), "a run wrote into the caller's inputs; work on a copy")


def test_inputs_are_taken_when_they_are_set(context: Context) -> None:
    arrays = [array.copy() for array in given(context)]
    expected = context.infer(given(context))
    context.set_inputs(inputs_of(context, arrays))
    for array in arrays:
        array[...] = 0
    context.run()
    promise(
        same(expected, context.get_outputs()),
        "what the caller wrote into his arrays after set_inputs changed the run; copy the data in set_inputs",
    )


def test_outputs_are_the_callers(context: Context) -> None:
    first = context.infer(given(context))
    kept = [array.copy() for array in first]
    for array in context.get_outputs():
        array[...] = 0
    again = context.get_outputs()
    promise(
        same(again, kept),
        "what the caller wrote into the outputs came back from get_outputs; give arrays of their own",
    )
    context.infer(given(context, 1))
    promise(
        same(first, kept),
        "a later run wrote into outputs that were handed out before; give arrays of their own",
    )


def test_nothing_runs_before_inputs_are_set(context: Context) -> None:
    remedy = "raise rknnlite_backend.running.not_prepared()"
    with refused(ContextInvalid, call="run() before set_inputs", remedy=remedy):
        context.run()


def test_there_are_no_outputs_before_a_run(context: Context) -> None:
    context.set_inputs(inputs_of(context, given(context)))
    remedy = "raise rknnlite_backend.running.not_run()"
    with refused(ContextInvalid, call="get_outputs() before a run", remedy=remedy):
        context.get_outputs()


def test_stored_outputs_mean_the_same_numbers(context: Context) -> None:
    real = context.infer(given(context))
    stored = context.get_outputs(want_float=False)
    for attr, array, number in zip(context.outputs, stored, real):
        promise(
            array.dtype == attr.dtype.numpy and array.size == number.size,
            f"{attr.name}: get_outputs(want_float=False) gave {array.size} elements of {array.dtype}; "
            f"give {number.size} of {attr.dtype.name}",
        )
        scale, zero = attr.quant or (1.0, 0)
        meant = (array.astype(np.float64).reshape(number.shape) - zero) * scale
        close = np.isclose(meant, number, rtol=1e-2, atol=scale / 2 if attr.quant else 1e-6, equal_nan=True)
        if array.dtype.kind == "i":  # what does not fit saturates
            limits = np.iinfo(array.dtype)
            close |= ((array == limits.min) | (array == limits.max)).reshape(number.shape)
        promise(
            close.all(),
            f"{attr.name}: stored elements mean other numbers than get_outputs(); (element - zero_point) * scale is the number",
        )


def test_outputs_are_written_where_the_caller_wants(context: Context) -> None:
    expected = context.infer(given(context))
    places = [np.full(array.shape, np.nan, np.float32) for array in expected]
    context.get_outputs_into(places)
    promise(
        same(places, expected),
        "get_outputs_into(arrays) left other numbers there than get_outputs() gives; fill every array",
    )


def test_a_wrong_shape_is_refused_and_the_next_frame_is_right(context: Context) -> None:
    arrays = given(context)
    expected = context.infer(arrays)
    first = arrays[0]
    wrong = np.zeros(
        (*first.shape[:-1], first.shape[-1] + 29), first.dtype
    )  # channels of pictures, which none has free
    remedy = "check the shape in set_inputs, or call follow_shapes(inputs) there where shapes are dynamic"
    if any(tuple(wrong.shape) == entry[0] for entry in context.shapes):
        pytest.skip("the model takes that shape, too")
    if first.ndim != 4 and context.shapes:
        pytest.skip("the shapes of the first input are free")
    with refused(
        InputInvalid, call=f"set_inputs with {list(wrong.shape)} for {list(first.shape)}", remedy=remedy
    ):
        context.infer([wrong, *arrays[1:]])
    promise(
        same(context.infer(arrays), expected),
        "the frame after a refused one is wrong; check inputs before you keep any",
    )


def test_a_missing_input_is_refused(context: Context) -> None:
    with refused(
        InputInvalid, call="set_inputs([])", remedy="rknnlite_backend.running.in_order(inputs, attrs) does so"
    ):
        context.set_inputs([])


def test_elements_that_pass_through_have_the_tensors_size(context: Context) -> None:
    arrays = given(context)
    if context.shapes:
        context.set_shapes([attr.dims for attr in context.inputs])
    frame = inputs_of(context, arrays)
    frame[0] = Input(0, np.zeros(context.inputs[0].size + 1, np.uint8), frame[0].layout, pass_through=True)
    remedy = "data with pass_through is the tensor's very bytes: count them, or refuse it where you take none"
    with refused(InputInvalid, call="set_inputs with a byte too many passed through", remedy=remedy):
        context.set_inputs(frame)


def test_the_time_of_a_run_is_told(opened: Callable[..., Context]) -> None:
    context = opened()
    before = context.last_run_us
    context.infer(given(context))
    after = context.last_run_us
    promise(
        before == 0 and isinstance(after, int) and after >= 0,
        f"last_run_us is {before!r} before a run and {after!r} behind it; count whole microseconds of the run alone, 0 before one",
    )
