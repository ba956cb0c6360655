"""Options that mean nothing are refused with the nearest name; those of a board's backend are taken."""

from __future__ import annotations

from typing import Any

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
    ],
)
def test_wild_options_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ParamInvalid, match=text):
        rknnlite.open(MODEL, backend="cpu", **options)
    with pytest.raises(ParamInvalid, match=text):
        rknnlite.Pool(MODEL, backend="cpu", size=1, **options)


def test_options_of_a_board_are_taken() -> None:
    options: dict[str, Any] = {
        "priority": "low",
        "sram": True,
        "flush_inputs": True,
        "model_in_npu_memory": True,
    }
    rknnlite.open(MODEL, backend="cpu", **options).close()
