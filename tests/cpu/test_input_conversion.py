"""``inputs="board"``: pixels in the integers that the runtime has the NPU convert them with."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from rknnlite_cpu.input_conversion import InputConversion
from rknnlite_graph.pixel_factors import channel_factors
from rknnlite_graph.read import read_graph

from rknnlite import socs
from rknnlite.errors import ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.formats.tensor_attrs import native_input
from rknnlite.spi import Input
from tests.support.corpus import EXAMPLES, genuine, golden_of, open_cpu

TRAINED = EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"


def rounded(number: int, shift: int) -> int:
    whole, rest = number >> shift, number & ((1 << shift) - 1)
    half = 1 << (shift - 1)
    return whole + (rest > half or (rest == half and whole % 2 == 1))


def test_stored_values_are_those_of_the_registers() -> None:
    """``pixel * scale / 2^shift + offset``, saturated."""
    (io,), _ = ModelFile(TRAINED).model.io(0)
    stored = read_graph(ModelFile(TRAINED).model)
    attr = native_input(0, io, 1, socs.get("rk3588"))
    image = np.random.default_rng(0).integers(0, 256, (1, 224, 224, 3), np.uint8)
    (value,) = InputConversion(io, stored.tensors[stored.inputs[0]], attr, on_board=True).values(
        Input(0, image)
    )
    assert io.quant is not None
    for channel, factor in enumerate(channel_factors(io, 3)[:3]):
        table = [
            max(-128, min(127, rounded(p * factor.scale, factor.shift) + factor.offset)) for p in range(256)
        ]
        expected = np.array(table)[image[0, ..., channel]] - io.quant.zero_point
        assert np.array_equal(value[0, channel], expected)


def test_an_offset_of_a_half_becomes_whole() -> None:
    """Mean 127.5, deviation 64: the simulator has -127.5 and rounds each sum, the board adds -128."""
    name = "mean_std.rk3588.i8"
    inputs = golden_of(name).inputs
    with open_cpu(genuine(name)) as exact, open_cpu(genuine(name), extra={"inputs": "board"}) as board:
        assert board.inputs[0].quant is not None
        assert not np.array_equal(exact.infer(inputs)[0], board.infer(inputs)[0])


def test_floats_are_converted_as_ever() -> None:
    name = "mean_std.rk3588.i8"
    inputs = [array.astype(np.float32) for array in golden_of(name).inputs]
    with open_cpu(genuine(name)) as exact, open_cpu(genuine(name), extra={"inputs": "board"}) as board:
        assert np.array_equal(exact.infer(inputs)[0], board.infer(inputs)[0])


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("conv_1x1.rk3588.i8", "the NPU converts no pixels for input in0"),
        ("mean_std.rk3576.i8", "by analogy: how this NPU family converts pixels was never recorded"),
        ("mean_std.rk3588.i8", ""),
        ("conv_relu.rk3566.i8", ""),
    ],
)
def test_what_is_not_known_is_told(name: str, told: str, caplog: pytest.LogCaptureFixture) -> None:
    assert len(ModelFile(genuine(name)).model.io(0)[0]) == 1
    with caplog.at_level(logging.WARNING, "rknnlite"):
        open_cpu(genuine(name), extra={"inputs": "board"}).close()
    assert (told in caplog.text) if told else not caplog.records


def test_an_unknown_word() -> None:
    with pytest.raises(ParamInvalid, match="inputs must be 'exact' or 'board', not 'chip'"):
        open_cpu(genuine("mean_std.rk3588.i8"), extra={"inputs": "chip"})
