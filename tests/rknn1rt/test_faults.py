"""Every code of every function becomes a typed error that names the call, the code and what to do; nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rknnlite_rknn1rt.errors import CODES, MiniDriver

import rknnlite
from rknnlite.errors import RKNNRT_CODES, OutOfMemory, PreCompiledModelUnmatch, RknnError
from tests.doubles.rknn1.double1 import Double1, model

from .conftest import picture, scores

Start = Callable[..., Any]
FAILING = [row for row in CODES if row.code]
ON_THE_WAY = (
    "rknn_init", "rknn_query", "rknn_inputs_set", "rknn_run", "rknn_outputs_get", "rknn_outputs_release",
)  # fmt: skip


def test_codes_are_those_of_librknnrt_but_one() -> None:
    ours, theirs = ({row.code: row.error for row in rows} for rows in (CODES, RKNNRT_CODES))
    assert {code for code in ours if ours[code] is not theirs[code]} == {-14}
    assert all(row.remedy for row in FAILING)


@pytest.mark.parametrize("row", FAILING, ids=lambda row: row.name)
@pytest.mark.parametrize("function", ON_THE_WAY)
def test_code(double: Double1, function: str, row: Any) -> None:
    double.fault(function, row.code)
    with pytest.raises(RknnError) as caught, rknnlite.open(model()) as context:
        context.infer(picture())
    error = caught.value
    assert type(error) is row.error and error.code == row.code and error.name == row.name
    assert str(error).startswith(function) and f"{row.name} ({row.code})" in str(error)
    assert row.remedy in str(error)


def test_unknown_code(double: Double1) -> None:
    double.fault("rknn_run", -99)
    with (
        pytest.raises(RknnError, match=r"unknown code -99 \(-99\)") as caught,
        rknnlite.open(model()) as context,
    ):
        context.infer(picture())
    assert caught.value.code == -99


def test_mini_driver(double: Double1) -> None:
    """-14 is a warning in librknnrt; here the model cannot be opened."""
    double.fault("rknn_init", -14)
    with pytest.raises(MiniDriver, match=r"mini driver.*pre_compile=True") as caught:
        rknnlite.open(model())
    assert isinstance(caught.value, PreCompiledModelUnmatch)
    assert PreCompiledModelUnmatch.code == -11, "the class of the other code keeps its own"


@pytest.mark.parametrize("nth", range(1, 4))
def test_a_query_that_fails_while_opening(double: Double1, nth: int) -> None:
    double.fault("rknn_query", -5, nth)
    with pytest.raises(RknnError, match=r"rknn_query\((IN_OUT_NUM|INPUT_ATTR|OUTPUT_ATTR)\)"):
        rknnlite.open(model())


@pytest.mark.parametrize(
    "function", ["rknn_inputs_map", "rknn_outputs_map", "rknn_inputs_sync", "rknn_outputs_sync"]
)
def test_memory_calls(start: Start, double: Double1, function: str) -> None:
    context = start()
    double.fault(function, -1)
    with pytest.raises(RknnError, match=f"{function} failed"):
        context.map_inputs()
        context.map_outputs()
        context.run()


@pytest.mark.parametrize("function", ["rknn_create_mem", "rknn_inputs_map", "rknn_outputs_map"])
def test_memory_that_is_too_small(start: Start, double: Double1, function: str) -> None:
    context = start()
    double.short(function)
    with pytest.raises(OutOfMemory, match=rf"{function} gave 71 of 72 bytes"):
        context.create_mem(72)
        context.map_inputs()
        context.map_outputs()


def test_no_memory(start: Start, double: Double1) -> None:
    context = start()
    double.fault("rknn_create_mem", -4)
    with pytest.raises(OutOfMemory, match="rknn_create_mem gave no memory for 100 bytes"):
        context.create_mem(100)


def test_a_context_goes_on_after_an_error(start: Start, double: Double1) -> None:
    context, image = start(), picture()
    for function in ON_THE_WAY[2:]:
        double.fault(function, -2)
        with pytest.raises(RknnError):
            context.infer(image)
        np.testing.assert_array_equal(context.infer(image)[0], scores(image))


def test_a_failing_destroy_is_logged(start: Start, double: Double1, caplog: pytest.LogCaptureFixture) -> None:
    double.fault("rknn_destroy", -1)
    start().close()
    assert "rknn_destroy failed. error code: RKNN_ERR_FAIL (-1)" in caplog.text
