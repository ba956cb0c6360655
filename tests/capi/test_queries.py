"""Answers of ``rknn_query`` as programs read them."""

from __future__ import annotations

import pytest
from rknnlite_capi import answer, perf_text

import rknnlite
from rknnlite.abi.rknn_api import CustomString, InputOutputNum, Query, SdkVersion
from tests.support.corpus import EXAMPLES

MODEL = EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"


def test_the_version_is_one_that_the_vendors_wheel_can_read() -> None:
    """It splits the whole text at its points, and wants three numbers in front."""
    with rknnlite.open(MODEL, backend="cpu") as context:
        told = SdkVersion.from_buffer_copy(answer(context, Query.SDK_VERSION, 0))
    for text in (told.api_version.decode(), told.drv_version.decode()):
        major, minor, rest = text.split(".")
        assert int(major) >= 0 and int(minor) >= 0 and int(rest.split(" ")[0]) >= 0
    assert "CPU" in told.api_version.decode()


def test_numbers_and_text() -> None:
    with rknnlite.open(MODEL, backend="cpu") as context:
        number = InputOutputNum.from_buffer_copy(answer(context, Query.IN_OUT_NUM, 0))
        assert (number.n_input, number.n_output) == (1, 1)
        assert CustomString.from_buffer_copy(answer(context, Query.CUSTOM_STRING, 0)).string.decode() == (
            context.custom_string
        )


@pytest.mark.parametrize(
    ("command", "index", "error"),
    [
        (Query.INPUT_ATTR, 1, rknnlite.errors.ParamInvalid),
        (Query.INPUT_DYNAMIC_RANGE, 0, rknnlite.errors.ModelInvalid),
        (Query.DEVICE_MEM_INFO, 0, rknnlite.errors.ParamInvalid),
        (99, 0, rknnlite.errors.ParamInvalid),
    ],
)
def test_what_is_not_there(command: int, index: int, error: type[Exception]) -> None:
    with rknnlite.open(MODEL, backend="cpu") as context, pytest.raises(error):
        answer(context, command, index)


def test_figures_need_a_run() -> None:
    with rknnlite.open(MODEL, backend="cpu") as context, pytest.raises(rknnlite.errors.ParamInvalid):
        perf_text(context)
