"""uint8 pixels in the words of the first layer."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from rknnlite_npu.command_words import CNA, CommandWord
from rknnlite_npu.pixels import channel_factors, with_elements, with_pixels

from rknnlite.errors import ModelInvalid
from rknnlite.formats import IoTensor
from rknnlite.tensor import DType, Layout, QuantParams

from .plans import planned


def picture(mean: list[float], std: list[float], step: float, zero: int) -> IoTensor:
    return IoTensor(
        "x",
        (1, len(mean), 4, 4),
        DType.INT8,
        Layout.NHWC,
        QuantParams(step, zero),
        mean=tuple(mean),
        std=tuple(std),
    )


IMAGENET = ([123.675, 116.28, 103.53], [58.395, 57.12, 57.375], 0.01865844801068306, -14)


@pytest.mark.parametrize(
    ("io", "expected"),
    [
        (picture(*IMAGENET), [(30075, 15, -128), (30746, 15, -123), (30609, 15, -111)]),
        (picture([127.5], [64.0], 0.015625, 0), [(16384, 14, -128)] * 4),
        (picture([0.0] * 3, [255.0] * 3, 0.003921568859368563, -128), [(16384, 14, -128)] * 3),
        (picture([127.5] * 3, [127.5] * 3, 0.007843137718737125, 0), [(16384, 14, -128)] * 3),
        (picture([2.5] * 4, [1.0] * 4, 1.0, -126), [(16384, 14, -128)] * 4),
        (picture([10.0, 128.0, 60.5], [40.0, 64.0, 91.25], 0.03186274692416191, -65),
         [(25710, 15, -73), (32138, 16, -128), (22541, 16, -86)]),
        (picture([0.0, 127.5], [255.0, 127.5], 0.007843137718737125, 0), [(16384, 15, 0), (16384, 14, -128)] * 2),
    ],
)  # fmt: skip
def test_factors_are_mantissa_and_exponent(io: IoTensor, expected: list[tuple[int, int, int]]) -> None:
    assert [tuple(factor) for factor in channel_factors(io, len(io.mean))] == expected


@pytest.mark.parametrize(
    ("name", "shift_bits"),
    [("mean_std.rv1103.i8", 3), ("mobilenetv2_like.rv1106.i8", 3), ("conv_uneven.rv1106.i8", 4)],
)
def test_the_converter_has_the_same_numbers_in_files_for_rv1106(name: str, shift_bits: int) -> None:
    """Its first layers always convert pixels: scales two to a register, offsets of the first two times 2^shift."""
    program = planned(name).program
    words = map(CommandWord.of, program.words[: program.tasks[0].amount])
    registers = {word.register: word.value for word in words if word.unit == CNA}
    factors = channel_factors(program.io[0], program.tensors[program.inputs[0]].native[-1])
    scales = [
        registers[0x1050] & 0xFFFF,
        registers[0x1050] >> 16,
        registers[0x1054] & 0xFFFF,
        registers[0x1054] >> 16,
    ]
    assert [factor.scale for factor in factors] == scales[: len(factors)]
    assert [factor.shift for factor in factors][:shift_bits] == [
        registers[0x104C] >> 4 + 6 * lane & 0x3F for lane in range(shift_bits)
    ]
    offsets = np.array([registers[0x1058], registers[0x105C]], np.uint32).view(np.int32).tolist()
    assert [factor.offset << factor.shift for factor in factors[:2]] == offsets


def changes(name: str) -> dict[int, tuple[int, int]]:
    before, after = planned(name), planned(name, pixels=True)
    return {
        int(before.words[i]) & 0xFFFF: (
            CommandWord.of(before.words[i]).value,
            CommandWord.of(after.words[i]).value,
        )
        for i in np.flatnonzero(before.words != after.words)
    }


def test_a_picture_of_odd_width_and_three_channels() -> None:
    """13 x 17: rows have 32 pixels then."""
    assert changes("conv_3x3_odd.rk3588.i8") == {
        0x1020: (17 << 16 | 13, 32 << 16 | 13),
        0x104C: (0xB, 0xF3CF0),
        0x1050: (0x10000, 0x757BFF80),
        0x1054: (0x10000, 0x781AFF85),
        0x1058: (0x10000, 0x7791FF91),
        0x107C: (17, 32),
        0x1080: (17 * 12, 32 * 12),
        0x1180: (0, 0xFFF),
    }


def test_a_grey_picture() -> None:
    found = changes("conv_grey.rk3588.i8")
    assert {register: new for register, (_, new) in found.items()} == {
        0x1020: 16 << 16 | 16, 0x104C: 0x38E38E0, **dict.fromkeys((0x1050, 0x1054, 0x1058, 0x105C), 0x4000FF80),
        0x107C: 16, 0x1080: 16 * 15, 0x1180: 0xFFFF,
    }  # fmt: skip


def test_every_input_is_converted_in_every_task_that_reads_it() -> None:
    changed = planned("two_images.rk3588.i8", pixels=True)
    assert changed.doubts == ("input in1: pixels of 4 channels, by analogy; recorded were one and three",)
    resnet = [planned("resnet18_for_RK3588", pixels=pixels) for pixels in (False, True)]
    first = [i for i, task in enumerate(resnet[0].tasks) if task.node == 1]
    whole = [i for i in first if 0x104C in {int(w) & 0xFFFF for w in resnet[0].words_of(i)}]
    assert len(whole) > 9 and all((resnet[0].words_of(i) != resnet[1].words_of(i)).any() for i in whole)
    rest = [i for i, task in enumerate(resnet[0].tasks) if task.node != 1]
    assert all((resnet[0].words_of(i) == resnet[1].words_of(i)).all() for i in rest)


def test_inputs_of_more_channels_stay_and_the_mini_format_converts_as_it_is() -> None:
    assert changes("depthwise_3x3.rk3588.i8") == changes("conv_uneven.rv1106.i8") == {}


@pytest.mark.parametrize(
    ("mean", "std", "step"),
    [
        (0.0, 0.0, 1.0),
        (0.0, 1.0, -1.0),
        (0.0, float("nan"), 1.0),
        (0.0, 1e-30, 1e-30),
        (1e9, 1.0, 1.0),
        (0.0, 1e20, 1.0),
    ],
)
def test_factors_that_no_register_holds_are_refused(mean: float, std: float, step: float) -> None:
    with pytest.raises(ModelInvalid, match="which the NPU cannot"):
        channel_factors(picture([mean], [std], step, 0), 1)


@pytest.mark.parametrize("native", [(1, 1, 0, 24, 3), (1, 1, 24, 2040, 3), (1, 1, 4000, 24, 3)])
def test_pictures_that_no_register_holds_are_refused(native: tuple[int, ...]) -> None:
    found = planned("conv_relu.rk3588.i8")
    number = found.program.inputs[0]
    tensors = list(found.program.tensors)
    tensors[number] = dataclasses.replace(tensors[number], native=native)
    damaged = dataclasses.replace(found.program, tensors=tuple(tensors))
    with pytest.raises(ModelInvalid, match="converts no picture of"):
        with_pixels(damaged, found.words)


def test_rows_of_numbers_have_the_stride_of_the_input() -> None:
    """Files have the width; the input's rows are a multiple of 16 bytes of each channel."""
    for name, width, padded in (("conv_grey.rk3588.i8", 15, 16), ("conv_uneven.rk3588.fp16", 12, 16)):
        program = planned(name).program
        plain = with_elements(program, program.words)
        changed = np.flatnonzero(plain != program.words)
        assert len(changed)
        for at in changed:
            old, new = (CommandWord.of(words[at]) for words in (program.words, plain))
            assert (old.unit, old.register, old.value, new.value) == (CNA, 0x107C, width, padded)
    program = planned(
        "conv_3x3_wide.rk3588.i8"
    ).program  # its input has more than four channels or whole rows
    assert np.array_equal(with_elements(program, program.words), program.words)
