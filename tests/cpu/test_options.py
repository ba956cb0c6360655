"""Options that mean nothing are refused with the nearest name; those of a board's backend are taken."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import rknnlite
from rknnlite.errors import ParamInvalid
from tests.support.corpus import genuine

MODEL = genuine("conv_relu.rk3588.i8")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"colect_perf": True}, "did you mean collect_perf"),
        ({"priority": "bogus"}, "'bogus' is no legal value"),
        ({"outside": "some"}, "'some' is no legal value"),
        ({"flags": "x"}, "'x' is no legal value"),
        ({"zzz": 1}, "there are attributes"),
        ({"flags": 1 << 20}, "1048576 is no legal value"),
        ({"flags": -1}, "-1 is no legal value"),
        ({"user_key": "text"}, "'text' is no legal value"),
        ({"collect_perf": np.ones(3)}, "is no legal value"),
        ({"priority": np.ones(3)}, "is no legal value"),
    ],
)
def test_wild_options_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ParamInvalid, match=text):
        rknnlite.open(MODEL, backend="cpu", **options)
    with pytest.raises(ParamInvalid, match=text):
        rknnlite.Pool(MODEL, backend="cpu", workers=1, **options)


def test_matmul_refuses_them_too() -> None:
    with pytest.raises(ParamInvalid, match="option thread is unknown to backend cpu; did you mean threads"):
        rknnlite.Matmul(4, 64, 32, backend="cpu", thread=1)


def test_a_key_that_nobody_needs_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "rknnlite"):
        rknnlite.open(MODEL, backend="cpu", user_key=b"x", flags=1024).close()
    assert "a key is given, which the CPU reference ignores" in caplog.text
    assert "flags 0x400 do nothing on the CPU reference" in caplog.text


def test_options_of_a_board_are_taken() -> None:
    options: dict[str, Any] = {
        "priority": "low",
        "sram": True,
        "flush_inputs": True,
        "model_in_npu_memory": True,
    }
    rknnlite.open(MODEL, backend="cpu", **options).close()
