"""Frames under way: asynchronous mode, frames that are begun and waited for, their numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rknnlite.errors import ContextInvalid, ParamInvalid, RknnError, RunTimeout
from rknnlite.spi import Input
from tests.doubles.rknn1.double1 import Double1

from .conftest import picture, scores

Start = Callable[..., Any]


def test_async_mode_gives_the_frame_before(start: Start, double: Double1) -> None:
    context = start(options={"async_mode": True})
    assert double.flags() == 4
    images = [picture(seed) for seed in range(5)]
    found = [context.infer(image)[0] for image in images]
    np.testing.assert_array_equal(found[0], scores(images[0]))  # there is none before
    for image, out in zip(images, found[1:]):
        np.testing.assert_array_equal(out, scores(image))
    assert context.frame_id == 4


def test_runs_ahead_in_async_mode_end(start: Start) -> None:
    context = start(options={"async_mode": True})
    context.set_inputs([Input(0, picture())])
    for _ in range(3):
        context.run()
    with pytest.raises(ContextInvalid, match="3 frames have been begun"):
        context.run()
    with pytest.raises(ParamInvalid, match="exclude each other"):
        context.start()


def test_frames_begun_and_waited_for(start: Start) -> None:
    context, frames = start(us=20_000), {}
    for seed in range(3):
        context.set_inputs([Input(0, picture(seed))])
        frames[context.start()] = scores(picture(seed))
    with pytest.raises(ContextInvalid, match="3 frames have been begun"):
        context.start()
    for number, expected in frames.items():
        context.wait(number)
        np.testing.assert_array_equal(context.get_outputs()[0], expected)
        assert context.frame_id == number
    with pytest.raises(ParamInvalid, match=f"frame 77 is not under way; the last one that began is {number}"):
        context.wait(77)


def test_start_does_not_wait(start: Start) -> None:
    context = start(us=300_000)
    context.set_inputs([Input(0, picture())])
    began = time.monotonic()
    number = context.start()
    assert time.monotonic() - began < 0.2
    context.wait(number)
    assert time.monotonic() - began >= 0.3


def test_outputs_of_a_frame_that_was_begun(start: Start) -> None:
    """``get_outputs`` waits for the frame that it answers."""
    context = start(us=20_000)
    context.set_inputs([Input(0, picture())])
    context.start()
    np.testing.assert_array_equal(context.get_outputs()[0], scores(picture()))
    context.start()
    raw = context.get_outputs(want_float=False)[0]
    np.testing.assert_array_equal((raw.astype(np.float32) - 100) * 0.5, scores(picture()))


def test_waiting_for_a_later_frame_drops_the_earlier_ones(start: Start) -> None:
    context = start()
    for seed in range(2):
        context.set_inputs([Input(0, picture(seed))])
        last = context.start()
    context.wait(last)
    mine = np.empty((1, 72), np.float32)
    context.get_outputs_into([mine])
    np.testing.assert_array_equal(mine, scores(picture(1)))


def test_time_limit(start: Start) -> None:
    """The library has none: the wait ends, the frame goes on, and nothing else is let in meanwhile."""
    context = start(us=200_000)
    context.set_inputs([Input(0, picture())])
    number = context.start()
    with pytest.raises(RunTimeout, match=f"frame {number} was not done in 20 ms"):
        context.wait(number, 20)
    for use in (context.run, context.get_outputs, lambda: context.versions, context.map_inputs):
        with pytest.raises(ContextInvalid, match="still under way"):
            use()
    context.wait(number, 5000)
    with pytest.raises(ContextInvalid, match="has fetched this frame as float32"):
        context.get_outputs(want_float=False)
    np.testing.assert_array_equal(context.get_outputs()[0], scores(picture()))


def test_closing_waits_for_the_frame(start: Start) -> None:
    context = start(us=100_000)
    context.set_inputs([Input(0, picture())])
    with pytest.raises(RunTimeout):
        context.wait(context.start(), 10)
    context.close()


def test_errors_come_with_the_wait(start: Start, double: Double1) -> None:
    context = start()
    context.set_inputs([Input(0, picture())])
    for limit in (0, 5000):
        number = context.start()
        double.fault("rknn_outputs_get", -2)
        with pytest.raises(RunTimeout, match="rknn_outputs_get failed"):
            context.wait(number, limit)
    np.testing.assert_array_equal(context.infer(picture())[0], scores(picture()))


def test_frames_on_mapped_outputs(start: Start) -> None:
    context = start(us=20_000)
    (got,) = context.map_outputs()
    context.set_inputs([Input(0, picture())])
    context.wait(context.start())
    np.testing.assert_array_equal((got.ndarray.astype(np.float32) - 100)[None] * 0.5, scores(picture()))
    context.wait(context.start(), 5000)


def test_another_frame_than_the_next_is_told(start: Start) -> None:
    context = start()
    context.set_inputs([Input(0, picture())])
    context.run()
    context._begun[0] = 9
    with pytest.raises(RknnError, match="gave frame 1 where 9 was the next"):
        context.get_outputs()
