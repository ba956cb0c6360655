"""The second design, of RK3562 and RK3576: the units of RK3588, whose registers are put together anew.

Found by comparing words of the same networks for RK3588, and as far as files give the simulator's numbers. RK3576 has numbers
for all channels in memory, which RK3562 has in registers, and stores sizes less one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Union

from rknnlite_graph.reading.npu_families import family_of

from ..command_words import CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA
from . import cna, core, dpu, elementwise, lut, ppu, rdma, scaling, writer
from .registers import Design, Field, Mode

__all__ = ["RK3562", "RK3576"]

_SEQUENCE = 0x0401
"""A unit between CNA and CORE."""
_ALL = 0xFFFFFFFF
_NONE = 0

_PLACES: Mapping[Field, Union[Field, int]] = {
    cna.NONALIGN: _NONE,
    cna.DECONV: _NONE,
    cna.WIDTH: cna.WIDTH.at(0x102C, 31, 16),
    cna.HEIGHT: cna.HEIGHT.at(0x102C, 15, 0),
    cna.CHANNEL_REAL: cna.CHANNEL_REAL.at(0x1028, 15, 0, more=-1),
    cna.CHANNEL: cna.CHANNEL.at(0x107C, 15, 0),
    cna.OUT_WIDTH: cna.OUT_WIDTH.at(0x1030, 15, 0),
    cna.OUT_ATOMS: cna.OUT_ATOMS.at(0x1034),
    cna.WEIGHT_BYTES: cna.WEIGHT_BYTES.at(0x101C),
    cna.KERNEL_BYTES: cna.KERNEL_BYTES.at(0x1020, 18, 0),
    cna.KERNEL[0]: cna.KERNEL[0].at(0x1024, 20, 16),
    cna.KERNEL[1]: cna.KERNEL[1].at(0x1024, 28, 24),
    cna.KERNELS: cna.KERNELS.at(0x1024, 13, 0),
    **{field: field.at(0x1048, field.high, field.low) for field in cna.CONVERT_SHIFT},
    cna.DATA_SIGN: cna.DATA_SIGN.at(0x1048, 3, 3),
    cna.CONVERT_ROUND: cna.CONVERT_ROUND.at(0x1048, 2, 2),
    cna.CONVERT_TYPE: cna.CONVERT_TYPE.at(0x1048, 1, 1),
    cna.CONVERT_BYPASS: cna.CONVERT_BYPASS.at(0x1048, 0, 0),
    **{
        field: field.at(0x104C + 4 * (lane // 2), 16 * (lane % 2) + 15, 16 * (lane % 2), signed=True)
        for lane, field in enumerate(cna.CONVERT_SCALE)
    },
    **{field: field.at(0x1054 + 4 * lane, signed=True) for lane, field in enumerate(cna.CONVERT_OFFSET)},
    cna.CONVERTED: _NONE,
    cna.WEIGHT_ZERO: cna.WEIGHT_ZERO.at(0x1074, 15, 0),
    cna.PAD[0]: cna.PAD[0].at(0x1080, 7, 0),
    cna.PAD[1]: cna.PAD[1].at(0x1080, 15, 8),
    cna.PAD_VALUE: cna.PAD_VALUE.at(0x1084),
    cna.FEATURES: cna.FEATURES.at(0x1088),
    cna.LINE_STRIDE: cna.LINE_STRIDE.at(0x1090),
    cna.SURFACE_STRIDE: cna.SURFACE_STRIDE.at(0x1094),
    cna.READ_WIDTH: cna.READ_WIDTH.at(0x1078, 31, 16),
    cna.READ_HEIGHT: cna.READ_HEIGHT.at(0x1078, 15, 0),
    cna.READ_CHANNEL: cna.READ_CHANNEL.at(0x107C, 15, 0),
    core.PROC_PRECISION: core.PROC_PRECISION.at(0x3018, 10, 8),
    core.DEPTHWISE: core.DEPTHWISE.at(0x3018, 1, 1),
    core.OUT_HEIGHT: core.OUT_HEIGHT.at(0x301C, 31, 16),
    core.OUT_WIDTH: core.OUT_WIDTH.at(0x301C, 15, 0),
    core.OUT_CHANNEL: core.OUT_CHANNEL.at(0x3020, 15, 0),
    core.TRUNCATE: core.TRUNCATE.at(0x3024, 4, 0),
    core.TRUNCATE_ROUND: _NONE,
    core.TRUNCATE_WINDOWS: core.TRUNCATE_WINDOWS,
    dpu.IN_PRECISION: _NONE,
    dpu.WIDTH: dpu.WIDTH.at(0x4020, 12, 0),
    dpu.HEIGHT: dpu.HEIGHT.at(0x4024, 12, 0),
    dpu.LARGEST: dpu.LARGEST.at(0x4024, 24, 22),
    dpu.CHANNEL: dpu.CHANNEL.at(0x402C, 12, 0),
    dpu.ZERO_BYPASS: dpu.ZERO_BYPASS.at(0x4038, 1, 1),
    dpu.ZERO_PER_CHANNEL: dpu.ZERO_PER_CHANNEL.at(0x4044, 0, 0),
    dpu.ZERO: dpu.ZERO.at(0x4054, 15, 0, signed=True),
    dpu.OUT_OFFSET: dpu.OUT_OFFSET.at(0x40AC, signed=True),
    dpu.OUT_HALF: dpu.OUT_HALF.at(0x40B0, 16, 16),
    dpu.OUT_SCALE: dpu.OUT_SCALE.at(0x40B0, 15, 0, signed=True),
    dpu.OUT_TYPE: dpu.OUT_TYPE.at(0x40B4, 31, 31),
    dpu.OUT_ROUND: dpu.OUT_ROUND.at(0x40B4, 30, 30),
    dpu.OUT_EXPONENT: dpu.OUT_EXPONENT.at(0x40B4, 19, 12),
    dpu.OUT_SHIFT: dpu.OUT_SHIFT.at(0x40B4, 11, 0),
    writer.COMBINED: _NONE,
    writer.TRANSPOSED: writer.TRANSPOSED.at(0x4050, 20, 20),
    writer.TRANSPOSED_ORIGIN: writer.TRANSPOSED_ORIGIN.at(0x4050, 21, 21),
    writer.SURFACE_LENGTH: writer.SURFACE_LENGTH.at(0x40C8),
    writer.ADDRESS: writer.ADDRESS.at(0x4018),
    writer.SURFACE_STRIDE: writer.SURFACE_STRIDE.at(0x401C),
    writer.WIDTH: _NONE,
    writer.HEIGHT: _NONE,
    writer.NOTCH: writer.NOTCH.at(0x4028, 15, 0),
    writer.SECOND_NOTCH: writer.SECOND_NOTCH.at(0x4028, 31, 16),
    writer.ORIGINAL_CHANNEL: writer.ORIGINAL_CHANNEL.at(0x402C, 12, 0),
    writer.REGROUP_COUNT: _NONE,
    **{field: field.at(0x4050, field.high, field.low) for field in writer.SIZE_E},
    writer.WRITTEN_CHANNEL: writer.WRITTEN_CHANNEL.at(0x4030, 31, 16),
    writer.GROUPS: _NONE,
    writer.OF_16_BITS: _NONE,
    writer.WRITTEN_HEIGHT: writer.WRITTEN_HEIGHT.at(0x4034, 28, 16),
    writer.WRITTEN_WIDTH: writer.WRITTEN_WIDTH.at(0x4034, 12, 0),
    writer.SURFACE_ADD: writer.SURFACE_ADD.at(0x40B8),
    scaling.BS.algorithm: scaling.BS.algorithm.at(0x4038, 21, 19),
    scaling.BS.alu_fetched: scaling.BS.alu_fetched.at(0x4038, 7, 7),
    scaling.BS.limited: _NONE,
    scaling.BS.relu_off: 1,
    scaling.BS.prelu: scaling.BS.prelu.at(0x4044, 2, 2),
    scaling.BS.multiplier_off: scaling.BS.multiplier_off.at(0x4050, 1, 1),
    scaling.BS.alu_off: scaling.BS.alu_off.at(0x4038, 6, 6),
    scaling.BS.off: scaling.BS.off.at(0x4038, 0, 0),
    scaling.BS.alu: scaling.BS.alu.at(0x4040),
    scaling.BS.multiplier: scaling.BS.multiplier.at(0x4044, 31, 16),
    scaling.BS.shift: scaling.BS.shift.at(0x4038, 13, 8),
    scaling.BS.multiplier_fetched: scaling.BS.multiplier_fetched.at(0x4050, 0, 0),
    scaling.BS.limit: _NONE,
    scaling.BS.shift_negative: scaling.BS.shift_negative.at(0x4054, 21, 16),
    scaling.BN.limited: _NONE,
    scaling.BN.relu_off: 1,
    scaling.BN.limit: _NONE,
    elementwise.CONVERT_TYPE: elementwise.CONVERT_TYPE.at(0x407C, 31, 31),
    elementwise.CONVERT_ROUND: elementwise.CONVERT_ROUND.at(0x407C, 30, 30),
    elementwise.MODE: _NONE,
    elementwise.SIZE: _NONE,
    elementwise.EQUAL: _NONE,
    elementwise.BINARY: _NONE,
    elementwise.ALGORITHM: elementwise.ALGORITHM.at(0x407C, 19, 16),
    elementwise.LIMITED: _NONE,
    elementwise.RELU_BYPASS: 1,
    elementwise.CONVERT_BYPASS: elementwise.CONVERT_BYPASS.at(0x407C, 8, 8),
    elementwise.TABLE_BYPASS: elementwise.TABLE_BYPASS.at(0x407C, 7, 7),
    elementwise.FETCHED: _NONE,
    elementwise.PRELU: _NONE,
    elementwise.MULTIPLIES: _NONE,
    elementwise.OPERATION_BYPASS: _NONE,
    elementwise.BYPASS: elementwise.BYPASS.at(0x407C, 0, 0),
    elementwise.OFFSET: elementwise.OFFSET.at(0x4080, 15, 0, signed=True),
    elementwise.SHIFT: elementwise.SHIFT.at(0x4084, 31, 22),
    elementwise.SHIFT_NEGATIVE: _NONE,
    elementwise.CONVERT_SHIFT: elementwise.CONVERT_SHIFT.at(0x4084, 21, 16),
    elementwise.SCALE: elementwise.SCALE.at(0x4084, 15, 0, signed=True),
    elementwise.LIMIT: _NONE,
    **{field: field.at(0x4090) for field in elementwise.OPERANDS},
    lut.CONFIG: lut.CONFIG.at(0x4108, more=0x68 - 0x160),
    lut.BYPASS: elementwise.TABLE_BYPASS.at(0x407C, 7, 7),
    rdma.EW_SURFACE_STRIDE: rdma.EW_SURFACE_STRIDE.at(0x5040),
    rdma.LINE_NOTCH: rdma.LINE_NOTCH.at(0x5078),
    rdma.SURFACE_NOTCH: rdma.SURFACE_NOTCH.at(0x504C, signed=True),
    rdma.EW_SURFACE_NOTCH: rdma.EW_SURFACE_NOTCH.at(0x506C, signed=True),
    rdma.EW_SURFACE_MODE: _NONE,
    rdma.EW_NONALIGN: _NONE,
    ppu.PAD_VALUE: ppu.PAD_VALUE.at(0x6044, 18, 0, signed=True),
    ppu.PAD_SIGN: _NONE,
    ppu.SOURCE_SIZE: ppu.SOURCE_SIZE.at(0x7030, 1, 1, more=1),
}

_IDLE: Mapping[int, Mapping[int, int]] = {
    CNA: {
        0x1004: _ALL,  # S_POINTER
        0x100C: 0x14300000,  # 26, 28: how rows and weights are kept; 20, 21: size of an element
        0x1010: _ALL,  # FEATURE_GRAINS
        0x1018: _ALL,
        0x1020: 0x20000000,
        0x1038: 0x0000200F,  # banks; weights are there from the task before
        0x103C: _ALL,
        0x1040: _ALL,  # banks of the buffer
        0x1044: _ALL,  # entries of the buffer
        0x106C: 0x00000020,
        0x1070: _ALL,  # the pad value before conversion
        0x1080: 0xFFFF0000,  # pads below and right, which sizes say, too
        0x108C: _ALL,  # lengths of bursts
        0x1098: _ALL,
        0x118C: _ALL,
    },
    CORE: {
        0x3004: _ALL,  # S_POINTER
        0x3018: 0x00000009,  # QD_EN; zero points among the weights
        0x8028: _ALL,
        0x802C: _ALL,
    },
    DPU: {
        0x4004: _ALL,  # S_POINTER
        0x400C: 0x000001E0,  # length of bursts
        0x4030: 0x0000001F,  # how wide elements are
        0x4038: 0x00070010,  # the operation with zero points
        0x4054: 0x80000000,  # zero points are there
        0x407C: 0x00000004,  # comes with products
        0x40C0: _ALL,
        0x40CC: 0x00000010,
    },
    DPU_RDMA: {
        0x5004: _ALL,  # S_POINTER
        0x5044: 0x00007800,  # length of bursts
    },
    PPU: {
        **ppu.WITHOUT_EFFECT,
        0x6048: _ALL,  # the pad value for 2, 3, 4 positions outside
        0x604C: _ALL,
        0x6050: _ALL,
        0x6084: 0xFFFFFFF8,
    },
    PPU_RDMA: {0x7004: _ALL, 0x7030: 0x40},
}

RK3562 = Design(
    group=family_of("RKNPU t4").bias_group,
    rows=16,
    depthwise=32,
    modes={0: Mode.DENSE, 1: Mode.DEPTHWISE, 2: Mode.PICTURE, 5: Mode.DEPTHWISE},
    run=family_of("RKNPU t4").pair_run,
    whole_surfaces=True,
    limits=True,
    adds_first=True,
    apart=True,
    counts_last=0,
    streams=2,
    flow_by_rdma=True,
    parts={_SEQUENCE: CORE},
    places=_PLACES,
    idle=_IDLE,
)

RK3576 = replace(
    RK3562,
    group=family_of("RKNPU f2").bias_group,
    rows=32,
    depthwise=64,
    modes={0: Mode.DENSE, 1: Mode.DEPTHWISE, 2: Mode.PICTURE, 6: Mode.PICTURE_BY_ROWS},
    run=family_of("RKNPU f2").pair_run,
    in_memory=True,
    places={
        **_PLACES,
        cna.WIDTH: cna.WIDTH.at(0x102C, 31, 16, more=1),
        cna.HEIGHT: cna.HEIGHT.at(0x102C, 15, 0, more=1),
        cna.CHANNEL_REAL: cna.CHANNEL_REAL.at(0x107C, 15, 0),
        cna.CHANNEL: cna.CHANNEL.at(0x107C, 15, 0, more=1),
        cna.READ_CHANNEL: cna.READ_CHANNEL.at(0x107C, 15, 0, more=1),
        cna.READ_WIDTH: cna.READ_WIDTH.at(0x1078, 31, 16, more=1),
        cna.READ_HEIGHT: cna.READ_HEIGHT.at(0x1078, 15, 0, more=1),
        cna.KERNEL[0]: cna.KERNEL[0].at(0x1024, 20, 16, more=1),
        cna.KERNEL[1]: cna.KERNEL[1].at(0x1024, 28, 24, more=1),
        cna.KERNELS: cna.KERNELS.at(0x1024, 13, 0, more=1),
        dpu.ZERO: _NONE,
        scaling.BS.multiplier_off: scaling.BS.multiplier_off.at(0x4050, 17, 17),
        scaling.BS.multiplier_fetched: scaling.BS.multiplier_fetched.at(0x4050, 16, 16),
        scaling.BS.alu: _NONE,
        scaling.BS.multiplier: _NONE,
        scaling.BS.shift: _NONE,
        scaling.BS.shift_negative: _NONE,
        scaling.BN.algorithm: scaling.BN.algorithm.at(0x4060, 6, 4),
        scaling.BN.alu_fetched: scaling.BN.alu_fetched.at(0x4060, 2, 2),
        scaling.BN.prelu: scaling.BN.prelu.at(0x4060, 10, 10),
        scaling.BN.multiplier_off: scaling.BN.multiplier_off.at(0x4060, 8, 8),
        scaling.BN.alu_off: scaling.BN.alu_off.at(0x4060, 1, 1),
        scaling.BN.alu: _NONE,
        scaling.BN.multiplier: _NONE,
        scaling.BN.shift: _NONE,
        scaling.BN.multiplier_fetched: scaling.BN.multiplier_fetched.at(0x4060, 9, 9),
        scaling.BN.shift_negative: _NONE,
        rdma.BS_USE: rdma.BS_USE.at(0x501C, 10, 8),
        rdma.BN_USE: rdma.BN_USE.at(0x5028, 10, 8),
        lut.CONFIG: lut.CONFIG.at(0x4108, more=0x68 - 0x2000006),
        lut.LE_END: lut.LE_END.at(0x4120, signed=True),
        lut.LO_START: lut.LO_START.at(0x4130, signed=True),
        lut.LO_END: lut.LO_END.at(0x4140, signed=True),
        lut.LE_SLOPE: lut.LE_SLOPE.at(0x4150, 15, 0, signed=True),
        lut.LE_SLOPE_SHIFT: lut.LE_SLOPE_SHIFT.at(0x4160, 4, 0),
        lut.LO_SLOPE: lut.LO_SLOPE.at(0x4170, 15, 0, signed=True),
        lut.LO_SLOPE_SHIFT: lut.LO_SLOPE_SHIFT.at(0x4184, 4, 0),
        **dict.fromkeys((*lut.UNUSED, *lut.UNUSED_TOO), _NONE),
        lut.LOW_VALUE: lut.LOW_VALUE,
        lut.HIGH_VALUE: lut.HIGH_VALUE,
        **{
            field: field
            for field in (rdma.BS_COMMON, rdma.BS_COMMON_BASE, rdma.BN_COMMON, rdma.BN_COMMON_BASE)
        },
    },
    idle={
        **_IDLE,
        CNA: {
            **_IDLE[CNA],
            0x1018: _ALL,
            0x1028: _ALL,  # channels and positions once more
            0x1030: 0xFFFF0000,  # bytes of weights of a kernel's half
            0x1038: _ALL,  # banks; weights are there from the task before
        },
        CORE: {**_IDLE[CORE], 0x3018: 0x10000089},
        DPU: {
            **_IDLE[DPU],
            0x400C: 0x40000000,
            0x4030: 0x00000F1F,  # how wide elements are
            0x4038: 0x00070010,
            0x4044: 0x00000002,
            0x4050: 0x8000FFFF,  # zero points are there; how wide elements are
            0x4060: 0x00000800,  # comes with the multiplier's bypass
            0x40D0: _ALL,
        },
        DPU_RDMA: {
            0x5004: _ALL,  # S_POINTER
            0x5034: 0x10000040,
            0x5044: 0x40000000,
        },
    },
)
