"""Flags of rknn_init and options of rknnlite.open say the same, in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rknnlite_backend.abi.init_flags import flags_of, options_of

import rknnlite
from rknnlite.abi.rknn_api import InitFlag
from rknnlite.errors import ContextInvalid, ParamInvalid
from tests.support.corpus import genuine

MODEL = genuine("conv_relu.rk3588.i8")
PAIRS: list[tuple[int, dict[str, Any]]] = [
    (0, {}),
    (1, {"priority": "medium"}),
    (2, {"priority": "low"}),
    (4, {"async_mode": True}),
    (8, {"collect_perf": True}),
    (16, {"outside": "all"}),
    (512, {"outside": "internal"}),
    (256, {"info_only": True}),
    (2048, {"sram": True}),
    (16384, {"flush_inputs": False}),
    (32768, {"flush_outputs": False}),
    (65536, {"model_in_npu_memory": True}),
    (64 | 128 | 1024 | 4096 | 8192, {"flags": 64 | 128 | 1024 | 4096 | 8192}),
    (8192 | 2048 | 2, {"priority": "low", "sram": True, "flags": 8192}),
]


@pytest.mark.parametrize(("flags", "options"), PAIRS)
def test_both_directions(flags: int, options: dict[str, Any]) -> None:
    assert options_of(flags) == options
    assert flags_of(options) == flags


@pytest.mark.parametrize("flags", [flags for flags, _ in PAIRS if not flags & 16 and not flags & 512])
def test_a_context_of_the_reference_opens_with_them(flags: int) -> None:
    with rknnlite.open(MODEL, backend="cpu", **options_of(flags)) as context:
        assert context.memory().weight > 0
        assert len(context.inputs) == len(context.native_inputs) == 1


def test_all_memory_outside_counts_where_both_are_set() -> None:
    assert options_of(16 | 512) == {"outside": "all"}


def test_weights_are_shared_with_somebody() -> None:
    master = object()
    assert options_of(32, master) == {"master": master}
    assert flags_of({"master": master}) == 32
    assert options_of(0, master) == {}
    with pytest.raises(ParamInvalid, match=r"SHARE_WEIGHT_MEM needs the context"):
        options_of(32)


@pytest.mark.parametrize(
    ("flags", "words"), [(3, "priority 3 does not exist"), (0x20000, "no flag 0x20000"), (-1, "no flag")]
)
def test_what_rknn_init_does_not_know(flags: int, words: str) -> None:
    with pytest.raises(ParamInvalid, match=words):
        options_of(flags)


def test_every_flag_goes_somewhere() -> None:
    for flag in InitFlag:
        assert flags_of(options_of(flag, master=object())) == flag


def test_a_context_for_information_runs_nothing() -> None:
    with rknnlite.open(MODEL, backend="cpu", info_only=True) as context:
        (attr,) = context.inputs
        with pytest.raises(ContextInvalid, match="opened with info_only=True"):
            context.infer(np.zeros(attr.dims, np.uint8))
        for native in (*context.native_inputs, *context.native_outputs):
            context.bind(native, context.create_mem(native.size_with_stride))
        for call in (context.run, context.start):
            with pytest.raises(ContextInvalid, match="opened with info_only=True"):
                call()
