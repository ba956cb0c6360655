"""set_inputs, run, get_outputs: data byte by byte, buffers that do not fit, order of calls."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rknnlite import layout
from rknnlite.errors import ContextInvalid, InputInvalid, OutputInvalid, RunTimeout
from rknnlite.spi import Input
from rknnlite.tensor import Layout
from tests.doubles.double import Double
from tests.support.interrupts import check_interrupts

from .models import AFFINE, FLOATS, NATIVE, SCORES, TWO, identity, picture, scores, scores_stored, stored

Start = Callable[..., Any]


def nhwc(data: np.ndarray, index: int = 0) -> Input:
    return Input(index, data)


def test_three_calls_per_inference(start: Start, double: Double) -> None:
    """The vendor's wheel makes nine; the library copies in, runs, and writes into our arrays."""
    context = start(*AFFINE)
    context.infer(picture())
    before = {name: double.count(name) for name in ("rknn_query", "rknn_inputs_set", "rknn_run")}
    context.infer(picture())
    assert double.count("rknn_query") == before["rknn_query"]
    assert double.count("rknn_inputs_set") == before["rknn_inputs_set"] + 1
    assert double.count("rknn_run") == before["rknn_run"] + 1
    assert double.count("rknn_outputs_get") == double.count("rknn_outputs_release") == 2


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
)
def test_element_types_of_inputs(start: Start, dtype: str) -> None:
    image, context = picture(), start(*AFFINE)
    context.set_inputs([nhwc(image.astype(dtype))])
    context.run()
    assert np.array_equal(context.get_outputs()[0], scores(image))


def test_values_are_quantised_and_saturate(start: Start) -> None:
    context = start("input x float32 2 1 6", "output y int8 2 1 6 0.5 -3", "op affine 1 0")
    values = np.float32([[-1000, -0.26, 0.25, 0.2501, 12.3, 1000]])
    context.infer(values)
    assert np.array_equal(context.get_outputs(want_float=False)[0], stored(values, 0.5, -3))


@pytest.mark.parametrize(
    "view",
    [
        lambda image: image[:, ::-1],
        lambda image: np.asfortranarray(image),
        lambda image: np.repeat(image, 2, axis=2)[:, :, ::2],
        lambda image: np.broadcast_to(image[:, :1], image.shape),
        lambda image: image.view().astype(">i2"),
    ],
    ids=["reversed", "fortran", "gaps", "broadcast", "byte order"],
)
def test_arrays_that_lie_differently(start: Start, view: Callable[[np.ndarray], np.ndarray]) -> None:
    array = view(picture())
    assert np.array_equal(start(*AFFINE).infer(array)[0], scores(np.asarray(array, np.uint8)))


def test_read_only_inputs(start: Start) -> None:
    image = picture()
    image.flags.writeable = False
    assert np.array_equal(start(*AFFINE).infer(image)[0], scores(image))


def test_nchw(start: Start) -> None:
    image = picture()
    given = np.ascontiguousarray(image.transpose(0, 3, 1, 2))
    assert np.array_equal(start(*AFFINE).infer(given, layout="nchw")[0], scores(image))


@pytest.mark.parametrize("opencv", [True, False])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, np.int8])
def test_nchw_of_every_type(start: Start, dtype: type, opencv: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not opencv:
        monkeypatch.setattr(layout, "opencv_merge", lambda: None)
    image = picture()
    given = np.ascontiguousarray(image.transpose(0, 3, 1, 2).astype(dtype))
    given.flags.writeable = False
    assert np.array_equal(start(*NATIVE).infer(given, layout="nchw")[0], identity(image))


@pytest.mark.parametrize("opencv", [True, False])
def test_nchw_does_not_go_pixel_by_pixel(start: Start, opencv: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numpy's own transposed copy has an inner loop of three elements: seven times the instructions and more."""
    if not opencv:
        monkeypatch.setattr(layout, "opencv_merge", lambda: None)
    context = start("input image int8 4 1 320 320 3 0.5 -3", SCORES, "op none")
    planes = np.zeros((1, 3, 320, 320), np.uint8)
    out = np.empty((1, 320, 320, 3), np.uint8)
    inputs = [Input(0, planes, Layout.NCHW)]

    def fastest(once: Callable[[], Any]) -> float:
        return min(timeit.repeat(once, number=1, repeat=30))

    plain = fastest(lambda: np.copyto(out, planes.transpose(0, 2, 3, 1)))
    assert fastest(lambda: context._feed.put(inputs)) < 0.6 * plain


def test_inputs_in_any_order(start: Start) -> None:
    context = start(*TWO)
    state = np.arange(8, dtype=np.float16).reshape(1, 8)
    context.set_inputs([Input(1, state, Layout.UNDEFINED), nhwc(picture())])
    context.run()
    got, following = context.get_outputs()
    assert np.array_equal(got, identity(picture()))
    assert np.array_equal(following, state.astype(np.float32))


def test_pass_through_hands_over_the_bytes(start: Start) -> None:
    context = start(*NATIVE)
    elements = np.random.default_rng(1).integers(-128, 128, (1, 4, 6, 3), dtype=np.int8)
    got = context.infer(elements, pass_through=True, raw=True)[0]
    assert np.array_equal(got.data, elements.transpose(0, 3, 1, 2))
    assert (got.scale, got.zero_point) == (0.5, -3)


def test_pass_through_with_the_padding_of_rows(start: Start) -> None:
    """w_stride is 16 pixels: 4 rows of 16 pixels, 10 of them padding."""
    context = start(*NATIVE)
    rows = np.random.default_rng(2).integers(-128, 128, (1, 4, 16, 3), dtype=np.int8)
    got = context.infer(rows, pass_through=True, raw=True)[0]
    assert np.array_equal(got.data, rows[:, :, :6].transpose(0, 3, 1, 2))


def test_pass_through_of_nc1hwc2(start: Start) -> None:
    context = start(*FLOATS)
    values = np.random.default_rng(3).normal(size=(1, 7, 3, 5)).astype(np.float16)
    native = np.zeros((1, 1, 3, 5, 8), np.float16)
    native[0, 0, :, :, :7] = values[0].transpose(1, 2, 0)
    got = context.infer(native, pass_through=True)[0]
    assert np.array_equal(got, (values.astype(np.float64) + 0.5).astype(np.float16).astype(np.float32))


def test_outputs_as_floats_and_as_stored(start: Start) -> None:
    context = start(*AFFINE)
    context.infer(picture())
    floats, raw = context.get_outputs(), context.get_outputs(want_float=False)
    assert floats[0].dtype == np.float32 and np.array_equal(floats[0], scores(picture()))
    assert raw[0].dtype == np.int8 and np.array_equal(raw[0], scores_stored(picture()))


def test_native_outputs_come_in_logical_order(start: Start) -> None:
    assert np.array_equal(start(*NATIVE).infer(picture())[0], identity(picture()))


def test_outputs_are_the_callers_own(start: Start) -> None:
    context = start(*AFFINE)
    first = context.infer(picture(1))[0]
    kept = first.copy()
    context.infer(picture(2))
    assert np.array_equal(first, kept) and first.flags.owndata


def test_outputs_into_given_arrays(start: Start) -> None:
    context = start(*TWO)
    arrays = [np.empty((1, 3, 4, 6), np.float32), np.empty((1, 8), np.float32)]
    for seed in (1, 2):
        context.set_inputs([nhwc(picture(seed)), Input(1, np.ones((1, 8), np.float16), Layout.UNDEFINED)])
        context.run()
        context.get_outputs_into(arrays)
        assert np.array_equal(arrays[0], identity(picture(seed)))
        assert np.array_equal(arrays[1], np.ones((1, 8)))


def test_stored_elements_into_given_arrays(start: Start) -> None:
    context = start(*AFFINE)
    mine = np.empty((1, 10), np.int8)
    for seed in (1, 2):
        floats = context.infer(picture(seed))
        context.get_outputs_into([mine], want_float=False)
        assert np.array_equal(mine, scores_stored(picture(seed))) and np.array_equal(
            floats[0], scores(picture(seed))
        )


@pytest.mark.parametrize(
    "array",
    [
        np.empty((1, 11), np.float32),
        np.empty((1, 10), np.float64),
        np.empty((1, 20), np.float32)[:, ::2],
        np.broadcast_to(np.float32(0), (1, 10)),
    ],
    ids=["shape", "type", "gaps", "read-only"],
)
def test_given_arrays_that_do_not_fit(start: Start, array: np.ndarray) -> None:
    context = start(*AFFINE)
    context.infer(picture())
    with pytest.raises(OutputInvalid, match=r"C-contiguous, writable arrays are needed: float32 \[1, 10\]"):
        context.get_outputs_into([array])
    with pytest.raises(OutputInvalid):
        context.get_outputs_into([])


WRONG = [
    (np.zeros((1, 4, 6, 4), np.uint8), "input image: expected shape .1, 4, 6, 3., got .1, 4, 6, 4."),
    (np.zeros((2, 4, 6, 3), np.uint8), "expected shape"),
    (np.zeros((1, 4, 6, 3), np.complex64), "element type complex64"),
    (np.zeros((1, 4, 6, 3), object), "element type object"),
]


@pytest.mark.parametrize("array, text", WRONG)
def test_inputs_that_do_not_fit(start: Start, array: np.ndarray, text: str) -> None:
    context = start(*AFFINE)
    with pytest.raises(InputInvalid, match=text):
        context.set_inputs([nhwc(array)])
    assert np.array_equal(context.infer(picture())[0], scores(picture()))


def test_wrong_number_of_inputs(start: Start) -> None:
    context = start(*TWO)
    with pytest.raises(InputInvalid, match=r"the model needs inputs \['image', 'state'\], 1 were given"):
        context.set_inputs([nhwc(picture())])
    with pytest.raises(InputInvalid, match=r"\['state'\] are missing"):
        context.set_inputs([nhwc(picture()), nhwc(picture())])


def test_wrong_number_of_bytes_passed_through(start: Start) -> None:
    context = start(*NATIVE)
    with pytest.raises(
        InputInvalid, match=r"71 bytes passed through, but .* \(INT8 \[1, 4, 6, 3\]\) takes 72 or 192"
    ):
        context.set_inputs([Input(0, np.zeros(71, np.int8), pass_through=True)])


def test_order_of_calls(start: Start) -> None:
    context = start(*AFFINE)
    with pytest.raises(ContextInvalid, match=r"set inputs \(or bind memory\) before running"):
        context.run()
    with pytest.raises(ContextInvalid, match=r"run the model before asking for outputs"):
        context.get_outputs()
    context.set_inputs([nhwc(picture())])
    with pytest.raises(ContextInvalid, match=r"run the model before asking for outputs"):
        context.get_outputs()
    context.run()
    context.run()  # the inputs stay
    assert np.array_equal(context.get_outputs()[0], scores(picture()))


def test_short_outputs(start: Start, double: Double) -> None:
    context = start(*AFFINE)
    double.short("rknn_outputs_get")
    with pytest.raises(OutputInvalid, match=r"filled 20 of 40 bytes of output scores; .* update the runtime"):
        context.infer(picture())
    assert np.array_equal(context.infer(picture())[0], scores(picture()))


# -- runs that do not block --------------------------------------------------------------------------------


def test_start_and_wait(start: Start) -> None:
    context = start(*AFFINE, "latency 2000")
    context.set_inputs([nhwc(picture())])
    for expected in range(3):
        frame = context.start()
        assert frame == expected
        context.wait(frame)
        assert np.array_equal(context.get_outputs()[0], scores(picture()))


def test_a_run_that_takes_too_long(start: Start) -> None:
    context = start(*AFFINE, "latency 50000")
    context.set_inputs([nhwc(picture())])
    frame = context.start(timeout_ms=1)
    with pytest.raises(RunTimeout, match=r"frame 0 was not done in 1 ms"):
        context.wait(frame, timeout_ms=1)
    context.wait(frame)
    assert np.array_equal(context.get_outputs()[0], scores(picture()))


def test_async_mode_gives_the_previous_frame(start: Start) -> None:
    context = start(*AFFINE, async_mode=True)
    got, frames = [], []
    for seed in range(4):
        context.set_inputs([nhwc(picture(seed))])
        context.run()
        got.append(context.get_outputs()[0])
        frames.append(context.frame_id)
    assert frames == [0, 0, 1, 2]
    for output, frame in zip(got, frames):
        assert np.array_equal(output, scores(picture(frame)))


def test_frames_are_counted_in_async_mode_only(start: Start) -> None:
    context = start(*AFFINE)
    context.infer(picture())
    assert context.frame_id is None


def test_a_signal_handler_in_the_middle_of_a_frame_is_refused(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_interrupts(start(*AFFINE), [picture(0, (1, 4, 6, 3))], monkeypatch)
