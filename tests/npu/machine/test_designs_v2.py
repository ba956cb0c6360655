"""Files for RK3562 and RK3576 on the machine, beside the vendor's simulator: int8 within one step, floats within a thousandth,
int16 within 6 of 65,536 steps; what is farther has its reason here, what is not understood its refusal.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rknnlite_npu.backend import MachineBackend
from rknnlite_npu.command_words import CNA, DPU, DPU_RDMA
from rknnlite_npu.machine import cna, rdma, scaling
from rknnlite_npu.machine.designs import DESIGNS
from rknnlite_npu.machine.refused import MachineRefused
from rknnlite_npu.machine.registers import UnitRegisters

from rknnlite.errors import ModelUnsupported
from rknnlite.formats import ModelFile
from rknnlite.spi import OpenOptions
from tests.support.corpus import DATA, EXAMPLES, genuine, goldens

from .programs import Board
from .test_corpus import ELU, TABLE, answers, differences

RK3562, RK3576 = "RKNPU t4", "RKNPU f2"
EXPLAINED: dict[str, tuple[float, str]] = {
    "act_tanh.rk3576.fp16": (5e-3, TABLE),
    "conv_mul.rk3576.fp16": (2e-3, TABLE),
    "hidden_high.rk3562.i8": (31, ELU),
}
"""File -> how far it may be off, in steps or in shares of the largest number; why."""
TRANSPOSED = "atoms of eight 16-bit numbers are transposed"
BYTES = "0x40bc bits"
REFUSED = {
    "attention.rk3562.fp16": "0x4050 bits 0x400000",
    "bfloat_chain.rk3562.bf16": "no table was uploaded",
    "bfloat_chain.rk3576.bf16": "no table was uploaded",
    "bfloat_prelu.rk3576.bf16": "slopes of bf16 lie as fp32",
    "bytes.rk3562.w8a16": "0x4034",
    "hybrid_float.rk3576.i8": "COMB_USE = 0x1",
    "int16_chain.rk3562.i16": "PROC_PRECISION = 0x1: differs from IN_PRECISION",
    "int16_chain.rk3576.i16": "no table was uploaded",
    "int16_fused.rk3562.i16": "PROC_PRECISION = 0x1: differs from IN_PRECISION",
    "iresnet_like.rk3562.i8": TRANSPOSED,
    "lstm_bidirectional.rk3562.i8": BYTES,
    "mobilenetv3_like.rk3562.i8": "BN_LOW = 0x0: differs from BN_LOW",
    "nibbles.rk3576.w4a16": "0x100c bits 0x400000",
    "operands.rk3562.i8": "EW_DIV_BYPASS = 0x0",
    "products.rk3562.fp16": "0x4050 bits 0x400000",
    "ranking.rk3576.i8": TRANSPOSED,
    "sequence_rank3.rk3562.i8": BYTES,
    "shapes.rk3562.fp16": "0x4050 bits 0x400000",
}
"""File -> what of it is not understood."""


def files(soc: str) -> list[Path]:
    found = [path for path in sorted(DATA.glob(f"*.{soc}.*.rknn")) if path.stem not in REFUSED]
    found = [path for path in found if answers(path).exists()]
    return [*found, EXAMPLES / "resnet18" / f"resnet18_for_{soc.upper()}.rknn"]


def check(path: Path) -> None:
    allowed, _ = EXPLAINED.get(path.stem, (0.0, ""))
    for quantised, difference in differences(path):
        assert difference <= max(allowed, 1 if quantised else 1e-3)


@pytest.mark.parametrize(
    "name",
    ["conv_relu.rk3562.i8", "depthwise_3x3.rk3562.i8", "packed_mixed.rk3562.i8", "pooling.rk3562.i8", "resnet_like.rk3562.i8",
     "channels.rk3562.fp16", "conv_relu.rk3576.i8", "depthwise_3x3.rk3576.i8", "packed_mixed.rk3576.i8", "pooling.rk3576.i8",
     "resnet_like.rk3576.i8", "packed_i16.rk3576.i16", "plain_mixed.rk3576.fp16"],
)  # fmt: skip
def test_some_files(name: str) -> None:
    check(genuine(name))


@pytest.mark.slow
@pytest.mark.parametrize("path", [*files("rk3562"), *files("rk3576")], ids=lambda path: path.stem)
def test_every_file(path: Path) -> None:
    try:
        check(path)
    except ModelUnsupported as error:
        assert "graphs" in str(error), "only files of several shapes are not run"


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused(name: str) -> None:
    context = MachineBackend().open(ModelFile(genuine(name)), OpenOptions())
    with pytest.raises(MachineRefused, match=REFUSED[name]):
        context.infer([np.zeros(attr.dims, np.float32) for attr in context.inputs])


def test_most_int8_files_are_within_one_step() -> None:
    names = [
        path.stem
        for soc in ("rk3562", "rk3576")
        for path in DATA.glob(f"*.{soc}.i8.rknn")
        if answers(path).exists()
    ]
    larger = [name for name in names if name in EXPLAINED]
    assert sum(name in REFUSED for name in names) <= 0.25 * len(names)
    assert len(larger) <= 0.04 * len(names) and all(EXPLAINED[name][1] == ELU for name in larger)


def test_sizes_are_less_one_where_the_design_has_them_so() -> None:
    values = {0x102C: 9 << 16 | 7, 0x107C: 15, 0x1028: 3}
    one, other = (UnitRegisters(CNA, values, 0, DESIGNS[family]) for family in (RK3562, RK3576))
    assert (one[cna.WIDTH], one[cna.HEIGHT], one[cna.CHANNEL], one[cna.CHANNEL_REAL]) == (9, 7, 15, 2)
    assert (other[cna.WIDTH], other[cna.HEIGHT], other[cna.CHANNEL], other[cna.CHANNEL_REAL]) == (
        10,
        8,
        16,
        15,
    )


def adding(board: Board, common: np.ndarray) -> tuple[dict[int, dict[int, int]], int]:
    """Two positions of 16 channels, to which RK3576 adds a number of memory, behind it what follows there."""
    target = board.room(32)
    none = {0x4048: 0x80000000, 0x404C: 0x7FFFFFFF, 0x4058: 0x80000000, 0x405C: 0x7FFFFFFF}
    none |= {
        at + more: value
        for at in (0x406C, 0x4074, 0x4088, 0x40A4)
        for more, value in ((0, 0x80000000), (4, 0x7FFFFFFF))
    }
    words = {0x400C: 5, 0x4018: target, 0x401C: 2, 0x4020: 1, 0x402C: 15, 0x4030: 15 << 16, 0x4034: 1}
    words |= {
        0x4038: 0x100012,
        0x4044: 2,
        0x4050: 0x20000,
        0x4060: 0x903,
        0x407C: 0x10041C1,
        0x4084: 1,
        0x40B0: 1,
    }
    rdma_words = {0x500C: 1, 0x5014: 15, 0x501C: 2, 0x5024: board.place(common), 0x5034: 1, 0x5044: 9}
    rdma_words[0x5018] = board.place(np.arange(32, dtype=np.int8))
    return {DPU: {**none, **words}, DPU_RDMA: rdma_words}, target


def test_numbers_for_all_channels_are_fetched() -> None:
    board = Board(RK3576)
    common = np.zeros(16, np.int32)
    common[0] = 7
    registers, target = adding(board, common)
    board.run(registers, 0x18)
    assert np.array_equal(board.read(target, "int8", 32), np.arange(32) + 7)


def test_results_stay_between_limits_which_come_twice() -> None:
    board = Board(RK3576)
    common = np.zeros(16, np.int32)
    registers, target = adding(board, common)
    registers[DPU].update({0x4048: 5, 0x4058: 5, 0x404C: 20, 0x405C: 20})
    board.run(registers, 0x18)
    assert np.array_equal(board.read(target, "int8", 32), np.clip(np.arange(32), 5, 20))
    registers[DPU][0x4058] = 6
    with pytest.raises(MachineRefused, match="0x4058 BS_LOW = 0x6: differs from BS_LOW"):
        board.run(registers, 0x18)


def test_a_zero_point_and_a_number_to_add_at_once_are_refused() -> None:
    board = Board(RK3576)
    registers, _ = adding(board, np.zeros(16, np.int32))
    registers[DPU_RDMA][0x501C] = 6
    with pytest.raises(MachineRefused, match="BRDMA_COMMON = 0x3"):
        board.run(registers, 0x18)


def test_fields_that_other_designs_have_not_are_never_read_there() -> None:
    registers = UnitRegisters(DPU_RDMA, {}, 0)
    assert not registers.has(rdma.BS_COMMON)
    assert UnitRegisters(DPU_RDMA, {}, 0, DESIGNS[RK3576]).has(rdma.BS_COMMON)
    assert DESIGNS[RK3562].places[scaling.BS.relu_off] == 1


@pytest.mark.parametrize("name", ["conv_relu.rk3562.i8", "conv_relu.rk3576.i8", "packed_i16.rk3576.i16"])
def test_pixels_are_converted_as_the_file_says(name: str) -> None:
    """By integers, so at most some steps apart from numbers that were converted before; those of int16 on the CPU."""
    context = MachineBackend().open(ModelFile(genuine(name)), OpenOptions())
    pixels = [np.asarray(x, np.uint8) for x in goldens(answers(genuine(name)))[0].inputs]
    as_pixels, as_numbers = (
        context.infer([x.astype(kind) for x in pixels])[0] for kind in (np.uint8, np.float32)
    )
    quant = context.outputs[0].quant
    assert quant is not None
    assert np.abs(as_pixels.astype(np.float64) - as_numbers).max() / quant.scale < 8
